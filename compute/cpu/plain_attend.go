package cpu

import (
	"math"

	"parley/compute"
)

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
	for _, c := range [...]float32{1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1,
		1, 1} {
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

// plainAttend is the loops of attention over a pool of one type.
type plainAttend struct{ kind compute.KVType }

func plainAttendKernels(kind compute.KVType) attendKernels {
	p := plainAttend{kind}
	return attendKernels{p.scores, p.weigh, p.addValues, nil}
}

// plainTile is how many queries share the widening of a key.
const plainTile = 4

func (p plainAttend) scores(dst, q []float32, keys []byte, dim, n int) {
	for n > 0 {
		tile := min(n, plainTile)
		p.scoreTile(dst, q, keys, dim, tile)
		dst, q, n = dst[tile*lanes:], q[tile*dim:], n-tile
	}
}

// scoreTile sets dst to the products of up to plainTile queries with sixteen keys.
func (p plainAttend) scoreTile(dst, q []float32, keys []byte, dim, n int) {
	var even, odd [plainTile][lanes]float32
	var key [2 * lanes]float32
	for d := 0; d < dim; d += 2 {
		widen(p.kind, key[:], keys[d*lanes*p.kind.ElementBytes():])
		for i := range n {
			a, b := q[i*dim+d], q[i*dim+d+1]
			e, o := &even[i], &odd[i]
			for t := range lanes {
				e[t] = fma32(a, key[t], e[t])
				o[t] = fma32(b, key[lanes+t], o[t])
			}
		}
	}
	scales := p.scales(keys, dim)
	for i := range n {
		for t, scale := range scales {
			dst[i*lanes+t] = (even[i][t] + odd[i][t]) * scale
		}
	}
}

// scales returns the scales of the sixteen tokens of a part of a block: ones
// if the type has none.
func (p plainAttend) scales(part []byte, dim int) (scales [lanes]float32) {
	if p.kind.ScaleBytes() > 0 {
		widen(compute.KVBF16, scales[:], part[lanes*dim*p.kind.ElementBytes():])
		return scales
	}
	for t := range scales {
		scales[t] = 1
	}
	return scales
}

func (p plainAttend) weigh(states, scores []float32, values []byte, dim, n, from, to int, scale float32) {
	scales := p.scales(values, dim)
	size := stateHead + dim
	for i := range n {
		plainWeigh(states[i*size:][:size], scores[i*lanes:][:lanes], scales[:], from, to, scale)
	}
}

func (p plainAttend) addValues(states, weights []float32, values []byte, dim, n, from, to int) {
	for d := 0; d < dim; d += lanes {
		p.addColumns(states, weights, values, dim, d, n, from, to)
	}
	for i := range n {
		states[i*(stateHead+dim)+stateFactor] = 1
	}
}

// plainWeigh turns scores into weights of the values as they are stored, and
// updates all of a query's state but its values.
func plainWeigh(state, scores, scales []float32, from, to int, scale float32) {
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
		scores[t] *= scales[t]
	}
}

// addColumns adds the weighted values of up to sixteen dimensions, from d on,
// to the states of n queries.
func (p plainAttend) addColumns(states, weights []float32, values []byte, dim, d, n, from, to int) {
	width, size := min(lanes, dim-d), stateHead+dim
	for i := range n {
		factor := states[i*size+stateFactor]
		for c := range width {
			states[i*size+stateHead+d+c] *= factor
		}
	}
	var value [lanes]float32
	for t := from; t < to; t++ {
		widen(p.kind, value[:width], values[(t*dim+d)*p.kind.ElementBytes():])
		for i := range n {
			weight, sums := weights[i*lanes+t], states[i*size+stateHead+d:][:width]
			for c := range sums {
				sums[c] = fma32(weight, value[c], sums[c])
			}
		}
	}
}
