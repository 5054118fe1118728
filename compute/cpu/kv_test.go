package cpu

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"testing"

	"parley/compute"
	"parley/compute/computetest"
	"parley/model/weights"
)

// forEachKVType runs f on every path and type of pool.
func forEachKVType(t *testing.T, f func(t *testing.T, path string, kind compute.KVType)) {
	forEachPath(t, func(t *testing.T, path string) {
		for kind := range compute.KVType(compute.KVTypes) {
			t.Run(kind.String(), func(t *testing.T) { f(t, path, kind) })
		}
	})
}

// TestAttentionOverRoundedContext holds every type to the budget of float32:
// the reference rounds to the same values.
func TestAttentionOverRoundedContext(t *testing.T) {
	talks := []computetest.Conversation{
		{Chunks: []int{37, 1, 1, 30}, Blocks: []int32{7, 3, 9, 11, 2}},
		{Chunks: []int{1, 16, 1}, Blocks: []int32{0, 12}},
		{Chunks: []int{2, 64, 1}, Blocks: blockTable(67, 20)},
	}
	for kind := range compute.KVType(compute.KVTypes) {
		for i, dim := range []int{64, 24, 2, 40, 80, 128, 256} {
			heads := []compute.Heads{{Query: 4, KV: 4, Dim: dim}, {Query: 9, KV: 3, Dim: dim},
				{Query: 8, KV: 1, Dim: dim}}[i%3]
			t.Run(fmt.Sprintf("%v/dim_%d_heads_%d_of_%d", kind, dim, heads.Query, heads.KV), func(t *testing.T) {
				l := computetest.Lookback{Heads: heads, Kind: kind, Still: true, Window: 20 * (i % 2), Talks: talks}
				scenario(l.Scenario()).compare(t, budgetAttention)
			})
		}
	}
}

// roundKV replaces the numbers of one token and head by what a pool of the type keeps of them.
func roundKV(kind compute.KVType, x []float32) {
	switch kind {
	case compute.KVBF16:
		for i, v := range x {
			x[i] = weights.FromBF16(weights.ToBF16(v))
		}
	case compute.KVInt8:
		scale, inverse := kvScale(kind, x)
		for i, v := range x {
			x[i] = float32(int8(toInt8(float32(v*inverse)))) * weights.FromBF16(scale)
		}
	case compute.KVFP8:
		scale, inverse := kvScale(kind, x)
		for i, v := range x {
			x[i] = weights.FromE4M3(weights.ToE4M3(float32(v*inverse))) * weights.FromBF16(scale)
		}
	}
}

// TestStoredIsWhatRoundingGives reads back what is stored, bit by bit.
func TestStoredIsWhatRoundingGives(t *testing.T) {
	r := newRand(3)
	for kind := range compute.KVType(compute.KVTypes) {
		for _, dim := range []int{2, 24, 64, 128} {
			part := make([]byte, compute.KVShape{HeadDim: dim, Type: kind}.PartBytes())
			for token := range compute.BlockTokens {
				x := randomFloats(r, dim)
				for i := range x {
					x[i] *= float32(math.Exp2(float64(r.IntN(60) - 30)))
				}
				narrow(kind, part, token, token*dim, 1, x)
				got := make([]float32, dim)
				readKV(kind, got, part, token)
				roundKV(kind, x)
				if err := sameBits(got, x); err != nil {
					t.Fatalf("%v, dim %d: %v", kind, dim, err)
				}
			}
		}
	}
}

// roundingError is how far a number may be from what is kept of it, when top is
// the greatest magnitude of its token: half of a step, with scales rounded up.
func roundingError(kind compute.KVType, v, top float64) float64 {
	const scaleRounding = 1 + 1./128
	switch kind {
	case compute.KVBF16:
		return v / 256
	case compute.KVInt8:
		return top / 127 / 2 * scaleRounding
	case compute.KVFP8:
		return max(v/16, top/448/512/2*scaleRounding)
	}
	return 0
}

func TestRoundingLosesLittle(t *testing.T) {
	r := newRand(5)
	for kind := range compute.KVType(compute.KVTypes) {
		for _, size := range []float64{1e-25, 1e-3, 1, 3e4, 1e30} {
			x := randomFloats(r, 128)
			for i := range x {
				x[i] *= float32(size)
			}
			kept := slices.Clone(x)
			roundKV(kind, kept)
			top := float64(max(slices.Max(x), -slices.Min(x)))
			for i := range x {
				off := math.Abs(float64(kept[i]) - float64(x[i]))
				if allowed := roundingError(kind, math.Abs(float64(x[i])), top); !(off <= allowed*(1+1e-6)) {
					t.Errorf("%v at size %g: %v becomes %v", kind, size, x[i], kept[i])
				}
			}
		}
	}
}

func TestRoundingAtTheLimits(t *testing.T) {
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	for kind := range compute.KVType(compute.KVTypes) {
		tiny := []float32{0, 1e-42, -1e-40, 1e-31}
		roundKV(kind, tiny)
		for _, v := range tiny {
			if !(math.Abs(float64(v)) <= 1.1e-31) {
				t.Errorf("%v: a tiny number became %v", kind, v)
			}
		}
		huge := []float32{math.MaxFloat32 / 2, -math.MaxFloat32 / 4, 0}
		roundKV(kind, huge)
		if huge[0] < math.MaxFloat32/3 || huge[0] > math.MaxFloat32*0.51 || huge[1] > -math.MaxFloat32/5 ||
			huge[2] != 0 {
			t.Errorf("%v: huge numbers became %v", kind, huge)
		}
		for _, bad := range []float32{inf, nan} {
			x := []float32{1, bad}
			roundKV(kind, x)
			if v := float64(x[1]); !math.IsNaN(v) && !math.IsInf(v, 0) {
				t.Errorf("%v: %v became %v, which hides it", kind, bad, x[1])
			}
		}
	}
}

func TestInt8RoundsToEven(t *testing.T) {
	for v := float32(-127); v <= 127; v += 0.125 {
		if got, want := float64(int8(toInt8(v))), math.RoundToEven(float64(v)); got != want {
			t.Errorf("%v is rounded to %v, want %v", v, got, want)
		}
	}
}

// TestTokensAreStoredAlone stores one token among others and alone, and wants the same bytes.
func TestTokensAreStoredAlone(t *testing.T) {
	const dim, token = 64, 5
	for kind := range compute.KVType(compute.KVTypes) {
		r := newRand(9)
		alone, among := randomPart(r, kind, dim), randomPart(r, kind, dim)
		x := randomFloats(r, dim)
		narrow(kind, alone, token, token, lanes, x)
		narrow(kind, among, token, token, lanes, x)
		size := kind.ElementBytes()
		for d := range dim {
			at := (d*lanes + token) * size
			if !bytes.Equal(alone[at:at+size], among[at:at+size]) {
				t.Errorf("%v: dimension %d has other bytes", kind, d)
			}
		}
		if a, b := (plainAttend{kind}).scales(alone, dim), (plainAttend{kind}).scales(among,
			dim); a[token] != b[token] {
			t.Errorf("%v: the scale is %v alone, %v among others", kind, a[token], b[token])
		}
	}
}

func TestCopyBlocks(t *testing.T) {
	for kind := range compute.KVType(compute.KVTypes) {
		shape := compute.KVShape{Layers: 3, KVHeads: 2, HeadDim: 16, Blocks: 6, Type: kind}
		c, err := New(Options{Threads: 1})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if err := c.NewKV(shape); err != nil {
			t.Fatal(err)
		}
		n := len(c.kv.data) / shape.Blocks
		if int64(n) != shape.BlockBytes() {
			t.Errorf("%v: a block has %d bytes, want %d", kind, n, shape.BlockBytes())
		}
		r := newRand(1)
		for i := range 2 * n {
			c.kv.data[n+i] = byte(r.Uint32())
		}
		c.CopyBlocks([]int32{5, 0}, []int32{1, 2})
		for _, pair := range [][2]int{{5, 1}, {0, 2}} {
			if !bytes.Equal(c.kv.data[pair[0]*n:][:n], c.kv.data[pair[1]*n:][:n]) {
				t.Errorf("%v: block %d is not block %d", kind, pair[0], pair[1])
			}
		}
		if err := c.NewKV(shape); err == nil {
			t.Error("a second pool was accepted")
		}
	}
}

// TestMovedBlocksGiveTheSameBits copies the context of a sequence elsewhere
// between its steps, and spoils the blocks where it was.
func TestMovedBlocksGiveTheSameBits(t *testing.T) {
	const tokens, blocks = 60, 4
	forEachKVType(t, func(t *testing.T, path string, kind compute.KVType) {
		l := computetest.Lookback{Heads: compute.Heads{Query: 6, KV: 2, Dim: 64}, Kind: kind,
			Talks: []computetest.Conversation{{Chunks: []int{tokens, 1, 2}}}}
		run := func(moves bool) scenario {
			return func(b bench) []float32 {
				b.Pool(compute.KVShape{Layers: computetest.LookbackLayers, KVHeads: 2, HeadDim: 64, Blocks: 3 * blocks,
					Type: kind})
				table, past, outs := blockTable(tokens+3, 0), []int{0}, [][]float32{nil}
				for step := range l.Talks[0].Chunks {
					l.Talks[0].Blocks = table
					l.Step(b, step, past, outs)
					if moves {
						next := blockTable(tokens+3, (step+1)*blocks)
						b.CopyBlocks(next, table)
						b.CopyBlocks(table, slices.Repeat([]int32{3*blocks - 1}, blocks))
						table = next
					}
					if step == 1 {
						moves = false // there is no third place
					}
				}
				return outs[0]
			}
		}
		o := Options{Threads: 2, Path: path}
		if err := sameBits(run(true).on(t, o), run(false).on(t, o)); err != nil {
			t.Error(err)
		}
	})
}

// TestBlocksReadAndWrittenGiveTheSameBits takes the context of a sequence out
// of the pool between its steps, spoils it there, and brings it back in other blocks.
func TestBlocksReadAndWrittenGiveTheSameBits(t *testing.T) {
	const tokens, blocks = 60, 4
	l := computetest.Lookback{Heads: compute.Heads{Query: 6, KV: 2, Dim: 64},
		Talks: []computetest.Conversation{{Chunks: []int{tokens, 1, 2}}}}
	run := func(moves bool) scenario {
		return func(b bench) []float32 {
			shape := compute.KVShape{Layers: computetest.LookbackLayers, KVHeads: 2, HeadDim: 64, Blocks: 2 * blocks,
				Type: l.Kind}
			b.Pool(shape)
			table, past, outs := blockTable(tokens+3, 0), []int{0}, [][]float32{nil}
			bytes, noise := make([]byte, shape.BlockBytes()), make([]byte, shape.BlockBytes())
			for step := range l.Talks[0].Chunks {
				l.Talks[0].Blocks = table
				l.Step(b, step, past, outs)
				for i, block := range table {
					if !moves {
						break
					}
					half := len(bytes) / 2
					b.ReadBlock(bytes[half:], block, half)
					b.ReadBlock(bytes[:half], block, 0)
					for j := range noise {
						noise[j] ^= byte(j + i)
					}
					b.WriteBlock(block, 0, noise)
					table[i] = (block + blocks) % (2 * blocks)
					b.WriteBlock(table[i], 0, bytes[:half])
					b.WriteBlock(table[i], half, bytes[half:])
				}
			}
			return outs[0]
		}
	}
	forEachKVType(t, func(t *testing.T, path string, kind compute.KVType) {
		l.Kind = kind
		o := Options{Threads: 2, Path: path}
		if err := sameBits(run(true).on(t, o), run(false).on(t, o)); err != nil {
			t.Error(err)
		}
	})
	for l.Kind = range compute.KVType(compute.KVTypes) {
		if err := sameBits(run(true).onRef(t), run(false).onRef(t)); err != nil {
			t.Errorf("reference, %v: %v", l.Kind, err)
		}
	}
}

func TestBytesBeyondABlockAreRefused(t *testing.T) {
	shape := compute.KVShape{Layers: 1, KVHeads: 1, HeadDim: 16, Blocks: 2, Type: compute.KVInt8}
	c, err := New(Options{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for _, b := range []compute.Backend{c, NewRef()} {
		bench{TB: t, Backend: b}.Pool(shape)
		size := int(shape.BlockBytes())
		for _, part := range [][2]int{{0, size + 1}, {1, size}, {size, 1}, {-1, 1}, {size + 1, 0}} {
			at, bytes := part[0], make([]byte, part[1])
			for what, do := range map[string]func(){
				"read":    func() { b.ReadBlock(bytes, 0, at) },
				"written": func() { b.WriteBlock(0, at, bytes) },
			} {
				if !panics(do) {
					t.Errorf("%s: %d bytes from %d on were %s", b.Name(), len(bytes), at, what)
				}
			}
		}
	}
}

func panics(f func()) (did bool) {
	defer func() { did = recover() != nil }()
	f()
	return false
}

func TestNoKVTypeAllocates(t *testing.T) {
	const rows = 20
	heads := compute.Heads{Query: 4, KV: 2, Dim: 64}
	forEachKVType(t, func(t *testing.T, path string, kind compute.KVType) {
		scenario(func(b bench) []float32 {
			b.Pool(compute.KVShape{Layers: 1, KVHeads: heads.KV, HeadDim: heads.Dim, Blocks: 2, Type: kind})
			r := newRand(1)
			fill := func(n int) compute.Buffer { return b.Buffer(rows, n*heads.Dim, randomFloats(r, rows*n*heads.Dim)) }
			x, dst := compute.QKV{Q: fill(4), K: fill(2), V: fill(2), Heads: heads}, fill(4)
			b.Begin(plainStep(rows), []compute.Rope{{InvFreq: invFreq(heads.Dim), Scale: 1}})
			a := compute.Attention{Heads: heads, Scale: 0.125}
			if n := testing.AllocsPerRun(20, func() { b.RopeStore(0, 0, &x); b.Attend(0, dst, x.Q, &a) }); n != 0 {
				t.Errorf("storing and attending allocate %v times", n)
			}
			return nil
		}).on(t, Options{Threads: 2, Path: path})
	})
}

func TestNewKVRefusesImpossiblePools(t *testing.T) {
	good := compute.KVShape{Layers: 1, KVHeads: 1, HeadDim: 16, Blocks: 1}
	for what, spoil := range map[string]func(*compute.KVShape){
		"type":   func(s *compute.KVShape) { s.Type = compute.KVTypes },
		"dim":    func(s *compute.KVShape) { s.HeadDim = 15 },
		"blocks": func(s *compute.KVShape) { s.Blocks = 0 },
		"size":   func(s *compute.KVShape) { s.Blocks = math.MaxInt / 2 },
	} {
		c, err := New(Options{Threads: 1})
		if err != nil {
			t.Fatal(err)
		}
		s := good
		spoil(&s)
		if err := c.NewKV(s); err == nil {
			t.Errorf("a pool with an impossible %s was accepted", what)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
}
