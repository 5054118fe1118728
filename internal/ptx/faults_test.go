package ptx

import (
	"slices"
	"testing"
)

func TestAccessPastTheEndIsNamed(t *testing.T) {
	b := newBench(t, "faults")
	x := upload(b, make([]float32, 40))
	b.run("past", Dim{1}, Dim{40}, 0, U64(x), I32(40))
	f := faulty(t, b.try("past", Dim{1}, Dim{41}, 0, U64(x), I32(40)), "kernel past",
		"4 bytes past the end of the 160 bytes", "st.global.")
	if f.Thread != (Dim{40, 0, 0}) || f.Address != x+160 || f.Line == 0 {
		t.Errorf("thread %v, address %#x, line %d", f.Thread, f.Address, f.Line)
	}
	if err := b.d.Free(x); err != nil {
		t.Fatal(err)
	}
	faulty(t, b.try("past", Dim{1}, Dim{40}, 0, U64(x), I32(40)), "use after free of the 160 bytes")
	faulty(t, b.try("past", Dim{1}, Dim{40}, 0, U64(0), I32(40)), "no allocation there")
}

func TestMisalignedAccessIsNamed(t *testing.T) {
	b := newBench(t, "faults")
	x := upload(b, make([]uint32, 4))
	faulty(t, b.try("misaligned", Dim{1}, Dim{1}, 0, U64(x)), "misaligned access of 4 bytes")
	b.d = New(Options{Without: CheckAlignment})
	x = upload(b, make([]uint32, 4))
	b.run("misaligned", Dim{1}, Dim{1}, 0, U64(x))
}

func TestRacesAreNamed(t *testing.T) {
	b := newBench(t, "faults")
	out := upload(b, make([]float32, 64))
	faulty(t, b.try("race", Dim{1}, Dim{64}, 0, U64(out)), "has not written", "ld.shared")
	b.d = New(Options{Without: CheckUninitialised})
	out = upload(b, make([]float32, 64))
	faulty(t, b.try("race", Dim{1}, Dim{64}, 0, U64(out)), "race in shared memory: this thread writes",
		"of warp 0 has read", "st.shared")
	faulty(t, b.try("warprace", Dim{1}, Dim{32}, 0, U64(out)), "race in shared memory", "lane 31 of warp 0")
	b.run("overwrite", Dim{1}, Dim{64}, 0, U64(out), I32(1))
	faulty(t, b.try("overwrite", Dim{1}, Dim{64}, 0, U64(out), I32(3)), "this thread writes what", "has read")
	b.run("ordered", Dim{5}, Dim{64}, 0, U64(out), I32(10))
	b.d = New(Options{Without: CheckRaces})
	out = upload(b, make([]float32, 64))
	b.run("overwrite", Dim{1}, Dim{64}, 0, U64(out), I32(3))
}

func TestUnwrittenSharedMemoryIsNamed(t *testing.T) {
	b := newBench(t, "faults")
	out := upload(b, make([]float32, 64))
	f := faulty(t, b.try("unwritten", Dim{2}, Dim{64}, 0, U64(out)), "has not written")
	if f.Thread[0] != 17 {
		t.Errorf("thread %v, not 17", f.Thread)
	}
	b.d = New(Options{Without: CheckUninitialised})
	out = upload(b, make([]float32, 64))
	b.run("unwritten", Dim{2}, Dim{64}, 0, U64(out))
}

func TestBarriersThatNeverCompleteAreNamed(t *testing.T) {
	b := newBench(t, "faults")
	out := upload(b, make([]float32, 64))
	faulty(t, b.try("divergent", Dim{1}, Dim{32}, 0, U64(out)), "divergence: lanes 0xffff wait", "lanes 0xffff0000",
		"bar.sync 0")
	b.run("divergent", Dim{1}, Dim{16}, 0, U64(out))
	faulty(t, b.try("mismatched", Dim{1}, Dim{64}, 0, U64(out)), "deadlock", "barrier 1 has 32 of 64 threads",
		"bar.sync 2")
}

func TestEndlessKernelIsNamed(t *testing.T) {
	b := newBench(t, "faults")
	b.d = New(Options{Instructions: 1 << 20})
	faulty(t, b.try("endless", Dim{1}, Dim{32}, 0, U64(upload(b, []uint32{0}))), "has not ended after")
}

func TestAccessOutsideSharedMemoryIsNamed(t *testing.T) {
	b := newBench(t, "faults")
	out := upload(b, []float32{0})
	b.run("outside", Dim{1}, Dim{1}, 0, U64(out), I32(7))
	faulty(t, b.try("outside", Dim{1}, Dim{1}, 0, U64(out), I32(8)), "outside the 32 bytes of shared memory")
	faulty(t, b.try("outside", Dim{1}, Dim{1}, 0, U64(out), I32(-1)), "outside the 32 bytes of shared memory")
}

func TestShuffleFromAbsentLaneIsNamed(t *testing.T) {
	b := newBench(t, "faults")
	out := upload(b, make([]uint32, 32))
	faulty(t, b.try("shuffled", Dim{1}, Dim{32}, 0, U64(out)), "shuffle from lane 9")
}

func TestEarlyReadOfCopyIsNamed(t *testing.T) {
	b := newBench(t, "faults")
	x := randomFloats(5, 128)
	in, out := upload(b, x), upload(b, make([]float32, 32))
	b.run("early", Dim{1}, Dim{32}, 0, U64(in), U64(out), I32(1))
	same(t, download[float32](b, out, 32), x[:32])
	faulty(t, b.try("early", Dim{1}, Dim{32}, 0, U64(in), U64(out), I32(0)), "pending asynchronous copy")
}

func TestLaunchIsChecked(t *testing.T) {
	b := newBench(t, "faults")
	k, err := b.m.Kernel("past")
	if err != nil {
		t.Fatal(err)
	}
	for name, err := range map[string]error{
		"threads":    b.d.Launch(k, Dim{1}, Dim{1025}, Dim{}, 0, make([]byte, k.ParamBytes)),
		"parameters": b.d.Launch(k, Dim{1}, Dim{1}, Dim{}, 0, nil),
		"shared":     b.d.Launch(k, Dim{1}, Dim{1}, Dim{}, 1<<20, make([]byte, k.ParamBytes)),
		"cluster":    b.d.Launch(k, Dim{3}, Dim{1}, Dim{2}, 0, make([]byte, k.ParamBytes)),
	} {
		if err == nil {
			t.Errorf("a launch with wrong %s is accepted", name)
		}
	}
	if _, err := b.m.Kernel("absent"); err == nil || !slices.Contains(b.m.Kernels(), "past") {
		t.Errorf("kernels %v, %v", b.m.Kernels(), err)
	}
	if _, err := b.d.Alloc(0); err == nil {
		t.Error("an allocation of nothing is accepted")
	}
}
