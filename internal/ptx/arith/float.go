package arith

import "math"

// A FloatMode holds the modifiers of a floating-point instruction.
type FloatMode struct {
	Rounding string
	FTZ      bool
	Saturate bool
	NaN      bool // min and max: a NaN wins
}

// Plain reports whether ordinary arithmetic gives the result.
func (m FloatMode) Plain() bool {
	return (m.Rounding == "" || m.Rounding == "rn" || m.Rounding == "approx" || m.Rounding == "full") && !m.FTZ &&
		!m.Saturate && !m.NaN
}

// lesser returns the smaller number; a NaN loses, and -0 is below +0.
func lesser(a, b float64) float64 {
	switch {
	case a != a:
		return b
	case b != b || a < b:
		return a
	case a == b && math.Signbit(a):
		return a
	}
	return b
}

func greater(a, b float64) float64 {
	switch {
	case a != a:
		return b
	case b != b || a > b:
		return a
	case a == b && !math.Signbit(a):
		return a
	}
	return b
}

// BinaryFloat computes in float64, rounded to odd where a second rounding follows.
func BinaryFloat(name string, t Type, mode FloatMode) func(a, b float64) float64 {
	sum := OddSum
	if t.Bits == 64 {
		sum = func(a, b float64) float64 { return a + b }
	}
	switch name {
	case "add":
		return sum
	case "sub":
		return func(a, b float64) float64 { return sum(a, -b) }
	case "mul":
		return func(a, b float64) float64 { return a * b }
	case "div":
		return func(a, b float64) float64 { return a / b }
	case "min":
		return nanWins(lesser, mode.NaN)
	case "max":
		return nanWins(greater, mode.NaN)
	}
	return nil
}

func nanWins(f func(a, b float64) float64, wins bool) func(a, b float64) float64 {
	if !wins {
		return f
	}
	return func(a, b float64) float64 {
		if a != a || b != b {
			return math.NaN()
		}
		return f(a, b)
	}
}

// EachPacked applies f to the halves of a packed type, or once.
func EachPacked(t Type, f func(shift int) uint64) uint64 {
	if t.Pack < 2 {
		return f(0)
	}
	return f(0)&0xffff | f(16)&0xffff<<16
}

// Flushed returns a pattern's value, with subnormals flushed when .ftz asks for it.
func Flushed(t Type, mode FloatMode, x uint64) float64 {
	v := ToFloat(t, x)
	if mode.FTZ && t.Class == 'f' && t.Bits < 64 && math.Abs(v) < smallest(t) {
		return math.Copysign(0, v)
	}
	return v
}

func smallest(t Type) float64 {
	if t.Bits == 16 {
		return 0x1p-14
	}
	return 0x1p-126
}

// Finish rounds, saturates and flushes a result.
func Finish(t Type, mode FloatMode, v float64) uint64 {
	if mode.Saturate {
		switch {
		case v != v || v <= 0:
			v = 0
		case v > 1:
			v = 1
		}
	}
	if t.Bits == 64 {
		return math.Float64bits(v)
	}
	out := FromFloat(t, v, roundings[KnownRounding(mode.Rounding)])
	if mode.FTZ && t.Class == 'f' && math.Abs(ToFloat(t, out)) < smallest(t) {
		return FromFloat(t, math.Copysign(0, v), RoundNearest)
	}
	return out
}

// KnownRounding returns the rounding mode that a modifier asks for: approximations round to
// nearest.
func KnownRounding(name string) string {
	if name == "approx" || name == "full" {
		return ""
	}
	return name
}

// FloatFunctions are the instructions of one floating-point operand.
var FloatFunctions = map[string]func(float64) float64{
	"sqrt":  math.Sqrt,
	"rsqrt": func(x float64) float64 { return 1 / math.Sqrt(x) },
	"rcp":   func(x float64) float64 { return 1 / x },
	"ex2":   math.Exp2,
	"lg2":   math.Log2,
	"sin":   math.Sin,
	"cos":   math.Cos,
	"tanh":  math.Tanh,
}

// IsClass reports whether testp of that class is true of v.
func IsClass(class string, t Type, v float64) bool {
	low := smallest(t)
	if t.Bits == 64 {
		low = 0x1p-1022
	}
	finite := v == v && !math.IsInf(v, 0)
	switch class {
	case "finite":
		return finite
	case "infinite":
		return math.IsInf(v, 0)
	case "number":
		return v == v
	case "notanumber":
		return v != v
	case "normal":
		return finite && math.Abs(v) >= low
	}
	return v != 0 && math.Abs(v) < low
}
