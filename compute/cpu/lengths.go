package cpu

// add adds src to dst.
func (k *kernelSet) add(dst, src []float32) {
	n := len(src) &^ (lanes - 1)
	k.addTo(dst, src, n)
	plainAddTo(dst[n:], src[n:], len(src)-n)
}

// addWeighted adds scale times src to dst.
func (k *kernelSet) addWeighted(dst, src []float32, scale float32) {
	n := len(src) &^ (lanes - 1)
	k.addScaled(dst, src, n, scale)
	plainAddScaled(dst[n:], src[n:], len(src)-n, scale)
}

// scale sets dst to scale times src.
func (k *kernelSet) scale(dst, src []float32, scale float32) {
	n := len(src) &^ (lanes - 1)
	k.scaleTo(dst, src, n, scale)
	plainScaleTo(dst[n:], src[n:], len(src)-n, scale)
}

// merge sets dst to keep times dst plus add times src.
func (k *kernelSet) merge(dst, src []float32, keep, add float32) {
	n := len(src) &^ (lanes - 1)
	k.blend(dst, src, n, keep, add)
	plainBlend(dst[n:], src[n:], len(src)-n, keep, add)
}

// norm sets dst to the RMS norm of src times (w + offset). sums is room for 16 values.
func (k *kernelSet) norm(dst, src, w, sums []float32, eps, offset float32) {
	n := len(src) &^ (lanes - 1)
	k.sumSquares(sums, src, n)
	for i, v := range src[n:] {
		sums[i] += v * v
	}
	scale := inverseRoot(fold(sums)/float32(len(src)) + eps)
	k.scaleNorm(dst, src, w, n, scale, offset)
	plainScaleNorm(dst[n:], src[n:], w[n:], len(src)-n, scale, offset)
}

// turn rotates the pairs of lo and hi.
func (k *kernelSet) turn(lo, hi, cos, sin []float32) {
	n := len(lo) &^ (lanes - 1)
	k.rotate(lo, hi, cos, sin, n)
	plainRotate(lo[n:], hi[n:], cos[n:], sin[n:], len(lo)-n)
}

// turnPairs rotates the pairs of neighbours in x.
func (k *kernelSet) turnPairs(x, cos, sin []float32) {
	n := len(x) &^ (lanes - 1)
	k.rotatePairs(x, cos, sin, n)
	plainRotatePairs(x[n:], cos[n/2:], sin[n/2:], len(x)-n)
}

// fold adds sixteen lanes in the order in which all kernels do: halves, quarters, and so on.
func fold(sums []float32) float32 {
	var s [lanes]float32
	copy(s[:], sums)
	for n := lanes / 2; n > 0; n /= 2 {
		for i := range n {
			s[i] += s[i+n]
		}
	}
	return s[0]
}
