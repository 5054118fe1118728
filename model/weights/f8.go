package weights

import (
	"encoding/binary"
	"fmt"
	"math"
	"runtime"
	"sync"
)

// E4M3 is the eight-bit floating-point format of matrices: sign, four bits of
// exponent, three of mantissa. It has no infinities, and its greatest number is
// 448. A matrix of such codes has scales beside it; see [Tensor].

// F8Group is how many columns of a row share one scale.
const F8Group = 128

// f8Max is the greatest number of E4M3.
const f8Max = 448

// f8ScaleMin bounds scales from below, so that the inverse of each is finite.
const f8ScaleMin = 0x1p-126

// f8Values are the numbers that the codes stand for.
var f8Values = decodeF8()

func decodeF8() (values [256]float32) {
	for code := range values {
		exponent, mantissa := code>>3&15, float64(code&7)
		v := math.Ldexp(mantissa, 1-7-3)
		if exponent > 0 {
			v = math.Ldexp(8+mantissa, exponent-7-3)
		}
		if code&0x7f == 0x7f {
			v = math.NaN()
		}
		values[code] = float32(math.Copysign(v, float64(1-2*(code>>7))))
	}
	return values
}

// FromE4M3 returns the number that an E4M3 code stands for. The conversion is
// exact.
func FromE4M3(code byte) float32 { return f8Values[code] }

// ToE4M3 returns the code of the E4M3 number nearest to v, with ties to even.
// Numbers beyond the greatest become that, and so do infinities and NaN.
func ToE4M3(v float32) byte {
	const (
		leastNormal    = 1.0 / 64
		perSubnormal   = 512     // one over the least number
		roundingShift  = 3 << 22 // a sum with it has no bits for a fraction
		exponentOffset = (127 - 7) << 3
		greatest       = 0x7e
	)
	bits := math.Float32bits(v)
	sign, magnitude := byte(bits>>31)<<7, bits&^(1<<31)
	if size := math.Float32frombits(magnitude); size < leastNormal {
		return sign | byte(math.Float32bits(float32(size*perSubnormal)+roundingShift))
	}
	rounded := (magnitude+0x7ffff+magnitude>>20&1)>>20 - exponentOffset
	return sign | byte(min(rounded, greatest))
}

// f8Codes has the code of each number by the upper half of its bits, of which
// the lowest also says whether the lower half has a bit set: E4M3 keeps so few
// bits that no more is needed to round to the nearest.
var f8Codes = sync.OnceValue(func() *[1 << 16]byte {
	codes := new([1 << 16]byte)
	for upper := range codes {
		codes[upper] = ToE4M3(math.Float32frombits(uint32(upper) << 16))
	}
	return codes
})

// groups returns how many scales a row of cols elements has.
func groups(cols int) int { return (cols + F8Group - 1) / F8Group }

// ScaleCols returns how many scales each row has: 0 unless the type has scales.
func (t Tensor) ScaleCols() int {
	if t.Type != F8E4M3 {
		return 0
	}
	return groups(t.Cols())
}

// CheckScales reports scales that are missing or too many.
func (t Tensor) CheckScales() error {
	if want := t.Rows() * t.ScaleCols(); len(t.Scales) != want {
		return fmt.Errorf("tensor %s: %s %v has %d scales, not %d", t.Name, t.Type, t.Shape, len(t.Scales), want)
	}
	return nil
}

// readF8 sets dst to the elements of a row: each is its code times the scale of
// its group.
func readF8(dst []float32, codes []byte, scales []float32) {
	for g, scale := range scales {
		to := min((g+1)*F8Group, len(dst))
		for i := g * F8Group; i < to; i++ {
			dst[i] = f8Values[codes[i]] * scale
		}
	}
}

// RowsBF16 returns n rows of an F8E4M3 tensor from the given one on as BF16, each
// element rounded to the nearest with ties to even.
func (t Tensor) RowsBF16(first, n int) *Tensor {
	cols := t.Cols()
	out := &Tensor{Name: t.Name, Type: BF16, Shape: []int{n, cols}, Data: make([]byte, 2*n*cols)}
	for i := range n {
		codes, scales, wide := t.Row(first+i), t.Scales[(first+i)*groups(cols):], out.Row(i)
		for k, code := range codes {
			binary.LittleEndian.PutUint16(wide[2*k:], ToBF16(f8Values[code]*scales[k/F8Group]))
		}
	}
	return out
}

// ToF8 rounds a matrix of type F32, F16 or BF16 to F8E4M3, on all processors.
// The scale of a group of columns is the greatest magnitude in it divided by
// 448, so that no element is too large; elements are multiplied by its inverse
// and rounded to the nearest code, with ties to even. A weight that is infinite
// or NaN is an error.
func (t Tensor) ToF8() (Tensor, error) {
	round := f8Rounders[t.Type]
	if round == nil {
		return Tensor{}, fmt.Errorf("tensor %s: type %s is not rounded to %s: want BF16, F16 or F32", t.Name, t.Type,
			F8E4M3)
	}
	if len(t.Shape) < 2 {
		return Tensor{}, fmt.Errorf("tensor %s: shape %v is not a matrix: only matrices are rounded to %s", t.Name,
			t.Shape, F8E4M3)
	}
	rows, cols := t.Rows(), t.Cols()
	out := Tensor{
		Name:   t.Name,
		Type:   F8E4M3,
		Shape:  t.Shape,
		Data:   make([]byte, rows*cols),
		Scales: make([]float32, rows*groups(cols)),
	}
	workers := min(rows, runtime.GOMAXPROCS(0))
	errs := make([]error, workers)
	var group sync.WaitGroup
	for k := range workers {
		group.Go(func() {
			for i := k * rows / workers; i < (k+1)*rows/workers && errs[k] == nil; i++ {
				errs[k] = out.roundRow(i, t.Row(i), t.Type.BlockBytes(), round)
			}
		})
	}
	group.Wait()
	for _, err := range errs {
		if err != nil {
			return Tensor{}, fmt.Errorf("tensor %s: %w", t.Name, err)
		}
	}
	return out, nil
}

// roundRow sets row i to what is stored in src, with size bytes for an element.
func (t Tensor) roundRow(i int, src []byte, size int, round f8Rounder) error {
	codes, scales := t.Row(i), t.Scales[i*t.ScaleCols():][:t.ScaleCols()]
	for g := range scales {
		from, to := g*F8Group, min((g+1)*F8Group, len(codes))
		if scales[g] = round(codes[from:to], src[from*size:to*size]); scales[g] < 0 {
			return fmt.Errorf("row %d has a weight that is infinite or NaN in columns %d to %d", i, from, to-1)
		}
	}
	return nil
}

// An f8Rounder writes the codes of one group and returns its scale; -1 if an
// element is infinite or NaN.
type f8Rounder func(codes, src []byte) (scale float32)

var f8Rounders = map[DType]f8Rounder{
	BF16: roundBF16,
	F16:  roundF16,
	F32:  roundF32,
}

// f8Scale returns the scale of numbers of at most the given magnitude, and the
// factor that turns them into codes.
func f8Scale(top float32) (scale, inverse float32) {
	switch {
	case top == 0:
		return 0, 0
	case !(top <= math.MaxFloat32):
		return -1, 0
	}
	scale = max(top/f8Max, f8ScaleMin)
	return scale, 1 / scale
}

func roundBF16(codes, src []byte) float32 {
	src = src[:2*len(codes)]
	var top uint16 // bits of positive numbers are in the order of the numbers
	for i := 0; i+1 < len(src); i += 2 {
		top = max(top, binary.LittleEndian.Uint16(src[i:])&0x7fff)
	}
	scale, inverse := f8Scale(FromBF16(top))
	if scale <= 0 {
		clear(codes)
		return scale
	}
	table := f8Codes()
	for i := range codes {
		codes[i] = f8Code(table, FromBF16(binary.LittleEndian.Uint16(src[2*i:]))*inverse)
	}
	return scale
}

// f8Code is [ToE4M3] by the table.
func f8Code(table *[1 << 16]byte, v float32) byte {
	bits := math.Float32bits(v)
	return table[uint16(bits>>16|(bits&0xffff+0xffff)>>16)]
}

func roundF16(codes, src []byte) float32 {
	var values [F8Group]float32
	for i := range codes {
		values[i] = FromF16(binary.LittleEndian.Uint16(src[2*i:]))
	}
	return roundFloats(codes, values[:len(codes)])
}

func roundF32(codes, src []byte) float32 {
	var values [F8Group]float32
	for i := range codes {
		values[i] = math.Float32frombits(binary.LittleEndian.Uint32(src[4*i:]))
	}
	return roundFloats(codes, values[:len(codes)])
}

func roundFloats(codes []byte, values []float32) float32 {
	var top uint32
	for _, v := range values {
		top = max(top, math.Float32bits(v)&^(1<<31))
	}
	scale, inverse := f8Scale(math.Float32frombits(top))
	if scale <= 0 {
		clear(codes)
		return scale
	}
	table := f8Codes()
	for i, v := range values {
		codes[i] = f8Code(table, v*inverse)
	}
	return scale
}
