package cpu

import (
	"encoding/binary"
	"unsafe"

	"parley/model/weights"
)

// Quantized activations are rows of int8, followed by facts about each block
// of 32: a float32 scale, an int32 that is -128 times the block's sum, the
// float32 product of scale and sum, and two int32 that are -32 times the sums
// of the block's halves. The sums serve weights that are stored with 128, 8 or
// 32 added, and weights that are counted from a minimum.
const (
	factScale      = 0
	factCorrection = 4
	factSum        = 8
	factHalves     = 12
	factBytes      = 20
	// blockWeights is how many weights a block of a panel has: 32 columns of 32 outputs.
	blockWeights = quantBlock * panelOutputs
)

// A packing is how a panel of quantized weights is stored: in blocks of 32
// columns and 32 outputs, with as many bits per weight as in the file. Some
// blocks share a head. A block has 64 bytes of scales, then its weights: for
// each four columns and output four bytes, or nibbles of four bytes whose
// other nibbles are for the columns 16 further on; then the upper bits of
// six-bit weights, for columns 0, 16, 4 and 20 (or 8, 24, 12 and 28) from the
// low bits on.
//
// Without a head, the scales are half floats. With one, they are bytes to be
// multiplied by the half floats in it.
type packing struct {
	kind packKind
	head int // bytes before each run of blocks
	run  int // blocks under one head
	bits int // of a weight
	subs int // parts of a block that have scales of their own
	mins bool
	zero int // what stands for zero, if there are no minima
	// file copies a run of blocks of one output from a file's block.
	file func(dst, src []byte, output int)
}

// A packKind says which kernels a packing needs.
type packKind uint8

const (
	packQ8 packKind = iota
	packQ4
	packQ4K
	packQ6K
	packKinds
)

// scaleBytes is the size of the scales of a block.
const scaleBytes = 2 * panelOutputs

var packings = map[weights.DType]*packing{
	weights.Q8_0: {
		kind: packQ8,
		run:  1,
		bits: 8,
		subs: 1,
		zero: 128,
		file: packQ8Run,
	},
	weights.Q4_0: {
		kind: packQ4,
		run:  1,
		bits: 4,
		subs: 1,
		zero: 8,
		file: packQ4Run,
	},
	weights.Q4_K: {
		kind: packQ4K,
		head: 4 * panelOutputs,
		run:  8,
		bits: 4,
		subs: 1,
		mins: true,
		file: packQ4KRun,
	},
	weights.Q6_K: {
		kind: packQ6K,
		head: 2 * panelOutputs,
		run:  8,
		bits: 6,
		subs: 2,
		zero: 32,
		file: packQ6KRun,
	},
}

func (q *packing) blockBytes() int { return scaleBytes + q.bits*blockWeights/8 }

func (q *packing) runBytes() int { return q.head + q.run*q.blockBytes() }

// bytes returns the size of a number of blocks, which is a multiple of those in a run.
func (q *packing) bytes(blocks int) int { return blocks / q.run * q.runBytes() }

// pack writes the outputs of a panel, one run of blocks after the other.
// Absent ones keep scales of zero.
func (q *packing) pack(k *kernelSet, dst []byte, t *weights.Tensor, first, outputs int) {
	if whole := k.pack[q.kind]; whole != nil && outputs == panelOutputs {
		row := t.Type.RowBytes(t.Cols())
		whole(dst, t.Data[first*row:][:outputs*row], row, t.Cols()/quantBlock)
		return
	}
	var rows [panelOutputs][]byte
	for o := range outputs {
		rows[o] = t.Row(first + o)
	}
	size, run := t.Type.BlockBytes(), q.runBytes()
	for at := 0; at < len(rows[0]); at += size {
		for o, row := range rows[:outputs] {
			q.file(dst[:run], row[at:at+size], o)
		}
		dst = dst[run:]
	}
}

func word(b []byte, i int) uint32 { return binary.LittleEndian.Uint32(b[4*i:]) }

// putGroup writes four bytes of one output.
func putGroup(dst []byte, group, output int, v uint32) {
	binary.LittleEndian.PutUint32(dst[group*4*panelOutputs+output*4:], v)
}

// packGroups copies a block of one output whose weights a panel has as the file
// does, in groups of four bytes, and flips some bits of each. The groups are arrays so
// that none is checked: all of a model is packed before it answers.
func packGroups[From [4]uint32 | [8]uint32, To [4][panelOutputs]uint32 | [8][panelOutputs]uint32](dst, src []byte,
	output int, flip uint32) {
	var from *From
	var to *To
	_, _ = dst[scaleBytes+unsafe.Sizeof(*to)-1], src[2+unsafe.Sizeof(*from)-1]
	output %= panelOutputs
	dst[output*2], dst[output*2+1] = src[0], src[1]
	from, to = (*From)(unsafe.Pointer(&src[2])), (*To)(unsafe.Pointer(&dst[scaleBytes]))
	for j := range len(*from) {
		(*to)[j][output] = (*from)[j] ^ flip
	}
}

// packQ8Run adds 128 to signed bytes, which is the same as flipping their highest bits.
func packQ8Run(dst, src []byte, output int) {
	packGroups[[8]uint32, [8][panelOutputs]uint32](dst, src, output, 0x80808080)
}

// packQ4Run has little to do: Q4_0 pairs nibbles in the file as a panel does.
func packQ4Run(dst, src []byte, output int) {
	packGroups[[4]uint32, [4][panelOutputs]uint32](dst, src, output, 0)
}

// putNibbles takes 32 weights from the nibbles of 32 bytes that begin at the given bit.
func putNibbles(dst, src []byte, bit, output int) {
	const nibbles = 0x0f0f0f0f
	for j := range 4 {
		putGroup(dst, j, output, word(src, j)>>bit&nibbles|word(src, j+4)>>bit&nibbles<<4)
	}
}

func packQ4KRun(dst, src []byte, output int) {
	copy(dst[output*2:output*2+2], src[:2])
	copy(dst[2*panelOutputs+output*2:][:2], src[2:4])
	scales, qs := src[4:16], src[16:144]
	dst = dst[4*panelOutputs:]
	for b := range 8 {
		block := dst[b*(scaleBytes+blockWeights/2):]
		block[output], block[panelOutputs+output] = weights.ScaleAndMin(b, scales)
		putNibbles(block[scaleBytes:], qs[b/2*32:], b%2*4, output)
	}
}

func packQ6KRun(dst, src []byte, output int) {
	low, high, scales := src[:128], src[128:192], src[192:208]
	copy(dst[output*2:output*2+2], src[208:210])
	dst = dst[2*panelOutputs:]
	for b := range 8 {
		block := dst[b*(scaleBytes+blockWeights*6/8):]
		block[output], block[panelOutputs+output] = scales[2*b], scales[2*b+1]
		quarter := b % 4
		putNibbles(block[scaleBytes:], low[b/4*64+quarter%2*32:], quarter/2*4, output)
		putPairs(block[scaleBytes+blockWeights/2:], high[b/4*32:], quarter*2, output)
	}
}

// putPairs takes the upper two bits of 32 weights from 32 bytes, where they begin at the given bit.
func putPairs(dst, src []byte, bit, output int) {
	pair := func(j int) uint32 { return word(src, j) >> bit & 0x03030303 }
	for t := range 2 {
		j := 2 * t
		putGroup(dst, t, output, pair(j)|pair(j+4)<<2|pair(j+1)<<4|pair(j+5)<<6)
	}
}
