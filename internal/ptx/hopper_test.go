package ptx

import (
	"math"
	"testing"

	"parley/internal/ptx/arith"
)

// mapOf uploads the tensor map of a matrix of 16-bit elements.
func mapOf(b *bench, addr uint64, rows, cols, boxRows, boxCols, swizzle int) []byte {
	b.Helper()
	m := TensorMap{
		DataType:       9,
		Address:        addr,
		Dims:           []uint64{uint64(cols), uint64(rows)},
		Strides:        []uint64{uint64(2 * cols)},
		Box:            []uint32{uint32(boxCols), uint32(boxRows)},
		ElementStrides: []uint32{1, 1},
		Swizzle:        swizzle,
	}
	d, err := m.Encode()
	if err != nil {
		b.Fatal(err)
	}
	return U64(upload(b, d[:]))
}

const pipelineShared = 3*(8192+2048) + 64

func TestPipelineOfCopiesAndProducts(t *testing.T) {
	b := newBench(t, "hopper")
	for _, tiles := range []int{1, 2, 3, 7} {
		k := 64 * tiles
		x, xv := bf16Patterns(1, 64*k)
		y, yv := bf16Patterns(2, 16*k)
		c := upload(b, make([]float32, 64*16))
		am, bm := mapOf(b, upload(b, x), 64, k, 64, 64, 3), mapOf(b, upload(b, y), 16, k, 16, 64, 3)
		b.run("pipeline", Dim{1}, Dim{160}, pipelineShared, am, bm, U64(c), I32(int32(tiles)), I32(0))
		near(t, download[float32](b, c, 64*16), product(xv, yv, 64, 16, k), 2e-3)
	}
}

func TestFaultsOfPipelineAreNamed(t *testing.T) {
	b := newBench(t, "hopper")
	x, _ := bf16Patterns(1, 64*512)
	y, _ := bf16Patterns(2, 16*512)
	c := upload(b, make([]float32, 64*16))
	am, bm := mapOf(b, upload(b, x), 64, 512, 64, 64, 3), mapOf(b, upload(b, y), 16, 512, 16, 64, 3)
	for miss, words := range map[int32]string{
		1: "1 arrivals at an mbarrier that awaits 0", // a tile is overwritten before it was used
		2: "pending asynchronous",                    // a tile is used before it has come
		3: "pending asynchronous",                    // a tile is given back while wgmma reads it
	} {
		err := b.try("pipeline", Dim{1}, Dim{160}, pipelineShared, am, bm, U64(c), I32(8), I32(miss))
		faulty(t, err, words)
	}
	faulty(t, b.try("early", Dim{1}, Dim{128}, 4096, U64(c), I32(0)), "a pending wgmma writes", "add")
}

func TestMatrixLayouts(t *testing.T) {
	b := newBench(t, "hopper")
	x, xv := bf16Patterns(3, 64*16)
	y, yv := bf16Patterns(4, 8*16)
	c := upload(b, make([]float32, 5*512))
	b.run("layouts", Dim{1}, Dim{128}, 4096, U64(upload(b, x)), U64(upload(b, y)), U64(c), I32(1))
	want := product(xv, yv, 64, 8, 16)
	got := download[float32](b, c, 5*512)
	near(t, got[:512], want, 1e-4)
	near(t, got[1024:1536], want, 1e-4)
	near(t, got[1536:2048], want, 1e-4)
	near(t, got[2048:], want, 1e-4)
	for i := range want {
		want[i] = -want[i]
	}
	near(t, got[512:1024], want, 1e-4)
	err := b.try("layouts", Dim{1}, Dim{128}, 4096, U64(upload(b, x)), U64(upload(b, y)), U64(c), I32(0))
	faulty(t, err, "without fence.proxy.async")
}

func TestEightBitProducts(t *testing.T) {
	b := newBench(t, "hopper")
	x, xv := e4m3Patterns(5, 64*32)
	y, yv := e4m3Patterns(6, 8*32)
	c, s := upload(b, make([]float32, 512)), upload(b, make([]int32, 512))
	b.run("bytes", Dim{1}, Dim{128}, 4096, U64(upload(b, x)), U64(upload(b, y)), U64(c), U64(s))
	near(t, download[float32](b, c, 512), product(xv, yv, 64, 8, 32), 1e-4)
	signed := func(v []uint8) (out []float64) {
		for _, x := range v {
			out = append(out, float64(int8(x)))
		}
		return out
	}
	near(t, download[int32](b, s, 512), product(signed(x), signed(y), 64, 8, 32), 0)
}

func TestBoxesOfTensors(t *testing.T) {
	b := newBench(t, "hopper")
	const rows, cols = 20, 80
	in := make([]uint16, rows*cols)
	for i := range in {
		in[i] = uint16(i + 1)
	}
	src := upload(b, in)
	for swizzle, boxCols := range []int{24, 16, 32, 64} {
		for _, at := range [][2]int{{0, 0}, {8, 3}, {-5, -2}, {70, 15}} {
			dst, raw := upload(b, make([]uint16, rows*cols)), upload(b, make([]uint16, 8*boxCols))
			from, to := mapOf(b, src, rows, cols, 8, boxCols, swizzle), mapOf(b, dst, rows, cols, 8, boxCols, swizzle)
			b.run("boxes", Dim{1}, Dim{64}, 4096, from, to, U64(raw), I32(int32(at[0])), I32(int32(at[1])), I32(8),
				I32(int32(2*boxCols)), I32(0))
			lies, out := download[uint16](b, raw, 8*boxCols), download[uint16](b, dst, rows*cols)
			for i := range 8 * boxCols {
				r, c := i/boxCols, i%boxCols
				want := uint16(0)
				if y, x := r+at[1], c+at[0]; y >= 0 && y < rows && x >= 0 && x < cols {
					want = in[y*cols+x]
				}
				// 16 bytes change places within 128 bytes by the line of 128 bytes they are in.
				place := r*2*boxCols + 2*c
				place ^= place / 128 % (1 << swizzle) * 16
				if lies[place/2] != want {
					t.Fatalf("swizzle %d at %v: row %d column %d is %d, not %d", swizzle, at, r, c, lies[place/2], want)
				}
				if got := out[(r+1)*cols+c]; got != want {
					t.Fatalf("swizzle %d at %v: stored row %d column %d is %d, not %d", swizzle, at, r, c, got, want)
				}
			}
		}
	}
	m := mapOf(b, src, rows, cols, 8, 64, 3)
	raw := upload(b, make([]uint16, 512))
	err := b.try("boxes", Dim{1}, Dim{64}, 4096, m, m, U64(raw), I32(0), I32(0), I32(8), I32(128), I32(1))
	faulty(t, err, "wait_group is missing")
	beyond := mapOf(b, src, rows+1, cols, 8, 64, 3)
	err = b.try("boxes", Dim{1}, Dim{64}, 4096, beyond, m, U64(raw), I32(64), I32(16), I32(8), I32(128), I32(0))
	faulty(t, err, "outside device memory", "cp.async.bulk.tensor.2d")
}

func TestBulkCopies(t *testing.T) {
	b := newBench(t, "hopper")
	x := randomFloats(8, 256)
	in, out := upload(b, x), upload(b, make([]float32, 256))
	b.run("bulk", Dim{1}, Dim{96}, 2048, U64(in), U64(out), I32(1))
	for i, v := range download[float32](b, out, 256) {
		if v != 2*x[i] {
			t.Fatalf("element %d is %v, not %v", i, v, 2*x[i])
		}
	}
	faulty(t, b.try("bulk", Dim{1}, Dim{96}, 2048, U64(in), U64(out), I32(0)), "without fence.proxy.async")
}

func TestCluster(t *testing.T) {
	b := newBench(t, "hopper")
	out := upload(b, make([]uint32, 4*32))
	k, err := b.m.Kernel("neighbours")
	if err != nil {
		t.Fatal(err)
	}
	if err := b.d.Launch(k, Dim{4}, Dim{32}, Dim{2}, 128, U64(out)); err != nil {
		t.Fatal(err)
	}
	for i, v := range download[uint32](b, out, 128) {
		if want := uint32(i/32%2^1)*100 + uint32(i%32); v != want {
			t.Fatalf("element %d is %d, not %d", i, v, want)
		}
	}
	faulty(t, b.try("neighbours", Dim{1}, Dim{32}, 128, U64(out)), "outside the shared memory of the cluster")
}

func TestEightBitConversions(t *testing.T) {
	b := newBench(t, "hopper")
	x := randomFloats(9, 64)
	copy(x, []float32{0, 1, -2, 448, 449, 1000, 0.0019, 0.001, float32(math.Inf(1)), float32(math.NaN()), 17, 19, 0.5,
		-0.0625, 60000, 1e-9})
	small, wide, back := upload(b, make([]uint8, 64)), upload(b, make([]uint8, 64)), upload(b, make([]uint16, 64))
	b.run("convert", Dim{1}, Dim{32}, 0, U64(upload(b, x)), U64(small), U64(wide), U64(back))
	want := []uint8{0, 0x38, 0xc0, 0x7e, 0x7e, 0x7e, 0x01, 0x01, 0x7e, 0x7f, 0x58, 0x5a, 0x30, 0x98, 0x7e, 0}
	same(t, download[uint8](b, small, 64), want)
	values := download[uint16](b, back, 64)
	for i, v := range download[uint8](b, small, 64) {
		if got, want := arith.F16To(uint32(values[i])), arith.E4M3Values[v]; got != want && got == got {
			t.Errorf("pattern %#x is %v, not %v", v, got, want)
		}
	}
	if got := download[uint8](b, wide, 64); got[3] != 0x5f || got[14] != 0x7b {
		t.Errorf("448 is %#x and 60000 is %#x", got[3], got[14])
	}
}

func TestElectedThread(t *testing.T) {
	b := newBench(t, "hopper")
	out := upload(b, make([]uint32, 32))
	b.run("elected", Dim{1}, Dim{32}, 0, U64(out))
	sum := uint32(0)
	for _, v := range download[uint32](b, out, 32) {
		sum += v
	}
	if sum != 1 {
		t.Errorf("%d threads were elected", sum)
	}
}
