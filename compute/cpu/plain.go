package cpu

import (
	"encoding/binary"
	"math"
	"unsafe"

	"parley/compute"
	"parley/model/weights"
)

// plainKernels are the twins in Go of the generated kernels. They define
// what those compute, and serve processors that have none.
var plainKernels = kernelSet{
	name: "plain", q8Rows: 6, floatRows: 6,
	gemmQ8:  plainGemmQ8,
	gemmF32: plainGemmF32, gemmF16: plainGemmF16, gemmBF16: plainGemmBF16,
	quantize:   plainQuantize,
	sumSquares: plainSumSquares, scaleNorm: plainScaleNorm,
	addTo: plainAddTo, addScaled: plainAddScaled,
	gateSiLU: plainGateSiLU, gateGELU: plainGateGELU,
	rotate: plainRotate,
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

func plainGemmQ8(rows int, dst []float32, dstStride int, act []byte, actStride int, panel []byte, blocks int) {
	for r := range rows {
		plainRowQ8(dst[r*dstStride:][:panelOutputs], act[r*actStride:][:blocks*actBlockBytes], panel)
	}
}

func plainRowQ8(dst []float32, act, panel []byte) {
	clear(dst)
	for len(act) > 0 {
		a, w := act[:actBlockBytes], panel[:q8BlockBytes]
		scale := math.Float32frombits(binary.LittleEndian.Uint32(a[32:]))
		var sums [panelOutputs]int32
		for o := range sums {
			sums[o] = int32(binary.LittleEndian.Uint32(a[36:]))
		}
		for j := range 8 {
			a0, a1, a2, a3 := int32(int8(a[j*4])), int32(int8(a[j*4+1])), int32(int8(a[j*4+2])), int32(int8(a[j*4+3]))
			column := w[64+j*128:][:128]
			for o := range sums {
				v := column[o*4 : o*4+4 : o*4+4]
				sums[o] += a0*int32(v[0]) + a1*int32(v[1]) + a2*int32(v[2]) + a3*int32(v[3])
			}
		}
		for o := range dst {
			dst[o] = fma32(float32(sums[o]), weights.FromF16(binary.LittleEndian.Uint16(w[o*2:]))*scale, dst[o])
		}
		act, panel = act[actBlockBytes:], panel[q8BlockBytes:]
	}
}

func plainGemmF32(rows int, dst []float32, dstStride int, x []float32, xStride int, panel []byte, cols int, more bool) {
	plainGemm(rows, dst, dstStride, x, xStride, view[float32](panel), cols, more, func(w float32) float32 { return w })
}

func plainGemmF16(rows int, dst []float32, dstStride int, x []float32, xStride int, panel []byte, cols int, more bool) {
	plainGemm(rows, dst, dstStride, x, xStride, view[uint16](panel), cols, more, weights.FromF16)
}

func plainGemmBF16(rows int, dst []float32, dstStride int, x []float32, xStride int, panel []byte, cols int, more bool) {
	plainGemm(rows, dst, dstStride, x, xStride, view[uint16](panel), cols, more, weights.FromBF16)
}

// plainGemm widens a column of the panel once for all rows.
func plainGemm[T any](rows int, dst []float32, dstStride int, x []float32, xStride int, panel []T, cols int, more bool, widen func(T) float32) {
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

func plainQuantize(dst []byte, src []float32, blocks int) {
	for b := range blocks {
		plainQuantizeBlock(dst[b*actBlockBytes:][:actBlockBytes], src[b*quantBlock:][:quantBlock])
	}
}

func plainQuantizeBlock(dst []byte, src []float32) {
	var top float32
	for _, v := range src {
		top = max(top, float32(math.Abs(float64(v))))
	}
	var scale, inverse float32
	if top >= 1e-30 {
		scale, inverse = top/127, 127/top
	}
	var sum int32
	for i, v := range src {
		q := int32(math.RoundToEven(float64(v * inverse)))
		sum += q
		dst[i] = byte(q)
	}
	binary.LittleEndian.PutUint32(dst[32:], math.Float32bits(scale))
	binary.LittleEndian.PutUint32(dst[36:], uint32(-128*sum))
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

func plainRotate(lo, hi, cos, sin []float32, n int) {
	for i := range n {
		a, b := lo[i], hi[i]
		lo[i] = a*cos[i] - b*sin[i]
		hi[i] = b*cos[i] + a*sin[i]
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
