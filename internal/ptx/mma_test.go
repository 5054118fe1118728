package ptx

import (
	"math"
	"math/rand/v2"
	"testing"

	"parley/internal/ptx/arith"
)

// patterns returns n random values of a type as their bits and as numbers.
func patterns[T uint8 | uint16 | uint32](seed uint64, n int, bits func(float64) T,
	value func(T) float64) ([]T, []float64) {
	r := rand.New(rand.NewPCG(seed, 7))
	out, values := make([]T, n), make([]float64, n)
	for i := range out {
		out[i] = bits(r.NormFloat64())
		values[i] = value(out[i])
	}
	return out, values
}

func bf16Patterns(seed uint64, n int) ([]uint16, []float64) {
	return patterns(seed, n,
		func(x float64) uint16 { return uint16(arith.BF16From(x, arith.RoundNearest)) },
		func(b uint16) float64 { return float64(arith.BF16To(uint32(b))) })
}

func f16Patterns(seed uint64, n int) ([]uint16, []float64) {
	return patterns(seed, n,
		func(x float64) uint16 { return uint16(arith.F16From(x, arith.RoundNearest)) },
		func(b uint16) float64 { return float64(arith.F16To(uint32(b))) })
}

func s8Patterns(seed uint64, n int) ([]uint8, []float64) {
	return patterns(seed, n,
		func(x float64) uint8 { return uint8(int8(min(max(x*40, -128), 127))) },
		func(b uint8) float64 { return float64(int8(b)) })
}

func e4m3Patterns(seed uint64, n int) ([]uint8, []float64) {
	return patterns(seed, n,
		func(x float64) uint8 { return uint8(arith.FormatE4M3.From(x, arith.RoundNearest, true)) },
		func(b uint8) float64 { return arith.FormatE4M3.To(uint32(b)) })
}

// product is a [m x k] times b [n x k] transposed.
func product(a, b []float64, m, n, k int) []float64 {
	out := make([]float64, m*n)
	for i := range m {
		for j := range n {
			for x := range k {
				out[i*n+j] += a[i*k+x] * b[j*k+x]
			}
		}
	}
	return out
}

func near[T float32 | int32](t testing.TB, got []T, want []float64, tolerance float64) {
	t.Helper()
	for i := range want {
		if d := math.Abs(float64(got[i]) - want[i]); !(d <= tolerance) {
			t.Fatalf("element %d is %v, not %v", i, got[i], want[i])
		}
	}
}

func TestProductThroughPipeline(t *testing.T) {
	b := newBench(t, "mma")
	for _, size := range [][3]int{{64, 32, 32}, {64, 32, 256}, {37, 21, 96}, {1, 1, 64}} {
		m, n, k := size[0], size[1], size[2]
		x, xv := bf16Patterns(1, m*k)
		y, yv := bf16Patterns(2, n*k)
		c := upload(b, make([]float32, m*n))
		b.run("product", Dim{1}, Dim{128}, 0, U64(upload(b, x)), U64(upload(b, y)), U64(c), I32(int32(m)),
			I32(int32(n)), I32(int32(k)))
		near(t, download[float32](b, c, m*n), product(xv, yv, m, n, k), 1e-3)
	}
}

func TestProductsOfAllTypes(t *testing.T) {
	b := newBench(t, "mma")
	ha, hav := f16Patterns(1, 16*16)
	hb, hbv := f16Patterns(2, 8*16)
	ia, iav := s8Patterns(3, 16*32)
	ib, ibv := s8Patterns(4, 8*32)
	ta, tb := randomFloats(5, 16*8), randomFloats(6, 8*8)
	halves, bytes, short, tf32 := upload(b, make([]float32, 128)), upload(b, make([]int32, 128)), upload(b,
		make([]int32, 128)), upload(b, make([]float32, 128))
	b.run("products", Dim{1}, Dim{32}, 0, U64(upload(b, ha)), U64(upload(b, hb)), U64(upload(b, ia)),
		U64(upload(b, ib)),
		U64(upload(b, ta)), U64(upload(b, tb)), U64(halves), U64(bytes), U64(short), U64(tf32))
	start := func(want []float64) []float64 {
		for i := range want {
			want[i] += float64(i/64*2 + i%2 + 1)
		}
		return want
	}
	near(t, download[float32](b, halves, 128), start(product(hav, hbv, 16, 8, 16)), 1e-4)
	near(t, download[int32](b, bytes, 128), start(product(iav, ibv, 16, 8, 32)), 0)
	first := func(v []float64) (out []float64) {
		for i := 0; i < len(v); i += 32 {
			out = append(out, v[i:i+16]...)
		}
		return out
	}
	near(t, download[int32](b, short, 128), product(first(iav), first(ibv), 16, 8, 16), 0)
	cut := func(v []float32) (out []float64) {
		for _, x := range v {
			out = append(out, float64(math.Float32frombits(math.Float32bits(x)&^0x1fff)))
		}
		return out
	}
	near(t, download[float32](b, tf32, 128), product(cut(ta), cut(tb), 16, 8, 8), 1e-4)
}

func TestTransposedMatrices(t *testing.T) {
	b := newBench(t, "mma")
	in := make([]uint16, 256)
	for i := range in {
		in[i] = uint16(i * 3)
	}
	out := upload(b, make([]uint16, 256))
	b.run("transposed", Dim{1}, Dim{32}, 0, U64(upload(b, in)), U64(out))
	got := download[uint16](b, out, 256)
	for i := range got {
		matrix, lane, half := i/64, i/2%32, i%2
		if want := in[matrix*64+(lane%4*2+half)*8+lane/4]; got[i] != want {
			t.Fatalf("element %d is %d, not %d", i, got[i], want)
		}
	}
}
