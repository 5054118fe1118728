package cpu

import (
	"encoding/binary"
	"math"

	"parley/model/weights"
)

// An openBlock is a block of a panel as numbers.
type openBlock struct {
	weights [blockWeights]int8 // [8][32][4]
	scales  [2][panelOutputs]float32
	mins    [panelOutputs]float32
}

// open reads a block. head is that of its run.
func (q *packing) open(b *openBlock, head, block []byte) {
	codes := block[scaleBytes:]
	for i := range b.weights {
		group, rest := i/(4*panelOutputs), i%(4*panelOutputs)
		var code int
		if q.bits == 8 {
			code = int(codes[i])
		} else {
			code = int(codes[group%4*4*panelOutputs+rest]) >> (group / 4 * 4) & 15
		}
		if q.bits == 6 {
			upper := codes[blockWeights/2+group%4/2*4*panelOutputs+rest]
			code |= int(upper) >> (4*(group%2) + 2*(group/4)) & 3 << 4
		}
		b.weights[i] = int8(code - q.zero)
	}
	for o := range panelOutputs {
		switch {
		case q.head == 0:
			b.scales[0][o] = halfAt(block, o)
		case q.mins:
			b.scales[0][o] = halfAt(head, o) * float32(block[o])
			b.mins[o] = halfAt(head, panelOutputs+o) * float32(block[panelOutputs+o])
		default:
			b.scales[0][o] = halfAt(head, o) * float32(int8(block[o]))
			b.scales[1][o] = halfAt(head, o) * float32(int8(block[panelOutputs+o]))
		}
	}
}

func halfAt(b []byte, i int) float32 { return weights.FromF16(binary.LittleEndian.Uint16(b[2*i:])) }

func floatAt(b []byte) float32 { return math.Float32frombits(binary.LittleEndian.Uint32(b)) }

// plainGemmPacked returns the twin of the kernels for a packing.
func plainGemmPacked(t weights.DType) gemmPackedFunc {
	q := packings[t]
	return func(rows int, dst []float32, dstStride int, act, facts []byte, actStride int, panel []byte, blocks int,
		_ []byte, _ int) {
		for r := range rows {
			clear(dst[r*dstStride:][:panelOutputs])
		}
		var open openBlock
		for b := range blocks {
			run := panel[b/q.run*q.runBytes():][:q.runBytes()]
			q.open(&open, run[:q.head], run[q.head+b%q.run*q.blockBytes():][:q.blockBytes()])
			for r := range rows {
				q.addBlock(dst[r*dstStride:][:panelOutputs], &open, act[r*actStride+b*quantBlock:][:quantBlock],
					facts[r*actStride+b*factBytes:][:factBytes])
			}
		}
	}
}

// addBlock adds the products of one row with a block.
func (q *packing) addBlock(dst []float32, b *openBlock, act, fact []byte) {
	scale := floatAt(fact[factScale:])
	for sub := range q.subs {
		var sums [panelOutputs]int32
		for j := sub * 8 / q.subs; j < (sub+1)*8/q.subs; j++ {
			a, column := act[j*4:j*4+4], b.weights[j*4*panelOutputs:][:4*panelOutputs]
			a0, a1, a2, a3 := int32(int8(a[0])), int32(int8(a[1])), int32(int8(a[2])), int32(int8(a[3]))
			for o := range sums {
				w := column[o*4 : o*4+4 : o*4+4]
				sums[o] += a0*int32(w[0]) + a1*int32(w[1]) + a2*int32(w[2]) + a3*int32(w[3])
			}
		}
		for o := range dst {
			dst[o] = fma32(float32(sums[o]), b.scales[sub][o]*scale, dst[o])
		}
	}
	if q.mins {
		sum := floatAt(fact[factSum:])
		for o := range dst {
			dst[o] = fma32(-b.mins[o], sum, dst[o])
		}
	}
}

func plainQuantize(dst, facts []byte, src []float32, blocks int) {
	for b := range blocks {
		plainQuantizeBlock(dst[b*quantBlock:][:quantBlock], facts[b*factBytes:][:factBytes],
			src[b*quantBlock:][:quantBlock])
	}
}

func plainQuantizeBlock(dst, fact []byte, src []float32) {
	var top float32
	for _, v := range src {
		top = max(top, float32(math.Abs(float64(v))))
	}
	var scale, inverse float32
	if !(top < 1e-30) { // also true for NaN, which must propagate
		scale, inverse = top/127, 127/top
	}
	var sums [2]int32
	for i, v := range src {
		q := int32(math.RoundToEven(float64(v * inverse)))
		sums[i/(quantBlock/2)] += q
		dst[i] = byte(q)
	}
	sum := sums[0] + sums[1]
	binary.LittleEndian.PutUint32(fact[factScale:], math.Float32bits(scale))
	binary.LittleEndian.PutUint32(fact[factCorrection:], uint32(-128*sum))
	binary.LittleEndian.PutUint32(fact[factSum:], math.Float32bits(scale*float32(sum)))
	for i, s := range sums {
		binary.LittleEndian.PutUint32(fact[factHalves+4*i:], uint32(-32*s))
	}
}
