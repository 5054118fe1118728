package ptx

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func load(t testing.TB, name string) *Module {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name+".ptx"))
	if err != nil {
		t.Fatal(err)
	}
	m, err := Parse(string(text))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// A bench runs kernels of one module on one device.
type bench struct {
	testing.TB
	m *Module
	d *Device
}

func newBench(t testing.TB, name string) *bench {
	return &bench{t, load(t, name), New(Options{})}
}

// upload copies a slice of numbers to the device.
func upload[T any](b *bench, values []T) uint64 {
	b.Helper()
	data, err := binary.Append(nil, binary.LittleEndian, values)
	if err != nil {
		b.Fatal(err)
	}
	addr, err := b.d.Alloc(len(data))
	if err != nil {
		b.Fatal(err)
	}
	if err := b.d.Write(addr, data); err != nil {
		b.Fatal(err)
	}
	return addr
}

func download[T any](b *bench, addr uint64, n int) []T {
	b.Helper()
	out := make([]T, n)
	data := make([]byte, binary.Size(out))
	if err := b.d.Read(addr, data); err != nil {
		b.Fatal(err)
	}
	if _, err := binary.Decode(data, binary.LittleEndian, out); err != nil {
		b.Fatal(err)
	}
	return out
}

func (b *bench) try(name string, grid, block Dim, shared int, args ...[]byte) error {
	b.Helper()
	k, err := b.m.Kernel(name)
	if err != nil {
		b.Fatal(err)
	}
	params, err := k.Pack(args...)
	if err != nil {
		b.Fatal(err)
	}
	return b.d.Launch(k, grid, block, Dim{}, shared, params)
}

func (b *bench) run(name string, grid, block Dim, shared int, args ...[]byte) {
	b.Helper()
	if err := b.try(name, grid, block, shared, args...); err != nil {
		b.Fatal(err)
	}
}

func same[T comparable](t testing.TB, got, want []T) {
	t.Helper()
	for i := range want {
		if got[i] != want[i] {
			t.Fatalf("element %d is %v, not %v", i, got[i], want[i])
		}
	}
}

func randomFloats(seed uint64, n int) []float32 {
	r := rand.New(rand.NewPCG(seed, 1))
	out := make([]float32, n)
	for i := range out {
		out[i] = float32(r.NormFloat64())
	}
	return out
}

func TestDivergence(t *testing.T) {
	b := newBench(t, "basic")
	const n = 1000
	out := upload(b, make([]uint32, n))
	b.run("diverge", Dim{8}, Dim{128}, 0, U64(out), I32(n))
	want := make([]uint32, n)
	for i := range want {
		x, turns := uint32(i), int32(0)
		for ; x != 1 && turns < 1000; turns++ {
			switch {
			case x == 0:
				x = 1
			case x%2 == 1:
				x = 3*x + 1
			default:
				x /= 2
			}
		}
		switch i % 5 {
		case 0:
			turns += 10
		case 1:
			turns *= 3
		case 2:
			turns ^= 0x55
		case 3:
			for j := range i % 7 {
				turns += int32(j * i)
			}
		default:
			turns = -turns
		}
		want[i] = uint32(turns)
	}
	same(t, download[uint32](b, out, n), want)
}

func TestReduction(t *testing.T) {
	b := newBench(t, "basic")
	x := randomFloats(1, 5000)
	out := upload(b, make([]float32, 4))
	b.run("reduce", Dim{4}, Dim{256}, 0, U64(upload(b, x)), U64(out), I32(5000))
	var sum, want float64
	for _, v := range download[float32](b, out, 4) {
		sum += float64(v)
	}
	for _, v := range x {
		want += float64(v)
	}
	if math.Abs(sum-want) > 1e-3 {
		t.Errorf("the sum is %v, not %v", sum, want)
	}
}

func TestCallsLocalMemoryAndConstants(t *testing.T) {
	b := newBench(t, "basic")
	const n = 100
	r := rand.New(rand.NewPCG(2, 2))
	p := randomFloats(3, n)
	x, y := make([]int32, n), make([]int32, n)
	for i := range x {
		x[i], y[i] = r.Int32N(2000)-1000, r.Int32N(5)-2
	}
	rational := append(append(make([]byte, 8), F32(2)...), append(F32(-3), F32(0.5)...)...)
	out := upload(b, make([]float32, n))
	b.run("calls", Dim{4}, Dim{32}, 0, U64(upload(b, x)), U64(upload(b, y)), U64(upload(b, p)), U64(out), rational,
		I32(n))
	table := []float32{1, 2, 3.5, -1, 0.25, 9, -7, 100}
	weights := []float32{0.5, 1.5, 2.5, 3.5}
	got := download[float32](b, out, n)
	for i := range n {
		var history [8]float32
		for j := range 8 {
			history[(int32(j)*x[i])&7] = float32(j) + weights[j&3]
		}
		want := p[i]
		if y[i] != 0 {
			want = float32(x[i]/y[i]+x[i]%y[i]) + []float32{2, -3, 0.5}[i%3]*table[i&7]
		}
		want += history[0]
		if math.Abs(float64(got[i]-want)) > 1e-4 {
			t.Fatalf("element %d is %v, not %v", i, got[i], want)
		}
	}
}

func TestIntegers(t *testing.T) {
	b := newBench(t, "basic")
	const n = 300
	r := rand.New(rand.NewPCG(4, 4))
	x, y := make([]uint64, n), make([]uint64, n)
	for i := range x {
		x[i], y[i] = r.Uint64()>>r.IntN(60), r.Uint64()>>r.IntN(64)
		if i%3 == 0 {
			x[i], y[i] = -x[i], -y[i]
		}
	}
	out := upload(b, make([]uint64, n))
	b.run("integers", Dim{3}, Dim{100}, 0, U64(upload(b, x)), U64(upload(b, y)), U64(out), I32(n))
	want := make([]uint64, n)
	for i := range want {
		want[i] = integerHash(x[i], y[i])
	}
	same(t, download[uint64](b, out, n), want)
}

func TestAtomics(t *testing.T) {
	b := newBench(t, "basic")
	const n = 8 * 96
	sum, order := upload(b, make([]uint32, 1)), upload(b, make([]uint32, n))
	total, lock := upload(b, make([]float32, 1)), upload(b, make([]uint32, 2))
	b.run("atomics", Dim{8}, Dim{96}, 0, U64(sum), U64(order), U64(total), U64(lock))
	if got := download[uint32](b, sum, 1)[0]; got != 3*n {
		t.Errorf("the sum is %d, not %d", got, 3*n)
	}
	for i, v := range download[uint32](b, order, n) {
		if v != 1 {
			t.Fatalf("no thread saw the value %d", 3*i)
		}
	}
	if got := download[float32](b, total, 1)[0]; got != n/2 {
		t.Errorf("the total is %v, not %v", got, n/2)
	}
	if got := download[uint32](b, lock, 2)[1]; got != n {
		t.Errorf("%d turns at the lock, not %d", got, n)
	}
	addr, size, err := b.d.Global(b.m, "counter")
	if err != nil || size != 4 {
		t.Fatalf("%d bytes, %v", size, err)
	}
	if got := download[uint32](b, addr, 1)[0]; got != n {
		t.Errorf("the variable is %d, not %d", got, n)
	}
}

func TestDynamicSharedMemory(t *testing.T) {
	b := newBench(t, "basic")
	x := make([]uint8, 3*777)
	for i := range x {
		x[i] = uint8(i * 7)
	}
	addr := upload(b, x)
	b.run("reverse", Dim{3}, Dim{64}, 777, U64(addr), I32(777))
	got := download[uint8](b, addr, len(x))
	for i := range got {
		if want := x[i/777*777+776-i%777]; got[i] != want {
			t.Fatalf("byte %d is %d, not %d", i, got[i], want)
		}
	}
}

func TestBlocksThatCommunicate(t *testing.T) {
	b := newBench(t, "basic")
	part, arrived, out := upload(b, make([]float32, 50)), upload(b, make([]uint32, 1)), upload(b, make([]float32, 1))
	b.run("lastblock", Dim{50}, Dim{64}, 0, U64(part), U64(arrived), U64(out))
	if got := download[float32](b, out, 1)[0]; got != 1275 {
		t.Errorf("the last block found %v, not 1275", got)
	}
	arrived, seen := upload(b, make([]uint32, 1)), upload(b, make([]uint32, 5))
	b.run("gridbarrier", Dim{5}, Dim{32}, 0, U64(arrived), U64(seen))
	same(t, download[uint32](b, seen, 5), []uint32{5, 5, 5, 5, 5})
}

// faulty requires a *Fault whose text has all of words.
func faulty(t testing.TB, err error, words ...string) *Fault {
	t.Helper()
	var f *Fault
	if !errors.As(err, &f) {
		t.Fatalf("no fault was found: %v", err)
	}
	for _, word := range words {
		if !strings.Contains(f.Error(), word) {
			t.Errorf("%q does not say %q", f, word)
		}
	}
	return f
}

// TestKernelsAreCompiled compares the checksum that generate.sh wrote with the
// sources and the PTX, so that a kernel is not changed without compiling it.
func TestKernelsAreCompiled(t *testing.T) {
	h := sha256.New()
	for _, pattern := range []string{"testdata/*.cu", "testdata/device.h", "generate.sh", "testdata/*.ptx"} {
		names, err := filepath.Glob(pattern)
		if err != nil || len(names) == 0 {
			t.Fatal(pattern, err)
		}
		for _, name := range names {
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			h.Write(text)
		}
	}
	want, err := os.ReadFile("testdata/SUM")
	if err != nil || fmt.Sprintf("%x\n", h.Sum(nil)) != string(want) {
		t.Errorf("the kernels of testdata changed after they were compiled: run go generate ./internal/ptx (%v)", err)
	}
}
