package cpu

import (
	"math"
	"unsafe"

	"parley/compute"
	"parley/model/weights"
)

// plainKernels are the twins in Go of the generated kernels. They define
// what those compute, and serve processors that have none.
var plainKernels = kernelSet{
	name:       "plain",
	packedRows: 6,
	floatRows:  6,
	gemmPacked: [packKinds]gemmPackedFunc{
		packQ8:  plainGemmPacked(weights.Q8_0),
		packQ4:  plainGemmPacked(weights.Q4_0),
		packQ4K: plainGemmPacked(weights.Q4_K),
		packQ6K: plainGemmPacked(weights.Q6_K),
	},
	gemmF32:     plainGemmF32,
	gemmF16:     plainGemmF16,
	gemmBF16:    plainGemmBF16,
	quantize:    plainQuantize,
	sumSquares:  plainSumSquares,
	scaleNorm:   plainScaleNorm,
	addTo:       plainAddTo,
	addScaled:   plainAddScaled,
	scaleTo:     plainScaleTo,
	blend:       plainBlend,
	gateSiLU:    plainGateSiLU,
	gateGELU:    plainGateGELU,
	rotate:      plainRotate,
	rotatePairs: plainRotatePairs,
	attend: [compute.KVTypes]attendKernels{
		compute.KVF32:  plainAttendKernels(compute.KVF32),
		compute.KVBF16: plainAttendKernels(compute.KVBF16),
		compute.KVInt8: plainAttendKernels(compute.KVInt8),
		compute.KVFP8:  plainAttendKernels(compute.KVFP8),
	},
}

// fma32 is a·b+c rounded once, up to a rare double rounding.
func fma32(a, b, c float32) float32 { return float32(float64(a)*float64(b) + float64(c)) }

func inverseRoot(x float32) float32 { return float32(1 / math.Sqrt(float64(x))) }

// view returns the bytes as elements of another type.
func view[T any](b []byte) []T {
	var t T
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/int(unsafe.Sizeof(t)))
}

func plainGemmF32(rows int, dst []float32, dstStride int, x []float32, xStride int, panel []byte, cols int, more bool) {
	plainGemm(rows, dst, dstStride, x, xStride, view[float32](panel), cols, more, func(w float32) float32 { return w })
}

func plainGemmF16(rows int, dst []float32, dstStride int, x []float32, xStride int, panel []byte, cols int, more bool) {
	plainGemm(rows, dst, dstStride, x, xStride, view[uint16](panel), cols, more, weights.FromF16)
}

func plainGemmBF16(rows int, dst []float32, dstStride int, x []float32, xStride int, panel []byte, cols int,
	more bool) {
	plainGemm(rows, dst, dstStride, x, xStride, view[uint16](panel), cols, more, weights.FromBF16)
}

// plainGemm widens a column of the panel once for all rows.
func plainGemm[T any](rows int, dst []float32, dstStride int, x []float32, xStride int, panel []T, cols int, more bool,
	widen func(T) float32) {
	if !more {
		for r := range rows {
			clear(dst[r*dstStride:][:panelOutputs])
		}
	}
	var column [panelOutputs]float32
	for k := range cols {
		for o, w := range panel[k*panelOutputs:][:panelOutputs] {
			column[o] = widen(w)
		}
		for r := range rows {
			v, out := x[r*xStride+k], dst[r*dstStride:][:panelOutputs]
			for o := range out {
				out[o] += v * column[o]
			}
		}
	}
}

func plainSumSquares(sums, x []float32, n int) {
	clear(sums[:lanes])
	for i, v := range x[:n] {
		sums[i%lanes] = fma32(v, v, sums[i%lanes])
	}
}

func plainScaleNorm(dst, src, w []float32, n int, scale, offset float32) {
	for i := range n {
		dst[i] = src[i] * scale * (w[i] + offset)
	}
}

func plainAddTo(dst, src []float32, n int) {
	for i := range n {
		dst[i] += src[i]
	}
}

func plainAddScaled(dst, src []float32, n int, scale float32) {
	for i := range n {
		dst[i] = fma32(scale, src[i], dst[i])
	}
}

func plainScaleTo(dst, src []float32, n int, scale float32) {
	for i := range n {
		dst[i] = src[i] * scale
	}
}

func plainBlend(dst, src []float32, n int, keep, add float32) {
	for i := range n {
		dst[i] = fma32(src[i], add, dst[i]*keep)
	}
}

func plainRotate(lo, hi, cos, sin []float32, n int) {
	for i := range n {
		a, b := lo[i], hi[i]
		lo[i] = a*cos[i] - b*sin[i]
		hi[i] = b*cos[i] + a*sin[i]
	}
}

func plainRotatePairs(x, cos, sin []float32, n int) {
	for i := range n / 2 {
		a, b := x[2*i], x[2*i+1]
		x[2*i] = a*cos[i] - b*sin[i]
		x[2*i+1] = b*cos[i] + a*sin[i]
	}
}

func plainGateSiLU(gate, up []float32, n int) {
	for i := range n {
		gate[i] = gate[i] / (1 + exp32(-gate[i])) * up[i]
	}
}

func plainGateGELU(gate, up []float32, n int) {
	const linear, cubic = -1.5957691216057308, -1.5957691216057308 * 0.044715
	for i := range n {
		x := gate[i]
		gate[i] = x / (1 + exp32(x*fma32(cubic, x*x, linear))) * up[i]
	}
}

// bytesOf returns floats as bytes, the inverse of view.
func bytesOf(f []float32) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(f))), 4*len(f))
}
