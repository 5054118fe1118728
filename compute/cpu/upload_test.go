package cpu

import (
	"slices"
	"strings"
	"testing"

	"parley/compute"
	"parley/model/weights"
)

func TestNewRefusesWhatItCannotDo(t *testing.T) {
	for _, o := range []Options{{Path: "sse"}, {Threads: -1}, {Threads: maxThreads + 1}} {
		if c, err := New(o); err == nil {
			t.Errorf("%+v was accepted", o)
			_ = c.Close()
		}
	}
	unsupported := path{&kernelSet{name: "future"}, false}
	if _, err := pickPath([]path{unsupported, {&plainKernels, true}}, "future"); err == nil ||
		!strings.Contains(err.Error(), "instructions") {
		t.Errorf("a path without its instructions gives %v", err)
	}
	if k, err := pickPath([]path{unsupported, {&plainKernels, true}}, ""); err != nil || k != &plainKernels {
		t.Errorf("the best path is %v, %v", k, err)
	}
}

func TestUploadChecksSizes(t *testing.T) {
	c, err := New(Options{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for name, bad := range map[string]weights.Tensor{
		"short":     {Type: weights.F32, Shape: []int{2, 8}, Data: make([]byte, 60)},
		"long":      {Type: weights.Q8_0, Shape: []int{2, 32}, Data: make([]byte, 100)},
		"uneven":    {Type: weights.Q8_0, Shape: []int{2, 33}, Data: make([]byte, 68)},
		"no type":   {Type: 24, Shape: []int{2, 32}, Data: make([]byte, 64)},
		"negative":  {Type: weights.F32, Shape: []int{-2, 8}, Data: nil},
		"overflow":  {Type: weights.F32, Shape: []int{1 << 40, 1 << 40}, Data: nil},
		"no scales": {Type: weights.F8E4M3, Shape: []int{2, 8}, Data: make([]byte, 16)},
		"no column": {Type: weights.F32, Shape: []int{4, 0}, Data: nil},
	} {
		if _, err := c.Upload(bad); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	for _, s := range []compute.KVShape{{}, {Layers: 1, KVHeads: 1, HeadDim: 3, Blocks: 1},
		{Layers: 1 << 30, KVHeads: 1 << 20, HeadDim: 128, Blocks: 1 << 30}} {
		if err := c.NewKV(s); err == nil {
			t.Errorf("a pool of %+v was accepted", s)
		}
	}
	for _, d := range [][2]int{{0, 4}, {4, -1}, {1 << 40, 1 << 40}} {
		if _, err := c.NewBuffer(d[0], d[1]); err == nil {
			t.Errorf("a buffer of %v was accepted", d)
		}
	}
	if err := c.Reserve(compute.Limits{Rows: -1}); err == nil {
		t.Error("negative limits were accepted")
	}
}

func TestPackedBytesIsWhatUploadTakes(t *testing.T) {
	r := newRand(1)
	for _, kind := range append(slices.Clone(allTypes), weights.F8E4M3) {
		for _, rows := range []int{1, 2, 32, 33} {
			c, err := New(Options{Threads: 1})
			if err != nil {
				t.Fatal(err)
			}
			w := bench{TB: t, Backend: c}.Weight(randomTensor(r, kind, rows, 512)).(*weight)
			if got, want := int64(len(w.packed)+4*len(w.vector)), PackedBytes(kind, rows, 512); got != want {
				t.Errorf("%s, %d rows: took %d bytes, announced %d", kind, rows, got, want)
			}
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

func TestReserveTakesWhatIsAnnounced(t *testing.T) {
	for _, l := range []compute.Limits{{Rows: 512, Outputs: 64, Width: 8192},
		{Rows: 64, Outputs: 64, Width: 1000, Experts: 4}} {
		c, err := New(Options{Threads: 3})
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Reserve(l); err != nil {
			t.Fatal(err)
		}
		got := cap(c.quantized) + cap(c.brain) + 4*(cap(c.hidden)+cap(c.up)+cap(c.columns)+cap(c.gathered)+cap(c.few))
		for _, w := range c.workers {
			got += 4*(cap(w.row)+cap(w.unpacked)) + cap(w.open)
		}
		if want := ScratchBytes(l, 3); int64(got) != want {
			t.Errorf("%+v: took %d bytes, announced %d", l, got, want)
		}
		_ = c.Close()
	}
}

func TestTablesTakeNoMemory(t *testing.T) {
	c, err := New(Options{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	table := randomTensor(newRand(1), weights.Q8_0, 100, 512)
	w, err := c.UploadTable(table)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(c.memory.taken); n != 0 {
		t.Errorf("a table took %d pieces of memory", n)
	}
	b := bench{TB: t, Backend: c}
	step := plainStep(1)
	step.Tokens[0] = 57
	row := b.Buffer(1, 512, nil)
	b.Begin(step, nil)
	b.Embed(row, w, 1)
	want, err := table.Float32s()
	if err != nil {
		t.Fatal(err)
	}
	if err := sameBits(contents(row), want[57*512:58*512]); err != nil {
		t.Error(err)
	}
	table.Data = table.Data[1:]
	if _, err := c.UploadTable(table); err == nil {
		t.Error("a damaged table was accepted")
	}
}
