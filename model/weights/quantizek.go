package weights

import "math"

// packScales packs eight 6-bit scales and eight 6-bit minima into 12 bytes;
// see ScaleAndMin.
func packScales(packed []byte, scales, minima *[8]uint8) {
	for j := range 4 {
		packed[j] = scales[j] | scales[j+4]>>4<<6
		packed[j+4] = minima[j] | minima[j+4]>>4<<6
		packed[j+8] = scales[j+4]&15 | minima[j+4]<<4
	}
}

// fitOffset finds a scale and a minimum such that scale*q-minimum, with whole
// q from 0 to top, is near to x. It tries grids a little finer and a little
// coarser than the one that spans the range, and for each takes the scale and
// minimum with the least weighted squared error. Larger elements weigh more,
// because an error in them moves a dot product more.
func fitOffset(x []float32, top int) (scale, minimum float32) {
	lowest, highest := bounds(x)
	lowest = min(lowest, 0)
	if highest <= lowest {
		return 0, -lowest
	}
	weights := offsetWeights(x)
	bestError := math.Inf(1)
	for step := -10; step <= 10; step++ {
		inverse := (float32(top) + 0.1*float32(step)) / (highest - lowest)
		sums := assigned(x, &weights, lowest, inverse, top)
		s, m := sums.solve(1/inverse, -lowest)
		if e := sums.squaredError(s, m); e < bestError {
			bestError, scale, minimum = e, float32(s), float32(m)
		}
	}
	return scale, minimum
}

func offsetWeights(x []float32) [32]float32 {
	var weights [32]float32
	var squares float32
	for _, v := range x {
		squares += v * v
	}
	mean := sqrt32(squares / float32(len(x)))
	for i, v := range x {
		weights[i] = mean + max(v, -v)
	}
	return weights
}

// offsetSums are weighted sums over the elements x of a run and their places q
// on a grid: all that is needed to fit it and to know its error.
type offsetSums struct{ w, q, qq, x, xq float64 }

// assigned puts each element on the nearest point of a grid that begins at
// lowest, and sums up.
func assigned(x []float32, weights *[32]float32, lowest, inverse float32, top int) offsetSums {
	var sumW, sumQ, sumQQ, sumX, sumXQ float32
	for i, v := range x {
		q := float32(level((v-lowest)*inverse+0.5, top))
		w := weights[i]
		wq, wx := w*q, w*v
		sumW += w
		sumQ += wq
		sumQQ += wq * q
		sumX += wx
		sumXQ += wx * q
	}
	return offsetSums{float64(sumW), float64(sumQ), float64(sumQQ), float64(sumX), float64(sumXQ)}
}

// solve returns the scale and the minimum (kept non-negative) that fit best, or
// those given if all elements lie on one point.
func (s *offsetSums) solve(scale, minimum float32) (bestScale, bestMinimum float64) {
	determinant := s.w*s.qq - s.q*s.q
	if determinant <= 0 {
		return float64(scale), float64(minimum)
	}
	bestMinimum = (s.q*s.xq - s.qq*s.x) / determinant
	if bestMinimum < 0 {
		return s.xq / s.qq, 0
	}
	return (s.w*s.xq - s.x*s.q) / determinant, bestMinimum
}

// squaredError is the weighted sum of (scale*q - minimum - x)², less that of
// x², which is the same for every grid.
func (s *offsetSums) squaredError(scale, minimum float64) float64 {
	return scale*(scale*s.qq-2*s.xq-2*minimum*s.q) + minimum*(minimum*s.w+2*s.x)
}

// packOffsets chooses the scales of a Q4_K or Q5_K block, stores them, and
// returns each element's level.
func packOffsets(block []byte, src []float32, top int) *[256]byte {
	var scales, minima [8]float32
	for j := range 8 {
		scales[j], minima[j] = fitOffset(src[32*j:32*j+32], top)
	}
	_, maxScale := bounds(scales[:])
	_, maxMin := bounds(minima[:])
	putHalf(block, maxScale/63)
	putHalf(block[2:], maxMin/63)
	d, dmin := half(block), half(block[2:])
	inverseScale, inverseMin := reciprocal(d), reciprocal(dmin)
	var sc, mn [8]uint8
	var levels [256]byte
	for j := range 8 {
		sc[j] = level(scales[j]*inverseScale+0.5, 63)
		mn[j] = level(minima[j]*inverseMin+0.5, 63)
		inverse, m := reciprocal(d*float32(sc[j])), dmin*float32(mn[j])
		for i, v := range src[32*j : 32*j+32] {
			levels[32*j+i] = level((v+m)*inverse+0.5, top)
		}
	}
	packScales(block[4:16], &sc, &mn)
	return &levels
}

func packQ4_K(block []byte, src []float32) {
	levels := packOffsets(block, src, 15)
	qs := block[16:144]
	for g := range 4 {
		for i := range 32 {
			qs[32*g+i] = levels[64*g+i] | levels[64*g+32+i]<<4
		}
	}
}

func packQ5_K(block []byte, src []float32) {
	levels := packOffsets(block, src, 31)
	high, qs := block[16:48], block[48:176]
	clear(high)
	for g := range 4 {
		for i := range 32 {
			lo, hi := levels[64*g+i], levels[64*g+32+i]
			qs[32*g+i] = lo&15 | hi<<4
			high[i] |= lo>>4<<(2*g) | hi>>4<<(2*g+1)
		}
	}
}

// fitSymmetric finds a scale such that scale*q, with whole q from -32 to 31,
// is near to x. The sign of the scale lets the widest element use -32.
func fitSymmetric(x []float32) float32 {
	w := widest(x)
	if w == 0 {
		return 0
	}
	var best, bestGain float32
	for step := -9; step <= 9; step++ {
		inverse := -(32 + 0.1*float32(step)) / w
		var sumXQ, sumQQ float32
		for _, v := range x {
			q := nearby(v * inverse)
			weight := v * v
			sumXQ += weight * v * q
			sumQQ += weight * q * q
		}
		if sumQQ > 0 && sumXQ*sumXQ > bestGain*sumQQ {
			best, bestGain = sumXQ/sumQQ, sumXQ*sumXQ/sumQQ
		}
	}
	return best
}

// nearby is symmetricLevel for the search, which takes most of the time: without
// a branch or a conversion, because from 2^23 on a float32 has no fraction. It
// rounds halves to even, which moves no scale that matters.
func nearby(v float32) float32 {
	const whole = 3 << 22
	return max(-32, min(31, float32(v+whole)-whole))
}

func symmetricLevel(v float32) int { return max(-32, min(31, roundAway(v))) }

func packQ6_K(block []byte, src []float32) {
	var scales [16]float32
	for j := range scales {
		scales[j] = fitSymmetric(src[16*j : 16*j+16])
	}
	putHalf(block[208:], widest(scales[:])/-128)
	d := half(block[208:])
	inverseScale := reciprocal(d)
	var levels [256]byte
	for j, s := range scales {
		sc := int8(max(-128, min(127, roundAway(s*inverseScale))))
		block[192+j] = byte(sc)
		inverse := reciprocal(d * float32(sc))
		for i, v := range src[16*j : 16*j+16] {
			levels[16*j+i] = byte(symmetricLevel(v*inverse) + 32)
		}
	}
	for h := range 2 {
		low, high, q := block[64*h:64*h+64], block[128+32*h:160+32*h], levels[128*h:128*h+128]
		for i := range 32 {
			low[i] = q[i]&15 | q[i+64]<<4
			low[i+32] = q[i+32]&15 | q[i+96]<<4
			high[i] = q[i]>>4 | q[i+32]>>4<<2 | q[i+64]>>4<<4 | q[i+96]>>4<<6
		}
	}
}
