package weights

import (
	"encoding/binary"
	"hash/fnv"
	"math"
	"strings"
	"testing"
)

// The checksums below were computed with ggml's own reference functions on the
// same input, so that these tests fail when a layout or a rounding differs.

func checksum(b []byte) uint64 {
	h := fnv.New64a()
	h.Write(b)
	return h.Sum64()
}

func floatBytes(values []float32) []byte {
	out := make([]byte, 0, 4*len(values))
	for _, v := range values {
		out = binary.LittleEndian.AppendUint32(out, math.Float32bits(v))
	}
	return out
}

var quantTypes = []DType{Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, Q4_K, Q5_K, Q6_K}

func TestDequantizeMatchesReference(t *testing.T) {
	const blocks = 16
	for _, c := range []struct {
		t      DType
		halves []int
		want   uint64
	}{
		{Q8_0, []int{0}, 0x20e323404ae4b875},
		{Q4_0, []int{0}, 0x9ef08b8667f185a6},
		{Q4_1, []int{0, 2}, 0x107820a3b3220c4f},
		{Q5_0, []int{0}, 0x1d0e936a1644bad1},
		{Q5_1, []int{0, 2}, 0xddced33f2c11297d},
		{Q4_K, []int{0, 2}, 0x2c73fcf5ba9ffd61},
		{Q5_K, []int{0, 2}, 0x5c4b1c77ced69fde},
		{Q6_K, []int{208}, 0x5973befdbaa3dabf},
	} {
		rng := &random{1}
		src := make([]byte, blocks*c.t.BlockBytes())
		for i := range src {
			src[i] = byte(rng.next() >> 56)
		}
		for b := range blocks {
			for _, h := range c.halves {
				src[b*c.t.BlockBytes()+h+1] &= 0xbf
			}
		}
		dst := make([]float32, blocks*c.t.BlockLen())
		if err := Dequantize(dst, c.t, src); err != nil {
			t.Fatal(err)
		}
		if got := checksum(floatBytes(dst)); got != c.want {
			t.Errorf("%s: checksum %016x, reference %016x (first %g, last %g)", c.t, got, c.want, dst[0],
				dst[len(dst)-1])
		}
	}
}

func TestQuantizeMatchesReference(t *testing.T) {
	const blocks = 16
	for _, c := range []struct {
		t    DType
		want uint64
	}{
		{Q8_0, 0x442c79989007fb5e},
		{Q4_0, 0x794e9227408e7d1b},
		{Q4_1, 0xa7b2ab747b12fee8},
		{Q5_0, 0xc17dacf5a21908ac},
		{Q5_1, 0x139114f3a3125a1f},
	} {
		rng := &random{2}
		src := make([]float32, blocks*c.t.BlockLen())
		for i := range src {
			src[i] = float32(int32(rng.next()>>40)-1<<23) / (1 << 22)
		}
		dst := make([]byte, blocks*c.t.BlockBytes())
		if err := Quantize(dst, c.t, src); err != nil {
			t.Fatal(err)
		}
		if got := checksum(dst); got != c.want {
			t.Errorf("%s: checksum %016x, reference %016x", c.t, got, c.want)
		}
	}
}

func TestHalfMatchesReference(t *testing.T) {
	var widened []byte
	for i := range 1 << 16 {
		bits := math.Float32bits(FromF16(uint16(i)))
		if bits&0x7fffffff > 0x7f800000 {
			bits = 0x7fc00000
		}
		widened = binary.LittleEndian.AppendUint32(widened, bits)
	}
	if got := checksum(widened); got != 0x1f87f165810ea7c5 {
		t.Errorf("from half: checksum %016x", got)
	}
	var anything, nearGrid []byte
	for i := range 200_000 {
		u := uint32((&random{uint64(i)}).next())
		h := uint16(0)
		if f := math.Float32frombits(u); f == f {
			h = ToF16(f)
		}
		anything = binary.LittleEndian.AppendUint16(anything, h)
		near := u&0x80000fff | (100+u>>12&31)<<23 | u>>17&0x3ff<<13
		nearGrid = binary.LittleEndian.AppendUint16(nearGrid, ToF16(math.Float32frombits(near)))
	}
	if got := checksum(anything); got != 0x2d0f3843890ab910 {
		t.Errorf("to half: checksum %016x", got)
	}
	if got := checksum(nearGrid); got != 0x8183d4945ba17043 {
		t.Errorf("to half, near ties: checksum %016x", got)
	}
}

func TestHalfRoundTrip(t *testing.T) {
	for i := range 1 << 16 {
		h := uint16(i)
		if f := FromF16(h); f == f && ToF16(f) != h {
			t.Fatalf("half %04x is %g and comes back as %04x", h, f, ToF16(f))
		}
		if f := FromBF16(h); f == f && ToBF16(f) != h {
			t.Fatalf("bfloat16 %04x is %g and comes back as %04x", h, f, ToBF16(f))
		}
	}
	for _, c := range []struct {
		in   float32
		half uint16
		bf   uint16
	}{
		{1, 0x3c00, 0x3f80},
		{65519, 0x7bff, 0x4780},
		{65520, 0x7c00, 0x4780},
		{1.00390625, 0x3c04, 0x3f80},
		{1.01171875, 0x3c0c, 0x3f82},
		{float32(math.Inf(-1)), 0xfc00, 0xff80},
		{5.9604645e-08, 0x0001, 0x3380},
		{2.9802322e-08, 0x0000, 0x3300},
	} {
		if got := ToF16(c.in); got != c.half {
			t.Errorf("ToF16(%g) = %04x, want %04x", c.in, got, c.half)
		}
		if got := ToBF16(c.in); got != c.bf {
			t.Errorf("ToBF16(%g) = %04x, want %04x", c.in, got, c.bf)
		}
	}
	nan := float32(math.NaN())
	if f := FromF16(ToF16(nan)); f == f {
		t.Error("NaN does not survive as half")
	}
	if f := FromBF16(ToBF16(nan)); f == f {
		t.Error("NaN does not survive as bfloat16")
	}
}

// errorBudgets are upper bounds of the root-mean-square error of normally
// distributed values, relative to their deviation.
var errorBudgets = map[DType]float64{
	F32: 0, F16: 0.0004, BF16: 0.003, Q8_0: 0.007, Q6_K: 0.019, Q5_K: 0.038, Q5_1: 0.041, Q5_0: 0.045, Q4_K: 0.074,
	Q4_1: 0.084, Q4_0: 0.09,
}

func TestQuantizeRoundTripErrors(t *testing.T) {
	for kind, budget := range errorBudgets {
		rng := newRandom(7, "round trip")
		src := make([]float32, 1<<16)
		for i := range src {
			src[i] = 0.03 * rng.bell()
		}
		if got := relativeError(t, kind, src); got > budget {
			t.Errorf("%s: relative error %.5f, budget %.5f", kind, got, budget)
		} else {
			t.Logf("%s: relative error %.5f, budget %.5f", kind, got, budget)
		}
	}
}

func relativeError(t *testing.T, kind DType, src []float32) float64 {
	t.Helper()
	packed := make([]byte, kind.RowBytes(len(src)))
	if err := Quantize(packed, kind, src); err != nil {
		t.Fatal(err)
	}
	got := make([]float32, len(src))
	if err := Dequantize(got, kind, packed); err != nil {
		t.Fatal(err)
	}
	var wrong, all float64
	for i := range src {
		diff := float64(src[i] - got[i])
		wrong += diff * diff
		all += float64(src[i]) * float64(src[i])
	}
	return math.Sqrt(wrong / all)
}

func TestQuantizeSpecialRows(t *testing.T) {
	rows := map[string]func(i int) float32{
		"zeros":     func(int) float32 { return 0 },
		"constant":  func(int) float32 { return 0.5 },
		"negative":  func(int) float32 { return -0.25 },
		"ramp":      func(i int) float32 { return float32(i) / 256 },
		"one spike": func(i int) float32 { return float32(i / 255 * 8) },
		"tiny":      func(i int) float32 { return float32(i-128) * 1e-4 },
	}
	for name, row := range rows {
		src := make([]float32, 256)
		var widest float64
		for i := range src {
			src[i] = row(i)
			widest = max(widest, math.Abs(float64(src[i])))
		}
		for _, kind := range quantTypes {
			packed := make([]byte, kind.RowBytes(256))
			got := make([]float32, 256)
			if err := Quantize(packed, kind, src); err != nil {
				t.Fatal(err)
			}
			if err := Dequantize(got, kind, packed); err != nil {
				t.Fatal(err)
			}
			for i := range src {
				if diff := math.Abs(float64(src[i] - got[i])); !(diff <= widest/7+1e-7) {
					t.Errorf("%s, %s: element %d is %g, was %g", name, kind, i, got[i], src[i])
					break
				}
			}
		}
	}
}

func TestQuantizeRefusesWrongSizes(t *testing.T) {
	for _, c := range []struct {
		name string
		err  error
		want string
	}{
		{"part of a block", Dequantize(make([]float32, 31), Q8_0, make([]byte, 34)), "whole number of Q8_0 blocks"},
		{"short source", Dequantize(make([]float32, 32), Q8_0, make([]byte, 33)), "are 34 bytes, not 33"},
		{"long target", Quantize(make([]byte, 35), Q8_0, make([]float32, 32)), "are 34 bytes, not 35"},
		{"type without code", Dequantize(make([]float32, 256), 10, make([]byte, 84)), "Q2_K are not supported"},
		{"integers", Quantize(make([]byte, 4), typeI32, make([]float32, 1)), "I32 are not supported"},
	} {
		if c.err == nil || !strings.Contains(c.err.Error(), c.want) {
			t.Errorf("%s: error %v, want %q", c.name, c.err, c.want)
		}
	}
}

func TestParseDType(t *testing.T) {
	for kind := range layouts {
		got, err := ParseDType(strings.ToLower(kind.String()))
		if err != nil || got != kind {
			t.Errorf("%s parses as %s, %v", kind, got, err)
		}
	}
	if _, err := ParseDType("q9_9"); err == nil || !strings.Contains(err.Error(), "Q4_K") {
		t.Errorf("unknown type: error %v should list the known ones", err)
	}
	if n := Q4_K.RowBytes(512); n != 288 {
		t.Errorf("512 elements of Q4_K are %d bytes", n)
	}
	if n := Q4_K.RowBytes(100); n != 0 {
		t.Errorf("100 elements of Q4_K are %d bytes", n)
	}
}

func BenchmarkDequantize(b *testing.B) {
	for _, kind := range append([]DType{F16, BF16}, quantTypes...) {
		b.Run(kind.String(), func(b *testing.B) {
			dst := make([]float32, 1<<14)
			src := make([]byte, kind.RowBytes(len(dst)))
			b.SetBytes(int64(4 * len(dst)))
			for b.Loop() {
				if err := Dequantize(dst, kind, src); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkQuantize(b *testing.B) {
	for _, kind := range quantTypes {
		b.Run(kind.String(), func(b *testing.B) {
			src := make([]float32, 1<<14)
			rng := newRandom(3, "benchmark")
			for i := range src {
				src[i] = rng.bell()
			}
			dst := make([]byte, kind.RowBytes(len(src)))
			b.SetBytes(int64(4 * len(src)))
			for b.Loop() {
				if err := Quantize(dst, kind, src); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
