package cpu

import "math"

// The range in which exp32 is computed.
const expMin, expMax = -87, 88

// exp32 is the exponential function as the kernels compute it: 2ⁿ·e^r with
// r = x - n·ln 2, and a polynomial for e^r.
func exp32(x float32) float32 {
	x = min(max(x, expMin), expMax)
	n := float32(math.RoundToEven(float64(fma32(x, 1.4426950408889634, 0))))
	r := fma32(n, -0.693359375, x)
	r = fma32(n, 2.12194440e-4, r)
	p := float32(1.9875691500e-4)
	for _, c := range [...]float32{1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1, 1, 1} {
		p = fma32(p, r, c)
	}
	return math.Float32frombits(math.Float32bits(p) + uint32(int32(n))<<23)
}

// expOrZero is exp32, with zero for what is too small to be computed.
func expOrZero(x float32) float32 {
	if x < expMin {
		return 0
	}
	return exp32(x)
}

func plainScores(dst, q, keys []float32, dim, n int) {
	for i := range n {
		var even, odd [lanes]float32
		for d := 0; d < dim; d += 2 {
			a, b := q[i*dim+d], q[i*dim+d+1]
			k := keys[d*lanes:][:2*lanes]
			for t := range lanes {
				even[t] = fma32(a, k[t], even[t])
				odd[t] = fma32(b, k[lanes+t], odd[t])
			}
		}
		for t := range lanes {
			dst[i*lanes+t] = even[t] + odd[t]
		}
	}
}

func plainAbsorb(states, scores, values []float32, dim, n, from, to int, scale float32) {
	for i := range n {
		plainAbsorbOne(states[i*(stateHead+dim):][:stateHead+dim], scores[i*lanes:][:lanes], values, from, to, scale)
	}
}

func plainAbsorbOne(state, scores, values []float32, from, to int, scale float32) {
	top := state[stateTop]
	for t := from; t < to; t++ {
		scores[t] *= scale
		top = max(top, scores[t])
	}
	factor := expOrZero(state[stateTop] - top)
	state[stateTop], state[stateFactor] = top, factor
	for t := range lanes {
		if t < from || t >= to {
			scores[t] = 0
		} else {
			scores[t] = expOrZero(scores[t] - top)
		}
		state[t] = fma32(state[t], factor, scores[t])
	}
	sums := state[stateHead:]
	for d := range sums {
		sums[d] *= factor
	}
	for t := from; t < to; t++ {
		for d, v := range values[t*len(sums):][:len(sums)] {
			sums[d] = fma32(scores[t], v, sums[d])
		}
	}
}
