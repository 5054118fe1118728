package cpu

import (
	"encoding/binary"
	"math"

	"parley/model/weights"
)

// plainBrainGemm is the twin of the kernels that multiply bfloat16. A product
// of two such numbers is exact, so it does not matter whether it is fused with the sum.
func plainBrainGemm(class brainClass, rows int, dst []float32, dstStride int, act []byte, actStride int, panel []byte,
	steps int, more bool) {
	for r := range rows {
		for o := range panelOutputs {
			var sum float32
			if more {
				sum = dst[r*dstStride+o]
			}
			for s := range steps {
				a := act[r*actStride+s*class.parts()*brainBytes:]
				for part := class.parts() - 1; part >= 0; part-- {
					sum += plainBrainStep(a[part*brainBytes:], panel[s*panelStep:], o)
				}
			}
			dst[r*dstStride+o] = sum
		}
	}
}

// plainBrainStep adds up the products of the even columns and those of the odd ones.
func plainBrainStep(act, panel []byte, output int) float32 {
	var even, odd float32
	for pair := range stepColumns / 2 {
		a, w := act[4*pair:], panel[4*(pair*panelOutputs+output):]
		even += brainAt(a) * brainAt(w)
		odd += brainAt(a[2:]) * brainAt(w[2:])
	}
	return even + odd
}

func brainAt(b []byte) float32 { return weights.FromBF16(binary.LittleEndian.Uint16(b)) }

// plainSplit writes steps of floats as one or two parts of bfloat16.
func plainSplit(class brainClass, dst []byte, src []float32, steps int) {
	for i, v := range src[:steps*stepColumns] {
		for part := range class.parts() {
			b := weights.ToBF16(v)
			binary.LittleEndian.PutUint16(dst[(i/stepColumns*class.parts()+part)*brainBytes+i%stepColumns*2:], b)
			v -= weights.FromBF16(b)
		}
	}
}

// plainRound writes weights as bfloat16, rounded away from zero where they are
// in the middle. weight returns that of a column and output.
func plainRound(dst []byte, steps int, weight func(col, output int) float32) {
	for col := range steps * stepColumns {
		step, pair := col/stepColumns, col%stepColumns/2
		for o := range panelOutputs {
			b := uint16((math.Float32bits(weight(col, o)) + 0x8000) >> 16)
			binary.LittleEndian.PutUint16(dst[step*panelStep+(pair*panelOutputs+o)*4+col%2*2:], b)
		}
	}
}
