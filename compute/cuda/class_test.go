package cuda

import (
	"fmt"
	"slices"
	"testing"

	"parley"
	"parley/compute"
	"parley/compute/computetest"
	"parley/internal/testkit"
	"parley/model/weights"
)

// productOf multiplies the first rows of a fixed sequence of rows with a fixed
// matrix, and returns the last of them.
func productOf(t *testing.T, be compute.Backend, kind weights.DType, rows, cols int, outputs ...int) (all []float32) {
	b := computetest.Bench{TB: t, Backend: be}
	r := computetest.NewRand(3)
	var products []compute.Projection
	for _, n := range outputs {
		w := b.Weight(computetest.Tensor(r, kind, n, cols))
		products = append(products, compute.Projection{Out: b.Buffer(rows, n, nil), W: w})
	}
	last := computetest.Floats(computetest.NewRand(9), cols)
	values := append(computetest.Floats(r, (rows-1)*cols), last...)
	in := b.Buffer(rows, cols, values)
	b.Begin(computetest.PlainStep(rows), nil)
	b.Linear(in, products)
	for i, n := range outputs {
		all = append(all, b.Contents(rows, products[i].Out)[(rows-1)*n:]...)
	}
	return all
}

// TestRowAloneIsRowAmongOthers multiplies a row alone and as the last of many,
// which other kernels do, and wants the same bits.
func TestRowAloneIsRowAmongOthers(t *testing.T) {
	for n, kind := range append(computetest.AllTypes, weights.F8E4M3) {
		t.Run(kind.String(), func(t *testing.T) {
			first := portable
			if kind == weights.F8E4M3 {
				first = hopper
			}
			alone := productOf(t, newBackendOf(t, first), kind, 1, 512, 70)
			for i, rows := range []int{1, 2, 9, 31, 60, 131, 520} {
				if rows == 520 && kind != weights.BF16 && !onDevice || left(n, i) {
					continue // it takes the interpreter long
				}
				be := newBackendOf(t, hopper-i%2)
				if kind == weights.F8E4M3 {
					be = newBackend(t)
				}
				if err := computetest.SameBits(productOf(t, be, kind, rows, 512, 70), alone); err != nil {
					t.Errorf("among %d: %v", rows, err)
				}
			}
		})
	}
}

// gatedRowOf computes an MLP with a norm before it, and returns the last of the rows.
func gatedRowOf(t *testing.T, be compute.Backend, rows, inner int) []float32 {
	const hidden = 96
	b := computetest.Bench{TB: t, Backend: be}
	r := computetest.NewRand(3)
	matrix := func(rows, cols int) compute.Weight {
		return b.Weight(computetest.Tensor(r, weights.BF16, rows, cols))
	}
	norm := b.Weight(computetest.Vector(r, hidden))
	m := compute.MLP{Gate: matrix(inner, hidden), Up: matrix(inner, hidden), Down: matrix(hidden, inner)}
	values := func(seed uint64) compute.Buffer {
		last := computetest.Floats(computetest.NewRand(seed), hidden)
		return b.Buffer(rows, hidden, append(computetest.Floats(r, (rows-1)*hidden), last...))
	}
	x, add, h, out := values(9), values(10), b.Buffer(rows, hidden, nil), b.Buffer(rows, hidden, nil)
	b.Begin(computetest.PlainStep(rows), nil)
	b.Add(x, add)
	b.Norm(h, x, norm, 1e-5, 0)
	b.GatedMLP(out, h, &m)
	return b.Contents(rows, out)[(rows-1)*hidden:]
}

// TestRowAloneInMLP does the same with the products inside an MLP, whose kernels are others, and
// with the norm before it.
func TestRowAloneInMLP(t *testing.T) {
	alone := gatedRowOf(t, newBackend(t), 1, 200)
	for _, rows := range []int{2, 9, 31, 60, 130, 270} {
		if err := computetest.SameBits(gatedRowOf(t, newBackend(t), rows, 200), alone); err != nil {
			t.Errorf("among %d: %v", rows, err)
		}
	}
}

// TestRowAloneOnWarpgroups meets each kernel that uses warpgroups, with one tile of outputs more than the interpreter
// has multiprocessors, and rows that end before the last tile does.
func TestRowAloneOnWarpgroups(t *testing.T) {
	const kind, outputs = weights.BF16, 4*128 + 88
	loaded := func(t *testing.T) *CUDA {
		c := newBackend(t)
		if err := c.loadMatrix(kind); err != nil {
			t.Fatal(err)
		}
		return c
	}
	among := func(t *testing.T, rows int, got, alone []float32) {
		if err := computetest.SameBits(got, alone); err != nil {
			t.Errorf("among %d: %v", rows, err)
		}
	}
	c := loaded(t)
	product := productOf(t, loaded(t), kind, 1, 192, outputs)
	products := productOf(t, loaded(t), kind, 1, 192, 192, 320, 128)
	for i, k := range c.matrices[kind] {
		if k.stage > 0 {
			t.Run(k.Name, func(t *testing.T) {
				c, rows := loaded(t), 2*k.rows-13
				c.matrices[kind] = c.matrices[kind][i : i+1]
				if k.turned {
					among(t, rows, productOf(t, c, kind, rows, 192, 192, 320, 128), products)
					return
				}
				among(t, rows, productOf(t, c, kind, rows, 192, outputs), product)
			})
		}
	}
	for i, k := range c.pairs {
		if k.stage > 0 {
			outputs := outputs
			if k.turned {
				outputs = 4*136 + 96 // the last tile is not whole
			}
			mlp := gatedRowOf(t, loaded(t), 1, outputs)
			t.Run(k.Name, func(t *testing.T) {
				for _, rows := range []int{k.rows - 13, 2*k.rows - 13} {
					c := loaded(t)
					c.pairs = c.pairs[i : i+1]
					among(t, rows, gatedRowOf(t, c, rows, outputs), mlp)
				}
			})
		}
	}
}

// TestKernelsByLoad pins which kernels the measurements of NOTES.md chose on 132 multiprocessors.
func TestKernelsByLoad(t *testing.T) {
	c := newBackend(t)
	if err := c.loadMatrix(weights.BF16); err != nil {
		t.Fatal(err)
	}
	c.device.Multiprocessor = 132
	for _, s := range []struct {
		name          string
		pair          bool
		rows, outputs int
		want          string
	}{
		{"o of 14B", false, 32, 5120, "linear_bf16_32_2"},
		{"o of 14B", false, 64, 5120, "linear_bf16_64_by_64"},
		{"o of 14B", false, 128, 5120, "linear_bf16_64_8"},
		{"o of 14B", false, 256, 5120, "linear_bf16_96_8"},
		{"q, k and v of 14B", false, 256, 7168, "linear_bf16_128_8"},
		{"o of 8B", false, 64, 4096, "linear_bf16_64_by_32"},
		{"o of 8B", false, 128, 4096, "linear_bf16_64_by_64"},
		{"o of 8B", false, 256, 4096, "linear_bf16_64_8"},
		{"o of 1B", false, 64, 2048, "linear_bf16_64_by_32"},
		{"o of 1B", false, 128, 2048, "linear_bf16_64_by_32"},
		{"o of 0.6B", false, 128, 1024, "linear_bf16_64_by_32"},
		{"a prompt of 8B", false, 8000, 4096, "linear_bf16_256_8"},
		{"gate and up of 14B", true, 64, 17408, "pair_bf16_64_4"},
		{"gate and up of 14B", true, 96, 17408, "pair_bf16_128_by_136"},
		{"gate and up of 14B", true, 256, 17408, "pair_bf16_128_by_136"},
		{"gate and up of 8B", true, 128, 14336, "pair_bf16_128_by_112"},
		{"gate and up of 8B", true, 192, 14336, "pair_bf16_128_by_112"},
		{"gate and up of 1B", true, 128, 8192, "pair_bf16_64_4"},
	} {
		all := c.matrices[weights.BF16]
		if s.pair {
			all = c.pairs
		}
		if k := c.kernelFor(all, s.rows, s.outputs, 0); k.Name != s.want {
			t.Errorf("%s with %d rows: %s, want %s", s.name, s.rows, k.Name, s.want)
		}
	}
}

// TestChunkingChangesNoBits attends over the same sequence, cut in several ways.
func TestChunkingChangesNoBits(t *testing.T) {
	const tokens = partition + 40
	shapes := []struct{ dim, window int }{{24, 0}, {24, 280}, {64, 280}, {128, 0}}
	// Unless all cases are asked for, each type meets one shape: each kernel is met by one type.
	one := map[compute.KVType]int{compute.KVF32: 0, compute.KVBF16: 2, compute.KVInt8: 1, compute.KVFP8: 3}
	for kind := range compute.KVType(compute.KVTypes) {
		for i, shape := range shapes {
			dim, window := shape.dim, shape.window
			if kind == compute.KVF32 && dim > 24 || !*everyCase && i != one[kind] {
				continue // float32 is converted number by number in all widths
			}
			t.Run(fmt.Sprintf("%v_dim_%d_window_%d", kind, dim, window), func(t *testing.T) {
				run := func(chunks ...int) []float32 {
					l := computetest.Lookback{Heads: compute.Heads{Query: 3, KV: 1, Dim: dim}, Kind: kind,
						Window: window}
					l.Talks = []computetest.Conversation{
						{Chunks: chunks, Blocks: computetest.BlockTable(tokens, 0)},
						{Chunks: []int{17, 1, 1}, Blocks: computetest.BlockTable(40, tokens)},
					}
					all := l.Scenario()(computetest.Bench{TB: t, Backend: newBackend(t)})
					return byLayer(all[:2*tokens*3*dim], chunks, 3*dim)
				}
				whole, ways := run(tokens), [][]int{{tokens - 9, 1, 1, 5, 2}, {33, tokens - 35, 1, 1}}
				if dim == 128 && !*everyCase {
					ways = ways[:1] // takes as long as the narrower ones together
				}
				for _, chunks := range ways {
					if err := computetest.SameBits(run(chunks...), whole); err != nil {
						t.Errorf("chunks %v: %v", chunks, err)
					}
				}
			})
		}
	}
}

// TestSplitContextKeepsBits computes attention on a device with one thread block per
// partition of a context, and on one with a single thread block per context.
func TestSplitContextKeepsBits(t *testing.T) {
	run := func(processors int) (all []float32, items int) {
		c := newBackend(t)
		c.device.Multiprocessor = processors
		l := computetest.Lookback{Heads: compute.Heads{Query: 2, KV: 1, Dim: 24}, Kind: compute.KVBF16}
		for i := range 3 {
			tokens := partition + 10*i
			talk := computetest.Conversation{Chunks: []int{tokens, 1}, Blocks: computetest.BlockTable(tokens+1, 20*i)}
			l.Talks = append(l.Talks, talk)
		}
		all = l.Scenario()(computetest.Bench{TB: t, Backend: c})
		return all, c.step.few
	}
	split, many := run(64)
	whole, few := run(1)
	if many != 6 || few != 3 {
		t.Errorf("attention has %d items with many multiprocessors and %d with one, wanted 6 and 3", many, few)
	}
	if err := computetest.SameBits(whole, split); err != nil {
		t.Error(err)
	}
}

// TestSharedPrefixKeepsBits computes attention of conversations that begin with the same blocks: on devices that read
// these once for several, in one item or in one for each partition, and on a device with enough multiprocessors to
// read them for each sequence.
func TestSharedPrefixKeepsBits(t *testing.T) {
	const prefix, tail = 5 * partition, 7
	table := computetest.BlockTable(prefix, 0)
	talks := []computetest.Conversation{{Chunks: []int{prefix + tail, 1}}}
	for i := range 4 { // one of them ends in the prefix's last partition but one
		past := prefix - i/3*(partition+9)
		talks = append(talks, computetest.Conversation{Past: past, Chunks: []int{0, 1}})
	}
	for i := range talks {
		talks[i].Blocks = append(slices.Clone(table), computetest.BlockTable(partition, prefix+i*partition)...)
	}
	run := func(kind compute.KVType, window, processors int) (all []float32, runs []sharedRun, items int) {
		c := newBackend(t)
		c.device.Multiprocessor = processors
		l := computetest.Lookback{
			Heads:  compute.Heads{Query: 2, KV: 1, Dim: 64},
			Kind:   kind,
			Window: window,
			Talks:  talks,
		}
		all = l.Scenario()(computetest.Bench{TB: t, Backend: c})
		return all, slices.Clone(c.step.runs), c.step.few
	}
	for _, kind := range []compute.KVType{compute.KVBF16, compute.KVInt8} {
		alone, runs, items := run(kind, 0, 1000)
		if len(runs) != len(talks) || items != 4*6+4 {
			t.Errorf("%v: %+v and %d items, where every thread block has little to do", kind, runs, items)
		}
		for processors, want := range map[int]int{1: 1 + 4 + 1, 3: 5 + 4 + 4} {
			shared, runs, items := run(kind, 0, processors)
			if len(runs) != 2 || runs[0].seqs != 4 || runs[0].parts != 5 || items != want {
				t.Errorf("%v with %d multiprocessors: %+v and %d items, want %d", kind, processors, runs, items, want)
			}
			if err := computetest.SameBits(shared, alone); err != nil {
				t.Errorf("%v with %d multiprocessors: %v", kind, processors, err)
			}
		}
	}
	if _, runs, _ := run(compute.KVBF16, 100, 1); len(runs) != len(talks) {
		t.Errorf("%+v with a window", runs)
	}
}

// TestGraphsOfSharedPrefixes runs a model on steps that are recorded, in which sequences share a prefix or do not, in
// turns, and wants the bits of a device that never shares.
func TestGraphsOfSharedPrefixes(t *testing.T) {
	const seqs, prefix = 6, 2 * partition
	dir := testkit.SyntheticModel(t, "qwen3")
	run := func(processors int) (rows [][]float32) {
		c := newBackend(t)
		c.device.Multiprocessor = processors
		r := newRunner(t, dir, c, compute.KVBF16)
		shared := r.blocks[:prefix/compute.BlockTokens]
		for at := 0; at < prefix; at += 64 {
			step := &compute.Step{Seqs: []compute.Seq{{Rows: 64, Past: at, Blocks: shared}}, Outputs: []int32{63}}
			for i := range 64 {
				step.Tokens = append(step.Tokens, parley.Token((at+i)%60))
			}
			r.forward(step)
		}
		for past := range 4 {
			step := r.decode(seqs, past)
			if past%2 == 0 {
				for i := range step.Seqs {
					q := &step.Seqs[i]
					q.Past, q.Blocks = prefix+past, append(slices.Clone(shared), r.blocks[len(shared)+i])
				}
			}
			for _, row := range r.forward(step) {
				rows = append(rows, slices.Clone(row))
			}
			sharing := slices.ContainsFunc(c.step.runs, func(run sharedRun) bool { return run.parts > 0 })
			if want := past%2 == 0 && processors == 1; sharing != want {
				t.Errorf("step %d with %d multiprocessors: %+v", past, processors, c.step.runs)
			}
		}
		return rows
	}
	want := run(64)
	for i, row := range run(1) {
		if err := computetest.SameBits(row, want[i]); err != nil {
			t.Errorf("row %d: %v", i, err)
		}
	}
}

// byLayer puts outputs of chunks, in each those of one layer after the other, in the order of layers.
func byLayer(x []float32, chunks []int, width int) []float32 {
	var layers [computetest.LookbackLayers][]float32
	for _, n := range chunks {
		for i := range layers {
			layers[i] = append(layers[i], x[:n*width]...)
			x = x[n*width:]
		}
	}
	return slices.Concat(layers[:]...)
}

// TestModelKeepsItsClass feeds a sequence whole, and in chunks among others.
func TestModelKeepsItsClass(t *testing.T) {
	for _, name := range []string{"llama2", "qwen3-moe", "gemma3"} {
		if name == "gemma3" && !*everyCase {
			continue // takes as long as the two others; TestChunkingChangesNoBits has its windows
		}
		t.Run(name, func(t *testing.T) {
			dir := testkit.SyntheticModel(t, name)
			ids := make([]parley.Token, 40)
			for i := range ids {
				ids[i] = parley.Token((i*7 + 3) % 60)
			}
			whole := newRunner(t, dir, newBackend(t), compute.KVBF16).feed(ids, 0)
			r := newRunner(t, dir, newBackend(t), compute.KVBF16)
			past := 0
			for _, n := range []int{13, 1, 1, 20, 1, 4} {
				for i, row := range r.among(ids[past:past+n], past) {
					if err := computetest.SameBits(row, whole[past+i]); err != nil {
						t.Fatalf("position %d: %v", past+i, err)
					}
				}
				past += n
			}
		})
	}
}

// among feeds tokens between two other sequences, of which one has one token.
func (r *runner) among(ids []parley.Token, past int) [][]float32 {
	mine, one, other := r.blocks[:40], r.blocks[40:41], r.blocks[41:60]
	step := &compute.Step{Tokens: []parley.Token{5}}
	step.Seqs = []compute.Seq{
		{Row: 0, Rows: 1, Past: past % 15, Blocks: one},
		{Row: 1, Rows: len(ids), Past: past, Blocks: mine},
		{Row: 1 + len(ids), Rows: 6, Past: past, Blocks: other},
	}
	step.Tokens = append(step.Tokens, ids...)
	for i := range ids {
		step.Outputs = append(step.Outputs, int32(1+i))
	}
	step.Tokens = append(step.Tokens, 9, 8, 7, 6, 5, 4)
	return r.forward(step)
}

// decode is a step with one new token for each of so many sequences.
func (r *runner) decode(seqs, past int) *compute.Step {
	step := &compute.Step{}
	for s := range seqs {
		step.Tokens = append(step.Tokens, parley.Token(3+s+past))
		step.Seqs = append(step.Seqs, compute.Seq{Row: s, Rows: 1, Past: past, Blocks: r.blocks[2*s:][:2]})
		step.Outputs = append(step.Outputs, int32(s))
	}
	return step
}

// TestDecodeStepsAreOneLaunch counts launches: the kernel that copies the step's data to the device, and the
// recording. It wants the bits of a step that is not recorded.
func TestDecodeStepsAreOneLaunch(t *testing.T) {
	if onDevice {
		t.Skip("launches are counted by the interpreter")
	}
	for _, name := range []string{"llama2", "qwen3-moe", "gemma3"} {
		if name == "gemma3" && !*everyCase {
			continue
		}
		c := newBackend(t)
		d := c.driver.(*interpreter)
		r := newRunner(t, testkit.SyntheticModel(t, name), c, compute.KVBF16)
		plain := newRunner(t, testkit.SyntheticModel(t, name), newBackend(t), compute.KVBF16)
		for past, seqs := range []int{3, 3, 4, 5, 3} {
			launches, replays := d.launches, d.replays
			got := r.forward(r.decode(seqs, past))
			met := past > 0 && seqs <= 4
			if met != (d.launches == launches+1) || met != (d.replays == replays+1) {
				t.Errorf("%s: step %d had %d launches and %d replays", name, past, d.launches-launches,
					d.replays-replays)
			}
			step := plain.decode(seqs, past)
			step.Hidden = make([]float32, seqs*plain.m.Width()) // what reads hidden states is not recorded
			for i, row := range plain.forward(step) {
				if err := computetest.SameBits(got[i], row); err != nil {
					t.Errorf("%s: step %d, sequence %d: %v", name, past, i, err)
				}
			}
		}
	}
}

// TestStepTakesNoMemory runs steps of changing size and looks at what is in use on the device.
func TestStepTakesNoMemory(t *testing.T) {
	c := newBackend(t)
	r := newRunner(t, testkit.SyntheticModel(t, "qwen3-moe"), c, compute.KVBF16)
	for past, seqs := range []int{4, 8, 2} { // the first steps of their size record
		r.forward(r.decode(seqs, past))
	}
	pieces := len(c.memory)
	logits := make([]float32, 8*r.m.Vocab())
	steps := []*compute.Step{r.decode(3, 3), r.decode(8, 4), r.decode(2, 5)}
	n := 0
	runs := len(steps)
	if onDevice {
		runs *= 3
	}
	allocs := testing.AllocsPerRun(runs, func() { r.m.Forward(steps[n%3], logits); n++ })
	if len(c.memory) != pieces {
		t.Errorf("%d pieces of device memory after some steps, %d before", len(c.memory), pieces)
	}
	if onDevice && allocs > 40 {
		t.Errorf("a step allocates %v times on the host", allocs)
	}
}
