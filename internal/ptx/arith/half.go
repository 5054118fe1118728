package arith

import "math"

// rounding is how a result that a format cannot hold is rounded.
type rounding byte

const (
	RoundNearest rounding = iota // ties to even
	roundZero
	roundDown
	roundUp
	roundAway // ties away from zero
)

var roundings = map[string]rounding{
	"": RoundNearest, "rn": RoundNearest, "rz": roundZero, "rm": roundDown, "rp": roundUp, "rna": roundAway,
	"rni": RoundNearest, "rzi": roundZero, "rmi": roundDown, "rpi": roundUp,
}

// A format is a small binary floating-point format.
type format struct {
	fraction int    // bits of the fraction
	bias     int    // of the exponent
	infinity uint32 // first pattern that is not finite
	nan      uint32
	sign     uint32
}

// The formats.
var (
	formatF16  = format{10, 15, 0x7c00, 0x7fff, 0x8000}
	formatBF16 = format{7, 127, 0x7f80, 0x7fff, 0x8000}
	formatF32  = format{23, 127, 0x7f800000, 0x7fffffff, 1 << 31}
	formatTF32 = format{10, 127, 0x7f800000 >> 13, 0x7fffffff >> 13, 1 << 18}
	FormatE4M3 = format{3, 7, 0x7f, 0x7f, 0x80}
	formatE5M2 = format{2, 15, 0x7c, 0x7f, 0x80}
)

// From rounds x to the format. With finite set, what is too large becomes the
// largest finite value.
func (f format) From(x float64, mode rounding, finite bool) uint32 {
	bits := math.Float64bits(x)
	sign := uint32(0)
	if bits>>63 != 0 {
		sign = f.sign
	}
	switch {
	case x != x:
		return f.nan
	case math.IsInf(x, 0):
		return sign | f.overflow(RoundNearest, false, finite)
	}
	exponent := int(bits>>52&0x7ff) - 1023
	mantissa := bits&(1<<52-1) | 1<<52
	if exponent == -1023 { // zero, or far below every format's range
		mantissa = bits & (1<<52 - 1)
	}
	shift := 52 - f.fraction
	low := exponent < 1-f.bias
	if low {
		shift += min(1-f.bias-exponent, 64)
	}
	q := roundShift(mantissa, shift, mode, sign != 0)
	out := q
	if !low {
		out += uint64(exponent+f.bias-1) << f.fraction
	}
	if out >= uint64(f.infinity) {
		return sign | f.overflow(mode, sign != 0, finite)
	}
	return sign | uint32(out)
}

// roundShift returns mantissa >> shift, rounded.
func roundShift(mantissa uint64, shift int, mode rounding, negative bool) uint64 {
	if shift > 62 {
		if mantissa != 0 && (mode == roundUp && !negative || mode == roundDown && negative) {
			return 1
		}
		return 0
	}
	q, rest, half := mantissa>>shift, mantissa&(1<<shift-1), uint64(1)<<shift>>1
	up := false
	switch mode {
	case RoundNearest:
		up = rest > half || rest == half && q&1 != 0 && rest != 0
	case roundAway:
		up = rest >= half && rest != 0
	case roundUp:
		up = rest != 0 && !negative
	case roundDown:
		up = rest != 0 && negative
	}
	if up {
		q++
	}
	return q
}

func (f format) overflow(mode rounding, negative, finite bool) uint32 {
	if finite || mode == roundZero || mode == roundUp && negative || mode == roundDown && !negative {
		return f.infinity - 1
	}
	return f.infinity
}

// To returns the value of a pattern.
func (f format) To(bits uint32) float64 {
	magnitude := bits &^ f.sign
	sign := 1.0
	if bits&f.sign != 0 {
		sign = -1
	}
	exponent := int(magnitude >> f.fraction)
	fraction := magnitude & (1<<f.fraction - 1)
	switch {
	case magnitude >= f.infinity && (magnitude > f.infinity || f.infinity == f.nan):
		return math.NaN()
	case magnitude == f.infinity:
		return math.Inf(int(sign))
	case exponent == 0:
		return sign * math.Ldexp(float64(fraction), 1-f.bias-f.fraction)
	}
	return sign * math.Ldexp(float64(fraction|1<<f.fraction), exponent-f.bias-f.fraction)
}

// F16From rounds x to half precision.
func F16From(x float64, mode rounding) uint32 { return formatF16.From(x, mode, false) }

// BF16From rounds x to bfloat16.
func BF16From(x float64, mode rounding) uint32 { return formatBF16.From(x, mode, false) }

// f16Values holds the float32 of every float16.
var f16Values = func() (table [1 << 16]float32) {
	for i := range table {
		table[i] = float32(formatF16.To(uint32(i)))
	}
	return table
}()

// E4M3Values and e5m2Values hold the float32 of every eight-bit float.
var (
	E4M3Values = smallValues(FormatE4M3)
	E5M2Values = smallValues(formatE5M2)
)

func smallValues(f format) (table [256]float32) {
	for i := range table {
		table[i] = float32(f.To(uint32(i)))
	}
	return table
}

// F16To returns the number of a half-precision pattern.
func F16To(bits uint32) float32 { return f16Values[bits&0xffff] }

// BF16To returns the number of a bfloat16 pattern.
func BF16To(bits uint32) float32 { return math.Float32frombits(bits << 16) }

// bf16Near rounds a float32 to bfloat16, ties to even.
func bf16Near(x uint32) uint32 {
	if x&0x7fffffff > 0x7f800000 {
		return formatBF16.nan
	}
	return (x + 0x7fff + x>>16&1) >> 16
}

// OddSum returns a + b rounded to odd, so that a second rounding to a format
// with at least two bits less gives what one rounding would.
func OddSum(a, b float64) float64 {
	s := a + b
	if math.IsInf(s, 0) || s != s {
		return s
	}
	t := s - a
	rest := (a - (s - t)) + (b - t)
	if rest == 0 || math.Float64bits(s)&1 != 0 {
		return s
	}
	if rest > 0 == (s > 0) {
		return math.Float64frombits(math.Float64bits(s) + 1)
	}
	return math.Float64frombits(math.Float64bits(s) - 1)
}

// fma32 returns a*b + c with one rounding.
func fma32(a, b, c float32) float32 {
	p := float64(a) * float64(b)
	s := p + float64(c)
	bits := math.Float64bits(s)
	if bits&0x1fffffff != 0x10000000 && bits&(0x7ff<<52) > 898<<52 {
		return float32(s)
	}
	return float32(OddSum(p, float64(c)))
}

// ToFloat returns the value of a pattern of a floating-point type.
func ToFloat(t Type, bits uint64) float64 {
	switch {
	case t.Class == 'h':
		return float64(BF16To(uint32(bits)))
	case t.Class == 'e':
		return float64(E4M3Values[bits&0xff])
	case t.Class == 'E':
		return float64(E5M2Values[bits&0xff])
	case t.Bits == 16:
		return float64(F16To(uint32(bits)))
	case t.Bits == 32:
		return float64(math.Float32frombits(uint32(bits)))
	}
	return math.Float64frombits(bits)
}

// FromFloat rounds x to a floating-point type.
func FromFloat(t Type, x float64, mode rounding) uint64 {
	switch {
	case t.Class == 'h':
		return uint64(BF16From(x, mode))
	case t.Class == 't':
		return uint64(formatTF32.From(x, mode, false)) << 13
	case t.Bits == 16:
		return uint64(F16From(x, mode))
	case t.Bits == 32 && mode == RoundNearest:
		return uint64(math.Float32bits(float32(x)))
	case t.Bits == 32:
		return uint64(formatF32.From(x, mode, false))
	}
	return math.Float64bits(x)
}
