package ptx

import (
	"fmt"
	"math"
	"math/big"
	"math/bits"
	"math/rand/v2"
	"strings"
	"testing"

	"parley/internal/ptx/arith"
)

const scalarKernel = `.version 8.3
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 in, .param .u64 out)
{
.reg .b16 %%h<8>; .reg .b32 %%r<16>; .reg .b64 %%rd<16>; .reg .f32 %%f<8>; .reg .f64 %%d<8>; .reg .pred %%p<8>;
ld.param.u64 %%rd10, [in];
ld.param.u64 %%rd11, [out];
mov.u32 %%r10, %%tid.x;
mad.wide.u32 %%rd12, %%r10, 24, %%rd10;
ld.global.u64 %%rd0, [%%rd12];
ld.global.v2.u64 {%%rd1, %%rd2}, [%%rd12+8];
cvt.u32.u64 %%r0, %%rd0; cvt.u32.u64 %%r1, %%rd1; cvt.u32.u64 %%r2, %%rd2;
cvt.u16.u64 %%h0, %%rd0; cvt.u16.u64 %%h1, %%rd1; cvt.u16.u64 %%h2, %%rd2;
mov.b32 %%f0, %%r0; mov.b32 %%f1, %%r1; mov.b32 %%f2, %%r2;
mov.b64 %%d0, %%rd0; mov.b64 %%d1, %%rd1; mov.b64 %%d2, %%rd2;
%s
%s
mul.wide.u32 %%rd13, %%r10, 8;
add.s64 %%rd13, %%rd13, %%rd11;
st.global.u64 [%%rd13], %%rd3;
ret;
}
`

// results say how the result of a body becomes %rd3.
var results = map[byte]string{
	'h': "cvt.u64.u16 %rd3, %h3;",
	'r': "cvt.u64.u32 %rd3, %r3;",
	'd': "",
	'f': "mov.b32 %r3, %f3; cvt.u64.u32 %rd3, %r3;",
	'F': "mov.b64 %rd3, %d3;",
	'p': "selp.u64 %rd3, 1, 0, %p3;",
}

// evaluate runs a body for triples of inputs.
func evaluate(t testing.TB, body string, result byte, in [][3]uint64) []uint64 {
	t.Helper()
	m, err := Parse(fmt.Sprintf(scalarKernel, body, results[result]))
	if err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	b := &bench{t, m, New(Options{Without: CheckAlignment})}
	var flat []uint64
	for _, v := range in {
		flat = append(flat, v[0], v[1], v[2])
	}
	out := upload(b, make([]uint64, len(in)))
	b.run("k", Dim{1}, Dim{len(in)}, 0, U64(upload(b, flat)), U64(out))
	return download[uint64](b, out, len(in))
}

func integerInputs() [][3]uint64 {
	r := rand.New(rand.NewPCG(11, 1))
	special := []uint64{0, 1, 2, 31, 32, 33, 63, 64, 0x7f, 0x80, 0xff, 0x7fff, 0x8000, 0xffff, 1<<31 - 1, 1 << 31,
		1<<32 - 1, 1 << 63, math.MaxUint64}
	var in [][3]uint64
	for range 600 {
		var v [3]uint64
		for i := range v {
			switch r.IntN(3) {
			case 0:
				v[i] = special[r.IntN(len(special))]
			case 1:
				v[i] = r.Uint64() >> r.IntN(64)
			default:
				v[i] = -(r.Uint64() >> r.IntN(64))
			}
		}
		in = append(in, v)
	}
	return in
}

func flag(v bool) uint64 {
	if v {
		return 1
	}
	return 0
}

var integerCases = []struct {
	body   string
	result byte
	want   func(a, b, c uint64) uint64
}{
	{"add.s16 %h3, %h0, %h1;", 'h', func(a, b, _ uint64) uint64 { return uint64(uint16(a + b)) }},
	{"mul.lo.s16 %h3, %h0, %h1;", 'h', func(a, b, _ uint64) uint64 { return uint64(uint16(a) * uint16(b)) }},
	{"mul.hi.u16 %h3, %h0, %h1;", 'h', func(a, b, _ uint64) uint64 {
		return uint64(uint32(uint16(a)) * uint32(uint16(b)) >> 16)
	}},
	{"mul.hi.s16 %h3, %h0, %h1;", 'h', func(a, b, _ uint64) uint64 {
		return uint64(uint16(int32(int16(a)) * int32(int16(b)) >> 16))
	}},
	{"mul.wide.s16 %r3, %h0, %h1;", 'r', func(a, b, _ uint64) uint64 {
		return uint64(uint32(int32(int16(a)) * int32(int16(b))))
	}},
	{"shr.s16 %h3, %h0, %r1;", 'h', func(a, b, _ uint64) uint64 {
		return uint64(uint16(int16(a) >> min(uint32(b), 15)))
	}},
	{"shr.u16 %h3, %h0, %r1;", 'h', func(a, b, _ uint64) uint64 { return uint64(uint16(a) >> uint32(b)) }},
	{"min.s16 %h3, %h0, %h1;", 'h', func(a, b, _ uint64) uint64 { return uint64(uint16(min(int16(a), int16(b)))) }},
	{"max.u64 %rd3, %rd0, %rd1;", 'd', func(a, b, _ uint64) uint64 { return max(a, b) }},
	{"min.s64 %rd3, %rd0, %rd1;", 'd', func(a, b, _ uint64) uint64 { return uint64(min(int64(a), int64(b))) }},
	{"add.sat.s32 %r3, %r0, %r1;", 'r', func(a, b, _ uint64) uint64 {
		return uint64(uint32(clamp(int64(int32(a))+int64(int32(b)), math.MinInt32, math.MaxInt32)))
	}},
	{"shl.b64 %rd3, %rd0, %r1;", 'd', func(a, b, _ uint64) uint64 { return a << uint32(b) }},
	{"shr.s64 %rd3, %rd0, %r1;", 'd', func(a, b, _ uint64) uint64 { return uint64(int64(a) >> uint32(b)) }},
	{"shl.b32 %r3, %r0, %r1;", 'r', func(a, b, _ uint64) uint64 { return uint64(uint32(a) << uint32(b)) }},
	{"mad.hi.u32 %r3, %r0, %r1, %r2;", 'r', func(a, b, c uint64) uint64 {
		return uint64(uint32(uint64(uint32(a))*uint64(uint32(b))>>32) + uint32(c))
	}},
	{"mad.wide.s32 %rd3, %r0, %r1, %rd2;", 'd', func(a, b, c uint64) uint64 {
		return uint64(int64(int32(a))*int64(int32(b))) + c
	}},
	{"mad.lo.s64 %rd3, %rd0, %rd1, %rd2;", 'd', func(a, b, c uint64) uint64 { return a*b + c }},
	{"abs.s32 %r3, %r0;", 'r', func(a, _, _ uint64) uint64 { return uint64(uint32(max(int32(a), -int32(a)))) }},
	{"clz.b32 %r3, %r0;", 'r', func(a, _, _ uint64) uint64 { return uint64(bits.LeadingZeros32(uint32(a))) }},
	{"brev.b64 %rd3, %rd0;", 'd', func(a, _, _ uint64) uint64 { return bits.Reverse64(a) }},
	{"bfind.u32 %r3, %r0;", 'r', func(a, _, _ uint64) uint64 { return uint64(uint32(bits.Len32(uint32(a)) - 1)) }},
	{"lop3.b32 %r3, %r0, %r1, %r2, 0xe8;", 'r', func(a, b, c uint64) uint64 { return uint64(uint32(a&b | a&c | b&c)) }},
	{"lop3.b32 %r3, %r0, %r1, %r2, 0x96;", 'r', func(a, b, c uint64) uint64 { return uint64(uint32(a ^ b ^ c)) }},
	{"and.b32 %r1, %r1, 31; and.b32 %r2, %r2, 31; bfe.u32 %r3, %r0, %r1, %r2;", 'r', func(a, b, c uint64) uint64 {
		return uint64(uint32(a) >> (b & 31) & (1<<(c&31) - 1))
	}},
	{"and.b32 %r1, %r1, 15; and.b32 %r2, %r2, 15; add.s32 %r2, %r2, 1; bfe.s32 %r3, %r0, %r1, %r2;", 'r',
		func(a, b, c uint64) uint64 {
			n := c&15 + 1
			return uint64(uint32(int32(uint32(a)>>(b&15)<<(32-n)) >> (32 - n)))
		}},
	{"bfi.b32 %r3, %r0, %r1, 5, 9;", 'r', func(a, b, _ uint64) uint64 {
		return uint64(uint32(b)&^(511<<5) | uint32(a)&511<<5)
	}},
	{"shf.r.clamp.b32 %r3, %r0, %r1, %r2;", 'r', func(a, b, c uint64) uint64 {
		return uint64(uint32((b<<32 | a&math.MaxUint32) >> min(uint32(c), 32)))
	}},
	{"prmt.b32 %r3, %r0, %r1, 0x7b12;", 'r', func(a, b, _ uint64) uint64 {
		sign := uint64(uint8(int8(a>>24) >> 7))
		return b>>24&0xff<<24 | sign<<16 | a>>8&0xff<<8 | a>>16&0xff
	}},
	{"dp4a.u32.s32 %r3, %r0, %r1, %r2;", 'r', func(a, b, c uint64) uint64 {
		sum := int32(c)
		for i := range 4 {
			sum += int32(uint8(a>>(8*i))) * int32(int8(b>>(8*i)))
		}
		return uint64(uint32(sum))
	}},
	{"dp4a.s32.s32 %r3, %r0, %r1, %r2;", 'r', func(a, b, c uint64) uint64 {
		sum := int32(c)
		for i := range 4 {
			sum += int32(int8(a>>(8*i))) * int32(int8(b>>(8*i)))
		}
		return uint64(uint32(sum))
	}},
	{"setp.lt.s32 %p3, %r0, %r1;", 'p', func(a, b, _ uint64) uint64 { return flag(int32(a) < int32(b)) }},
	{"setp.hs.u32 %p3, %r0, %r1;", 'p', func(a, b, _ uint64) uint64 { return flag(uint32(a) >= uint32(b)) }},
	{"setp.gt.s64 %p3, %rd0, %rd1;", 'p', func(a, b, _ uint64) uint64 { return flag(int64(a) > int64(b)) }},
	{"setp.le.u64 %p3, %rd0, %rd1;", 'p', func(a, b, _ uint64) uint64 { return flag(a <= b) }},
	{"setp.ge.s16 %p3, %h0, %h1;", 'p', func(a, b, _ uint64) uint64 { return flag(int16(a) >= int16(b)) }},
	{"setp.ne.b32 %p1, %r0, %r1; setp.lt.and.u32 %p3|%p4, %r0, %r2, !%p1;", 'p', func(a, b, c uint64) uint64 {
		return flag(uint32(a) < uint32(c) && uint32(a) == uint32(b))
	}},
	{"setp.lt.or.u32 %p4|%p3, %r0, %r2, 0;", 'p', func(a, _, c uint64) uint64 { return flag(uint32(a) >= uint32(c)) }},
	{"set.gt.u32.s32 %r3, %r0, %r1;", 'r', func(a, b, _ uint64) uint64 {
		return flag(int32(a) > int32(b)) * math.MaxUint32
	}},
	{"slct.b32.s32 %r3, %r0, %r1, %r2;", 'r', func(a, b, c uint64) uint64 {
		return uint64(uint32(arith.Pick(int32(c) >= 0, a, b)))
	}},
	{"cvt.s32.s8 %r3, %r0;", 'r', func(a, _, _ uint64) uint64 { return uint64(uint32(int8(a))) }},
	{"cvt.sat.s8.s32 %r3, %r0;", 'r', func(a, _, _ uint64) uint64 {
		return uint64(uint32(clamp(int64(int32(a)), -128, 127)))
	}},
	{"cvt.sat.u8.s32 %r3, %r0;", 'r', func(a, _, _ uint64) uint64 { return clamp(int64(int32(a)), 0, 255) }},
	{"cvt.u16.u8 %h3, %h0;", 'h', func(a, _, _ uint64) uint64 { return a & 0xff }},
	{"cvt.s64.s16 %rd3, %h0;", 'd', func(a, _, _ uint64) uint64 { return uint64(int64(int16(a))) }},
	{"mov.b64 {%r4, %r5}, %rd0; mov.b64 %rd3, {%r5, %r4};", 'd', func(a, _, _ uint64) uint64 { return a>>32 | a<<32 }},
	{"mov.b32 {%h4, %h5}, %r0; mov.b32 %r3, {%h5, %h4};", 'r', func(a, _, _ uint64) uint64 {
		return a>>16&0xffff | a&0xffff<<16
	}},
	{"div.s32 %r3, %r0, 7; rem.s32 %r4, %r0, 7; mad.lo.s32 %r3, %r3, 7, %r4;", 'r', func(a, _, _ uint64) uint64 {
		return uint64(uint32(a))
	}},
}

func clamp(v, low, high int64) uint64 { return uint64(min(max(v, low), high)) }

func TestIntegerInstructions(t *testing.T) {
	in := integerInputs()
	for _, c := range integerCases {
		got := evaluate(t, c.body, c.result, in)
		for i, v := range in {
			if want := c.want(v[0], v[1], v[2]); got[i] != want {
				t.Errorf("%s of %#x, %#x, %#x is %#x, not %#x", c.body, v[0], v[1], v[2], got[i], want)
				break
			}
		}
	}
}

// A binaryFormat describes a floating-point format by its precision and its
// exponents, for rounding with exact arithmetic.
type binaryFormat struct{ precision, low, high int }

var (
	exactF16  = binaryFormat{11, -14, 15}
	exactBF16 = binaryFormat{8, -126, 127}
	exactF32  = binaryFormat{24, -126, 127}
)

// round returns the exact value x in the format, as a float64.
func (f binaryFormat) round(x *big.Float, mode big.RoundingMode) float64 {
	if x.Sign() == 0 || x.IsInf() {
		v, _ := x.Float64()
		return v
	}
	exponent := max(x.MantExp(nil)-1, f.low)
	quantum := exponent - f.precision + 1
	scaled := new(big.Float).SetMantExp(x, -quantum)
	whole := roundWhole(scaled, mode)
	v, _ := new(big.Float).SetMantExp(whole, quantum).Float64()
	if math.Abs(v) >= math.Ldexp(1, f.high+1) {
		largest := math.Ldexp(1, f.high+1) - math.Ldexp(1, f.high+1-f.precision)
		if mode == big.ToZero || mode == big.ToPositiveInf && v < 0 || mode == big.ToNegativeInf && v > 0 {
			return math.Copysign(largest, v)
		}
		return math.Inf(int(math.Copysign(1, v)))
	}
	return v
}

// roundWhole rounds x to a whole number.
func roundWhole(x *big.Float, mode big.RoundingMode) *big.Float {
	whole, exact := x.Int(nil) // towards zero
	if exact == big.Exact {
		return new(big.Float).SetInt(whole)
	}
	rest := new(big.Float).Sub(x, new(big.Float).SetInt(whole))
	half := rest.Abs(rest).Cmp(big.NewFloat(0.5))
	away := false
	switch mode {
	case big.ToNearestEven:
		away = half > 0 || half == 0 && whole.Bit(0) == 1
	case big.ToNearestAway:
		away = half >= 0
	case big.ToPositiveInf:
		away = x.Sign() > 0
	case big.ToNegativeInf:
		away = x.Sign() < 0
	}
	if away {
		whole.Add(whole, big.NewInt(int64(x.Sign())))
	}
	return new(big.Float).SetInt(whole)
}

func exact(x float64) *big.Float { return new(big.Float).SetPrec(4000).SetFloat64(x) }

var bigModes = map[string]big.RoundingMode{
	"rn": big.ToNearestEven, "rz": big.ToZero, "rp": big.ToPositiveInf, "rm": big.ToNegativeInf,
	"rna": big.ToNearestAway,
}

// floatInputs are finite numbers with all kinds of exponents, close pairs included.
func floatInputs(t arith.Type) [][3]uint64 {
	r := rand.New(rand.NewPCG(12, uint64(t.Bits)))
	var in [][3]uint64
	for range 900 {
		var v [3]uint64
		for i := range v {
			v[i] = arith.FromFloat(t, math.Ldexp(r.NormFloat64(), r.IntN(30)-15), arith.RoundNearest)
			if r.IntN(4) == 0 {
				v[i] = r.Uint64() & (1<<t.Bits - 1)
			}
		}
		if r.IntN(3) == 0 { // almost cancels
			p := arith.ToFloat(t, v[0]) * arith.ToFloat(t, v[1])
			v[2] = arith.FromFloat(t, -p, arith.RoundNearest) ^ uint64(r.IntN(3))
		}
		ok := true
		for i := range v {
			x := arith.ToFloat(t, v[i])
			ok = ok && x == x && !math.IsInf(x, 0)
		}
		if ok {
			in = append(in, v)
		}
	}
	return in
}

func TestFloatArithmeticIsExact(t *testing.T) {
	for _, f := range []struct {
		name   string
		reg    string
		result byte
		format binaryFormat
		modes  string
	}{
		{"f32", "f", 'f', exactF32, "rn rz rp rm"},
		{"f16", "h", 'h', exactF16, "rn"},
		{"bf16", "h", 'h', exactBF16, "rn"},
	} {
		kind := arith.Types[f.name]
		in := floatInputs(kind)
		for mode := range strings.FieldsSeq(f.modes) {
			for op, want := range map[string]func(a, b, c *big.Float) *big.Float{
				"fma": func(a, b, c *big.Float) *big.Float { p := exact(0).Mul(a, b); return p.Add(p, c) },
				"add": func(a, b, _ *big.Float) *big.Float { return exact(0).Add(a, b) },
				"sub": func(a, b, _ *big.Float) *big.Float { return exact(0).Sub(a, b) },
				"mul": func(a, b, _ *big.Float) *big.Float { return exact(0).Mul(a, b) },
			} {
				body := fmt.Sprintf("%s.%s.%s %%%s3, %%%[4]s0, %%%[4]s1", op, mode, f.name, f.reg)
				if op == "fma" {
					body += ", %" + f.reg + "2"
				}
				got := evaluate(t, body+";", f.result, in)
				for i, v := range in {
					number := func(i int) *big.Float { return exact(arith.ToFloat(kind, v[i])) }
					x := want(number(0), number(1), number(2))
					if w := f.format.round(x, bigModes[mode]); arith.ToFloat(kind, got[i]) != w {
						t.Errorf("%s of %#x, %#x, %#x is %v, not %v", body, v[0], v[1], v[2],
							arith.ToFloat(kind, got[i]), w)
						break
					}
				}
			}
		}
	}
}

func TestConversionsAreExact(t *testing.T) {
	wide := floatInputs(arith.Types["f32"])
	for _, c := range []struct {
		body   string
		result byte
		to     arith.Type
		format binaryFormat
		modes  string
	}{
		{"cvt.%s.f16.f32 %%h3, %%f0;", 'h', arith.Types["f16"], exactF16, "rn rz"},
		{"cvt.%s.bf16.f32 %%h3, %%f0;", 'h', arith.Types["bf16"], exactBF16, "rn rz"},
		{"cvt.%s.tf32.f32 %%r3, %%f0;", 'r', arith.Types["f32"], binaryFormat{11, -126, 127}, "rna"},
	} {
		for mode := range strings.FieldsSeq(c.modes) {
			got := evaluate(t, fmt.Sprintf(c.body, mode), c.result, wide)
			for i, v := range wide {
				x := arith.ToFloat(arith.Types["f32"], v[0])
				if want := c.format.round(exact(x), bigModes[mode]); arith.ToFloat(c.to, got[i]) != want {
					t.Errorf("%s of %v with %s is %v, not %v", c.body, x, mode, arith.ToFloat(c.to, got[i]), want)
					break
				}
			}
		}
	}
	for name, round := range map[string]func(float64) float64{"rni": math.RoundToEven, "rzi": math.Trunc,
		"rmi": math.Floor, "rpi": math.Ceil} {
		got := evaluate(t, "cvt."+name+".s32.f32 %r3, %f0;", 'r', wide)
		bytes := evaluate(t, "cvt."+name+".u8.f32 %r3, %f0;", 'r', wide)
		for i, v := range wide {
			x := round(float64(arith.F32(uint32(v[0]))))
			if want := uint32(int32(min(max(x, math.MinInt32), math.MaxInt32))); uint32(got[i]) != want {
				t.Errorf("%s of %v is %d", name, x, int32(got[i]))
			}
			if want := uint64(min(max(x, 0), 255)); bytes[i] != want {
				t.Errorf("%s of %v to u8 is %d", name, x, bytes[i])
			}
		}
	}
	ints := integerInputs()
	for body, want := range map[string]func(a uint64) float32{
		"cvt.rn.f32.s32 %f3, %r0;":  func(a uint64) float32 { return float32(int32(a)) },
		"cvt.rn.f32.u64 %f3, %rd0;": func(a uint64) float32 { return float32(a) },
		"cvt.rn.f32.s64 %f3, %rd0;": func(a uint64) float32 { return float32(int64(a)) },
		"cvt.rn.f32.u16 %f3, %h0;":  func(a uint64) float32 { return float32(uint16(a)) },
	} {
		for i, v := range evaluate(t, body, 'f', ints) {
			if arith.F32(uint32(v)) != want(ints[i][0]) {
				t.Errorf("%s of %#x is %v, not %v", body, ints[i][0], arith.F32(uint32(v)), want(ints[i][0]))
				break
			}
		}
	}
}

func TestSpecialFloats(t *testing.T) {
	nan, inf := uint64(0x7fc00000), uint64(0x7f800000)
	one, two, zero, minusZero := uint64(0x3f800000), uint64(0x40000000), uint64(0), uint64(0x80000000)
	tiny := uint64(1)
	for _, c := range []struct {
		body    string
		result  byte
		a, b, c uint64
		want    uint64
	}{
		{"min.f32 %f3, %f0, %f1;", 'f', nan, one, 0, one},
		{"max.f32 %f3, %f0, %f1;", 'f', one, nan, 0, one},
		{"min.f32 %f3, %f0, %f1;", 'f', zero, minusZero, 0, minusZero},
		{"max.f32 %f3, %f0, %f1;", 'f', minusZero, zero, 0, zero},
		{"max.NaN.f32 %f3, %f0, %f1; testp.notanumber.f32 %p3, %f3;", 'p', one, nan, 0, 1},
		{"setp.lt.f32 %p3, %f0, %f1;", 'p', nan, one, 0, 0},
		{"setp.ltu.f32 %p3, %f0, %f1;", 'p', nan, one, 0, 1},
		{"setp.neu.f32 %p3, %f0, %f1;", 'p', nan, nan, 0, 1},
		{"setp.ne.f32 %p3, %f0, %f1;", 'p', nan, nan, 0, 0},
		{"setp.nan.f32 %p3, %f0, %f1;", 'p', nan, one, 0, 1},
		{"setp.num.f32 %p3, %f0, %f1;", 'p', nan, one, 0, 0},
		{"add.ftz.f32 %f3, %f0, %f1;", 'f', tiny, zero, 0, zero},
		{"add.f32 %f3, %f0, %f1;", 'f', tiny, tiny, 0, 2},
		{"add.sat.f32 %f3, %f0, %f1;", 'f', one, one, 0, one},
		{"fma.rn.sat.f32 %f3, %f0, %f1, %f2;", 'f', one, one | 1<<31, 0, zero},
		{"neg.f32 %f3, %f0;", 'f', one, 0, 0, one | 1<<31},
		{"abs.f32 %f3, %f0;", 'f', minusZero, 0, 0, zero},
		{"rcp.rn.f32 %f3, %f0;", 'f', two, 0, 0, 0x3f000000},
		{"rcp.approx.ftz.f32 %f3, %f0;", 'f', zero, 0, 0, inf},
		{"sqrt.rn.f32 %f3, %f0;", 'f', two, 0, 0, 0x3fb504f3},
		{"rsqrt.approx.f32 %f3, %f0;", 'f', 0x40800000, 0, 0, 0x3f000000},
		{"ex2.approx.ftz.f32 %f3, %f0;", 'f', 0x41200000, 0, 0, 0x44800000},
		{"ex2.approx.ftz.f32 %f3, %f0;", 'f', 0xff800000, 0, 0, zero},
		{"lg2.approx.f32 %f3, %f0;", 'f', 0x44800000, 0, 0, 0x41200000},
		{"tanh.approx.f32 %f3, %f0;", 'f', zero, 0, 0, zero},
		{"cvt.rzi.s32.f32 %r3, %f0;", 'r', nan, 0, 0, 0},
		{"cvt.rni.ftz.f32.f32 %f3, %f0;", 'f', 0x40200000, 0, 0, two},
		{"copysign.f32 %f3, %f0, %f1;", 'f', minusZero, one, 0, one | 1<<31},
		{"fma.rn.f16x2 %r3, %r0, %r1, %r2;", 'r', 0x3c004000, 0x40003c00, 0x3c003c00, 0x42004200},
		{"fma.rn.bf16x2 %r3, %r0, %r1, %r2;", 'r', 0x3f804000, 0x40003f80, 0x3f803f80, 0x40404040},
		{"add.rn.bf16x2 %r3, %r0, %r1;", 'r', 0x3f804000, 0x3f804000, 0, 0x40004080},
		{"max.bf16x2 %r3, %r0, %r1;", 'r', 0x3f804000, 0x40003f80, 0, 0x40004000},
		{"cvt.rn.bf16x2.f32 %r3, %f0, %f1;", 'r', one, two, 0, 0x3f804000},
		{"cvt.rn.relu.bf16x2.f32 %r3, %f0, %f1;", 'r', one | 1<<31, two, 0, 0x00004000},
		{"cvt.rn.f16x2.f32 %r3, %f0, %f1;", 'r', one, two, 0, 0x3c004000},
		{"cvt.rn.f16x2.e4m3x2 %r3, %h0;", 'r', 0x38c1, 0, 0, 0x3c00c080},
		{"fma.rn.f64 %d3, %d0, %d1, %d2;", 'F', b64(1 + 0x1p-30), b64(1 - 0x1p-30), b64(-1), b64(-0x1p-60)},
		{"add.rn.f64 %d3, %d0, %d1;", 'F', b64(1), b64(0x1p-54), 0, b64(1)},
		{"sub.rn.f64 %d3, %d0, %d1;", 'F', b64(1), b64(0x1p-55), 0, b64(1)},
		{"fma.rn.f32 %f3, %f0, %f1, %f2;", 'f', 0x3f800800, 0x3f800800, 0x17800000, 0x3f801001}, // just above a tie
		{"add.rn.f32 %f3, %f0, 0f3F800000;", 'f', one, 0, 0, two},
		{"div.full.f32 %f3, %f0, %f1;", 'f', one, two, 0, 0x3f000000},
	} {
		if got := evaluate(t, c.body, c.result, [][3]uint64{{c.a, c.b, c.c}})[0]; got != c.want {
			t.Errorf("%s of %#x, %#x, %#x is %#x, not %#x", c.body, c.a, c.b, c.c, got, c.want)
		}
	}
}

func b64(x float64) uint64 { return math.Float64bits(x) }

func TestWarpInstructions(t *testing.T) {
	lanes := make([][3]uint64, 32)
	for i := range lanes {
		lanes[i] = [3]uint64{uint64(i), uint64(i / 3), uint64(100 - i)}
	}
	for _, c := range []struct {
		body   string
		result byte
		want   func(lane int) uint64
	}{
		{"shfl.sync.up.b32 %r3|%p3, %r2, 3, 0, -1;", 'r', func(i int) uint64 {
			return arith.Pick(i < 3, uint64(100-i), uint64(103-i))
		}},
		{"shfl.sync.up.b32 %r3|%p3, %r2, 3, 0, -1;", 'p', func(i int) uint64 { return flag(i >= 3) }},
		{"shfl.sync.down.b32 %r3, %r2, 2, 0x181f, -1;", 'r', func(i int) uint64 {
			if i%8+2 > 7 {
				return uint64(100 - i)
			}
			return uint64(100 - i - 2)
		}},
		{"shfl.sync.idx.b32 %r3, %r2, 5, 0x1f, -1;", 'r', func(int) uint64 { return 95 }},
		{"shfl.sync.bfly.b32 %r3, %r2, 16, 0x1f, -1;", 'r', func(i int) uint64 { return uint64(100 - (i ^ 16)) }},
		{"setp.lt.u32 %p1, %r0, 10; vote.sync.ballot.b32 %r3, %p1, -1;", 'r', func(int) uint64 { return 1023 }},
		{"setp.lt.u32 %p1, %r0, 10; vote.sync.any.pred %p3, %p1, -1;", 'p', func(int) uint64 { return 1 }},
		{"setp.lt.u32 %p1, %r0, 10; vote.sync.all.pred %p3, %p1, -1;", 'p', func(int) uint64 { return 0 }},
		{"redux.sync.add.s32 %r3, %r0, -1;", 'r', func(int) uint64 { return 496 }},
		{"redux.sync.max.u32 %r3, %r2, -1;", 'r', func(int) uint64 { return 100 }},
		{"match.any.sync.b32 %r3, %r1, -1;", 'r', func(i int) uint64 { return 7 << (i / 3 * 3) & math.MaxUint32 }},
		{"match.all.sync.b32 %r3|%p3, %r1, -1;", 'p', func(int) uint64 { return 0 }},
		{"mov.u32 %r3, 0; setp.lt.u32 %p1, %r0, 4; @%p1 activemask.b32 %r3;", 'r', func(i int) uint64 {
			return 15 * flag(i < 4)
		}},
		{"mov.u32 %r3, %lanemask_lt;", 'r', func(i int) uint64 { return 1<<i - 1 }},
		{"setp.lt.u32 %p1, %r0, 10; bar.red.popc.u32 %r3, 0, %p1;", 'r', func(int) uint64 { return 10 }},
		{"setp.lt.u32 %p1, %r0, 10; bar.red.or.pred %p3, 0, %p1;", 'p', func(int) uint64 { return 1 }},
		{"setp.lt.u32 %p1, %r0, 10; bar.red.and.pred %p3, 0, %p1;", 'p', func(int) uint64 { return 0 }},
		{"T: .branchtargets A, B, C; rem.u32 %r4, %r0, 3; brx.idx %r4, T; A: mov.u32 %r3, 10; bra.uni D; B: " +
			"mov.u32 %r3, 20; bra.uni D; C: mov.u32 %r3, 30; D:", 'r',
			func(i int) uint64 { return uint64(i%3*10 + 10) }},
	} {
		got := evaluate(t, c.body, c.result, lanes)
		for i := range lanes {
			want := c.want(i)
			if got[i] != want {
				t.Errorf("%s: lane %d has %#x, not %#x", c.body, i, got[i], want)
				break
			}
		}
	}
}
