package arith

import "math"

// A Type is a PTX type: class u, s, b, f, h (bfloat16), p (predicate), t (tf32)
// or e (eight-bit floats), its bits, and how many are packed together.
type Type struct {
	Class byte
	Bits  int
	Pack  int
}

// Scalar returns a type of one value.
func Scalar(class byte, bits int) Type { return Type{class, bits, 1} }

// Size returns how many bytes a value takes.
func (t Type) Size() int { return t.Bits * t.Pack / 8 }

// Signed reports whether t is a signed integer.
func (t Type) Signed() bool { return t.Class == 's' }

// Float reports whether arithmetic instructions take t as a floating-point type.
func (t Type) Float() bool { return t.Class == 'f' || t.Class == 'h' }

// Types are the types by their names.
var Types = map[string]Type{
	"pred": {'p', 1, 1},
	"b8":   {'b', 8, 1}, "b16": {'b', 16, 1}, "b32": {'b', 32, 1}, "b64": {'b', 64, 1}, "b128": {'b', 128, 1},
	"u8": {'u', 8, 1}, "u16": {'u', 16, 1}, "u32": {'u', 32, 1}, "u64": {'u', 64, 1},
	"s8": {'s', 8, 1}, "s16": {'s', 16, 1}, "s32": {'s', 32, 1}, "s64": {'s', 64, 1},
	"f16": {'f', 16, 1}, "f32": {'f', 32, 1}, "f64": {'f', 64, 1},
	"f16x2": {'f', 16, 2}, "bf16": {'h', 16, 1}, "bf16x2": {'h', 16, 2}, "tf32": {'t', 32, 1},
	"e4m3": {'e', 8, 1}, "e5m2": {'E', 8, 1}, "e4m3x2": {'e', 8, 2}, "e5m2x2": {'E', 8, 2},
	"u16x2": {'u', 16, 2}, "s16x2": {'s', 16, 2},
}

// F32 returns the number of a bit pattern.
func F32(bits uint32) float32 { return math.Float32frombits(bits) }

// B32 returns the bit pattern of a number.
func B32(value float32) uint32 { return math.Float32bits(value) }
