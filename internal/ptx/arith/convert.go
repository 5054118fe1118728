package arith

import "math"

// A Conversion is a decoded cvt.
type Conversion struct {
	To, From Type
	Rounding string
	FTZ      bool
	Saturate bool
	Finite   bool
	Relu     bool
}

// Function returns the conversion of one value, or nil if there is none between the types.
func (v Conversion) Function() func(uint64) uint64 {
	small := func(t Type) bool { return t.Class == 'e' || t.Class == 'E' }
	isFloat := func(t Type) bool { return t.Float() || t.Class == 't' || small(t) }
	switch {
	case v.To.Pack == 2 && v.From.Pack == 2: // e4m3x2 from f16x2 and back
		one := v
		one.To.Pack, one.From.Pack = 1, 1
		return func(x uint64) uint64 { return one.Float(x>>v.From.Bits)<<v.To.Bits | one.Float(x) }
	case v.To.Pack == 2 || v.From.Pack == 2:
		return nil
	case isFloat(v.To) && isFloat(v.From):
		return v.Float
	case isFloat(v.To):
		return v.fromInt
	case isFloat(v.From):
		return func(x uint64) uint64 { return Extend(v.toInt(x), v.To) }
	}
	return v.integer
}

// Float converts between floating-point types.
func (v Conversion) Float(x uint64) uint64 {
	if v.From.Bits < 64 {
		x &= 1<<v.From.Bits - 1
	}
	value := Flushed(v.From, FloatMode{FTZ: v.FTZ}, x)
	if v.Relu && !(value > 0) && value == value {
		value = 0
	}
	switch v.Rounding {
	case "rni", "rzi", "rmi", "rpi":
		value = roundInteger(value, roundings[v.Rounding])
		return Finish(v.To, FloatMode{Saturate: v.Saturate}, value)
	}
	switch v.To.Class {
	case 'e':
		return uint64(FormatE4M3.From(value, RoundNearest, true))
	case 'E':
		return uint64(formatE5M2.From(value, RoundNearest, true))
	case 't':
		return FromFloat(v.To, value, roundings[v.Rounding])
	}
	if v.Finite {
		largest := formatF16
		if v.To.Class == 'h' {
			largest = formatBF16
		}
		return uint64(largest.From(value, roundings[v.Rounding], true))
	}
	return Finish(v.To, FloatMode{Rounding: v.Rounding, FTZ: v.FTZ, Saturate: v.Saturate}, value)
}

func roundInteger(x float64, mode rounding) float64 {
	switch mode {
	case roundZero:
		return math.Trunc(x)
	case roundDown:
		return math.Floor(x)
	case roundUp:
		return math.Ceil(x)
	}
	return math.RoundToEven(x)
}

// fromInt converts an integer to a floating-point type. 64 bits may not fit a
// float64, so the value is rounded to odd first.
func (v Conversion) fromInt(x uint64) uint64 {
	x = Extend(x, v.From)
	value := 0.0
	if v.From.Signed() {
		value = oddInt(int64(x))
	} else {
		value = OddSum(float64(x>>32)*0x1p32, float64(x&AllLanes))
	}
	if v.To.Bits == 64 {
		if v.From.Signed() {
			return math.Float64bits(float64(int64(x)))
		}
		return math.Float64bits(float64(x))
	}
	return Finish(v.To, FloatMode{Rounding: v.Rounding, Saturate: v.Saturate}, value)
}

func oddInt(x int64) float64 { return OddSum(float64(x>>32)*0x1p32, float64(x&AllLanes)) }

// toInt converts a floating-point number to an integer; what does not fit
// becomes the nearest end of the range, and a NaN becomes zero.
func (v Conversion) toInt(x uint64) uint64 {
	value := roundInteger(Flushed(v.From, FloatMode{FTZ: v.FTZ}, x), roundings[v.Rounding])
	if value != value {
		return 0
	}
	low, high := 0.0, math.Ldexp(1, v.To.Bits)
	if v.To.Signed() {
		low, high = -math.Ldexp(1, v.To.Bits-1), math.Ldexp(1, v.To.Bits-1)
	}
	switch {
	case value < low && v.To.Signed():
		return Extend(1<<(v.To.Bits-1), UnsignedOf(v.To))
	case value < low:
		return 0
	case value >= high && v.To.Signed():
		return 1<<(v.To.Bits-1) - 1
	case value >= high:
		return Extend(^uint64(0), UnsignedOf(v.To))
	case value < 0:
		return Extend(uint64(int64(value)), UnsignedOf(v.To))
	}
	return uint64(value)
}

// integer converts between integer types. The register may be wider than the
// type: the value is extended to the register by its sign.
func (v Conversion) integer(x uint64) uint64 {
	x = Extend(x, v.From)
	if !v.Saturate {
		return Extend(x, v.To)
	}
	low, high := int64(0), int64(1)<<(min(v.To.Bits, 63)-1)*2-1
	if v.To.Signed() {
		low, high = -1<<(v.To.Bits-1), 1<<(v.To.Bits-1)-1
	}
	if !v.From.Signed() && x > uint64(high) {
		return uint64(high)
	}
	return uint64(min(max(int64(x), low), high))
}
