package arith

import "math"

// A warp has 32 lanes.
const (
	WarpSize = 32
	AllLanes = math.MaxUint32
)

// Lanes are the values of one register in all lanes.
type (
	Lanes32 = [WarpSize]uint32
	Lanes64 = [WarpSize]uint64
)

// unsigned are the contents of registers.
type unsigned interface{ uint32 | uint64 }

type signed interface{ int32 | int64 }

func addLanes[T unsigned](d, a, b *[WarpSize]T) {
	for i := range d {
		d[i] = a[i] + b[i]
	}
}

func subLanes[T unsigned](d, a, b *[WarpSize]T) {
	for i := range d {
		d[i] = a[i] - b[i]
	}
}

func mulLanes[T unsigned](d, a, b *[WarpSize]T) {
	for i := range d {
		d[i] = a[i] * b[i]
	}
}

func andLanes[T unsigned](d, a, b *[WarpSize]T) {
	for i := range d {
		d[i] = a[i] & b[i]
	}
}

func orLanes[T unsigned](d, a, b *[WarpSize]T) {
	for i := range d {
		d[i] = a[i] | b[i]
	}
}

func xorLanes[T unsigned](d, a, b *[WarpSize]T) {
	for i := range d {
		d[i] = a[i] ^ b[i]
	}
}

func minLanes[T unsigned](d, a, b *[WarpSize]T) {
	for i := range d {
		d[i] = min(a[i], b[i])
	}
}

func maxLanes[T unsigned](d, a, b *[WarpSize]T) {
	for i := range d {
		d[i] = max(a[i], b[i])
	}
}

func minSigned[S signed, T unsigned](d, a, b *[WarpSize]T) {
	for i := range d {
		d[i] = T(min(S(a[i]), S(b[i])))
	}
}

func maxSigned[S signed, T unsigned](d, a, b *[WarpSize]T) {
	for i := range d {
		d[i] = T(max(S(a[i]), S(b[i])))
	}
}

func shlLanes(d, a, b *Lanes32) {
	for i := range d {
		d[i] = a[i] << b[i]
	}
}

func shrLanes(d, a, b *Lanes32) {
	for i := range d {
		d[i] = a[i] >> b[i]
	}
}

func sarLanes(d, a, b *Lanes32) {
	for i := range d {
		d[i] = uint32(int32(a[i]) >> b[i])
	}
}

// HotInt32 and hot64 are the integer instructions with a loop of their own, by
// name and class; the class is left out where it makes no difference.
var HotInt32 = map[string]func(d, a, b *Lanes32){
	"add": addLanes[uint32], "sub": subLanes[uint32], "mul": mulLanes[uint32],
	"and": andLanes[uint32], "or": orLanes[uint32], "xor": xorLanes[uint32],
	"min.u": minLanes[uint32], "max.u": maxLanes[uint32],
	"min.s": minSigned[int32, uint32], "max.s": maxSigned[int32, uint32],
	"shl": shlLanes, "shr.u": shrLanes, "shr.b": shrLanes, "shr.s": sarLanes,
}

// HotInt64 is HotInt32 for 64 bits.
var HotInt64 = map[string]func(d, a, b *Lanes64){
	"add": addLanes[uint64], "sub": subLanes[uint64], "mul": mulLanes[uint64],
	"and": andLanes[uint64], "or": orLanes[uint64], "xor": xorLanes[uint64],
	"min.u": minLanes[uint64], "max.u": maxLanes[uint64],
	"min.s": minSigned[int64, uint64], "max.s": maxSigned[int64, uint64],
}

// FirstOf returns the value of the first key that the table has.
func FirstOf[T any](table map[string]T, keys ...string) (v T, ok bool) {
	for _, key := range keys {
		if v, ok = table[key]; ok {
			return v, true
		}
	}
	return v, false
}

func addF32(d, a, b *Lanes32) {
	for i := range d {
		d[i] = B32(F32(a[i]) + F32(b[i]))
	}
}

func subF32(d, a, b *Lanes32) {
	for i := range d {
		d[i] = B32(F32(a[i]) - F32(b[i]))
	}
}

func mulF32(d, a, b *Lanes32) {
	for i := range d {
		d[i] = B32(F32(a[i]) * F32(b[i]))
	}
}

func divF32(d, a, b *Lanes32) {
	for i := range d {
		d[i] = B32(F32(a[i]) / F32(b[i]))
	}
}

func minF32(d, a, b *Lanes32) {
	for i := range d {
		d[i] = B32(float32(lesser(float64(F32(a[i])), float64(F32(b[i])))))
	}
}

func maxF32(d, a, b *Lanes32) {
	for i := range d {
		d[i] = B32(float32(greater(float64(F32(a[i])), float64(F32(b[i])))))
	}
}

// FMAF32 computes a*b+c with one rounding.
func FMAF32(d, a, b, c *Lanes32) {
	for i := range d {
		d[i] = B32(fma32(F32(a[i]), F32(b[i]), F32(c[i])))
	}
}

// HotFloat32 are the frequent single-precision instructions.
var HotFloat32 = map[string]func(d, a, b *Lanes32){
	"add": addF32, "sub": subF32, "mul": mulF32, "div": divF32, "min": minF32, "max": maxF32,
}

// PackBF16 rounds two numbers to bfloat16, a in the upper half.
func PackBF16(d, a, b *Lanes32) {
	for i := range d {
		d[i] = bf16Near(a[i])<<16 | bf16Near(b[i])
	}
}

// ToBF16 rounds to bfloat16.
func ToBF16(d, a *Lanes32) {
	for i := range d {
		d[i] = bf16Near(a[i])
	}
}

// FromBF16 widens bfloat16.
func FromBF16(d, a *Lanes32) {
	for i := range d {
		d[i] = a[i] << 16
	}
}

// FromF16 widens half precision.
func FromF16(d, a *Lanes32) {
	for i := range d {
		d[i] = B32(F16To(a[i]))
	}
}

// FromS32 converts signed integers to single precision.
func FromS32(d, a *Lanes32) {
	for i := range d {
		d[i] = B32(float32(int32(a[i])))
	}
}

// WideUnsigned multiplies to 64 bits.
func WideUnsigned(d *Lanes64, a, b *Lanes32) {
	for i := range d {
		d[i] = uint64(a[i]) * uint64(b[i])
	}
}

// WideSigned multiplies signed integers to 64 bits.
func WideSigned(d *Lanes64, a, b *Lanes32) {
	for i := range d {
		d[i] = uint64(int64(int32(a[i])) * int64(int32(b[i])))
	}
}

// MadLanes computes the low 32 bits of a*b+c.
func MadLanes(d, a, b, c *Lanes32) {
	for i := range d {
		d[i] = a[i]*b[i] + c[i]
	}
}

// DotSigned adds the products of four signed bytes to e.
func DotSigned(d, a, b, e *Lanes32) {
	for i := range d {
		x, y := a[i], b[i]
		d[i] = e[i] + uint32(int32(int8(x))*int32(int8(y))+
			int32(int8(x>>8))*int32(int8(y>>8))+
			int32(int8(x>>16))*int32(int8(y>>16))+
			int32(int8(x>>24))*int32(int8(y>>24)))
	}
}
