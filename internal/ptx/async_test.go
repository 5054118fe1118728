package ptx

import "testing"

func TestProductOfEightBitFloats(t *testing.T) {
	b := newBench(t, "async")
	x, xv := e4m3Patterns(1, 16*32)
	y, yv := e4m3Patterns(2, 8*32)
	out := upload(b, make([]float32, 128))
	b.run("product8", Dim{1}, Dim{32}, 0, U64(upload(b, x)), U64(upload(b, y)), U64(out))
	near(t, download[float32](b, out, 128), product(xv, yv, 16, 8, 32), 1e-4)
}

func TestMatricesGoToSharedMemoryAndBack(t *testing.T) {
	b := newBench(t, "async")
	in := make([]uint32, 128)
	for i := range in {
		in[i] = uint32(i)*0x10001 + 0x70000
	}
	plain, turned := upload(b, make([]uint32, 128)), upload(b, make([]uint32, 128))
	b.run("matrices", Dim{1}, Dim{32}, 512, U64(upload(b, in)), U64(plain), U64(turned))
	same(t, download[uint32](b, plain, 128), in)
	same(t, download[uint32](b, turned, 128), in)
}

func TestCopiesArriveAtMbarrier(t *testing.T) {
	b := newBench(t, "async")
	x := randomFloats(3, 64)
	in, out := upload(b, x), upload(b, make([]float32, 64))
	b.run("arrivals", Dim{3}, Dim{96}, 2048, U64(in), U64(out), I32(1))
	same(t, download[float32](b, out, 64), x)
	faulty(t, b.try("arrivals", Dim{1}, Dim{96}, 2048, U64(in), U64(out), I32(0)), "has not written")
}

func TestBoxOfThreeDimensions(t *testing.T) {
	b := newBench(t, "async")
	const w, h, d = 12, 7, 5
	x := randomFloats(4, w*h*d)
	m := TensorMap{
		DataType:       7,
		Address:        upload(b, x),
		Dims:           []uint64{w, h, d},
		Strides:        []uint64{4 * w, 4 * w * h},
		Box:            []uint32{8, 3, 2},
		ElementStrides: []uint32{1, 1, 1},
	}
	encoded, err := m.Encode()
	if err != nil {
		t.Fatal(err)
	}
	at := upload(b, encoded[:])
	for _, from := range [][3]int{{0, 0, 0}, {4, 2, 1}, {7, 5, 4}, {-3, -1, -1}} {
		out := upload(b, make([]float32, 48))
		b.run("volume", Dim{1}, Dim{32}, 8192, U64(at), U64(out), I32(int32(from[0])), I32(int32(from[1])),
			I32(int32(from[2])), I32(48))
		for i, got := range download[float32](b, out, 48) {
			px, py, pz := from[0]+i%8, from[1]+i/8%3, from[2]+i/24
			want := float32(0)
			if px >= 0 && px < w && py >= 0 && py < h && pz >= 0 && pz < d {
				want = x[(pz*h+py)*w+px]
			}
			if got != want {
				t.Fatalf("element %d of the box at %v is %v, not %v", i, from, got, want)
			}
		}
	}
}

func TestTensorMapsAreChecked(t *testing.T) {
	good := func() TensorMap {
		return TensorMap{
			DataType:       9,
			Address:        1 << 20,
			Dims:           []uint64{64, 8},
			Strides:        []uint64{128},
			Box:            []uint32{64, 8},
			ElementStrides: []uint32{1, 1},
			Swizzle:        3,
		}
	}
	m := good()
	if _, err := m.Encode(); err != nil {
		t.Error(err)
	}
	for name, spoil := range map[string]func(*TensorMap){
		"address": func(m *TensorMap) { m.Address++ },
		"stride":  func(m *TensorMap) { m.Strides[0] = 100 },
		"box":     func(m *TensorMap) { m.Box[1] = 257 },
		"swizzle": func(m *TensorMap) { m.Swizzle = 2 },
		"row":     func(m *TensorMap) { m.Swizzle, m.Box[0] = 0, 3 },
		"rank":    func(m *TensorMap) { m.Dims = nil },
		"type":    func(m *TensorMap) { m.DataType = 99 },
	} {
		m := good()
		spoil(&m)
		if _, err := m.Encode(); err == nil {
			t.Errorf("a tensor map with a wrong %s is accepted", name)
		}
	}
}

func TestNamedBarriers(t *testing.T) {
	b := newBench(t, "async")
	out := upload(b, make([]uint32, 5*32))
	b.run("named", Dim{2}, Dim{96}, 128, U64(out), I32(5))
	for i, v := range download[uint32](b, out, 160) {
		if want := uint32(i/32*100 + 31 - i%32); v != want {
			t.Fatalf("element %d is %d, not %d", i, v, want)
		}
	}
}

func TestMbarrierFaultsAreNamed(t *testing.T) {
	b := newBench(t, "async")
	out := upload(b, make([]uint32, 64))
	faulty(t, b.try("forever", Dim{1}, Dim{64}, 64, U64(out)), "deadlock",
		"mbarrier at 0x400 awaits 1 arrivals and 0 bytes", "try_wait")
	faulty(t, b.try("hasty", Dim{1}, Dim{64}, 64, U64(out)), "race in shared memory", "mbarrier.arrive")
}
