package llamacpp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"sync"
	"time"

	"parley"
	"parley/compute"
	"parley/compute/cpu"
	"parley/model"
	"parley/model/weights"
)

// Measure computes as llama-bench does: a prompt in one pass from an empty
// context, of which the last token's scores are wanted, and then, from empty
// again, in passes of one token each. A pass of each kind goes first and
// does not count.
func Measure(ck *weights.Checkpoint, o cpu.Options, n Length) (s Speed, err error) {
	if n.Prompt < 0 || n.Generate < 0 || n.Prompt+n.Generate == 0 || max(n.Prompt, n.Generate) > ck.Config.Context {
		return s, fmt.Errorf("%d prompt and %d generated tokens: expected some, and at most %d", n.Prompt, n.Generate,
			ck.Config.Context)
	}
	backend, err := cpu.New(o)
	if err != nil {
		return s, err
	}
	defer func() { err = errors.Join(err, backend.Close()) }()
	blocks := (max(n.Prompt, n.Generate) + compute.BlockTokens - 1) / compute.BlockTokens
	network, err := model.Load(ck, backend,
		model.Limits{Rows: max(n.Prompt, 1), Outputs: 1, Blocks: blocks, KV: compute.KVBF16})
	if err != nil {
		return s, err
	}
	r := newRunner(network, blocks)
	if n.Prompt > 0 {
		r.pass(0, n.Prompt)
		begun := time.Now()
		r.pass(0, n.Prompt)
		s.Prefill = float64(n.Prompt) / time.Since(begun).Seconds()
	}
	if n.Generate > 0 {
		r.pass(0, 1)
		begun := time.Now()
		for i := range n.Generate {
			r.pass(i, 1)
		}
		s.Decode = float64(n.Generate) / time.Since(begun).Seconds()
	}
	return s, nil
}

// A runner computes passes of one sequence.
type runner struct {
	network *model.Model
	blocks  []int32
	logits  []float32
	token   uint64
}

func newRunner(network *model.Model, blocks int) *runner {
	r := &runner{network: network, logits: make([]float32, network.Vocab())}
	for i := range blocks {
		r.blocks = append(r.blocks, int32(i))
	}
	return r
}

// pass computes the given number of new tokens after the past ones. Which they are does
// not matter; as in llama-bench they are any of the vocabulary.
func (r *runner) pass(past, n int) {
	step := compute.Step{Tokens: make([]parley.Token, n), Outputs: []int32{int32(n - 1)}}
	for i := range step.Tokens {
		r.token = r.token*6364136223846793005 + 1442695040888963407
		step.Tokens[i] = parley.Token(r.token >> 33 % uint64(r.network.Vocab()))
	}
	step.Seqs = []compute.Seq{{Rows: n, Past: past, Blocks: r.blocks}}
	r.network.Forward(&step, r.logits)
}

// measureOurs measures in a process of its own, as llama-bench is one.
func (l *Lab) measureOurs(ctx context.Context, path string, n Length) (s Speed, err error) {
	args := []string{"cpu", "--measure", path, "--threads", strconv.Itoa(l.Threads), "--prompt",
		strconv.Itoa(n.Prompt), "--generate", strconv.Itoa(n.Generate)}
	out, err := output(exec.CommandContext(ctx, l.Self, append(args, l.numerics()...)...))
	if err != nil {
		return s, err
	}
	if err := json.Unmarshal(out, &s); err != nil {
		return s, fmt.Errorf("parley-bench cpu --measure printed no speed: %w", err)
	}
	return s, checkMeasured(s, n)
}

// bytesPerToken is how much of the model is read to compute one token: all of
// it but an embedding that is not the output's too, of which a row is read.
func bytesPerToken(ck *weights.Checkpoint) (n int64) {
	for _, t := range ck.Tensors() {
		if t.Name != "token_embd.weight" || ck.Config.TieEmbeddings {
			n += int64(len(t.Data))
		}
	}
	return n
}

// bandwidthBytes is more than any cache of this machine should hold.
const bandwidthBytes = 768 << 20

// A meter measures how fast all threads together read memory.
type meter struct{ memory []byte }

// fill takes the memory, and writes to all of it so that it is there.
func (m *meter) fill(n int) (err error) {
	if m.memory, err = largePages(n); err != nil {
		return fmt.Errorf("memory to measure with: %w", err)
	}
	for i := range m.memory {
		m.memory[i] = 1
	}
	return nil
}

// measure returns the best of a few passes, in bytes a second. Looking for a
// byte that is not there is the fastest way to read that Go offers: it is done
// with the widest instructions of the processor.
func (m *meter) measure(threads int) (float64, error) {
	if m.memory == nil {
		if err := m.fill(bandwidthBytes); err != nil {
			return 0, err
		}
	}
	var best time.Duration
	for range 4 {
		took, err := m.pass(threads)
		if err != nil {
			return 0, err
		}
		if best == 0 || took < best {
			best = took
		}
	}
	return float64(len(m.memory)) / best.Seconds(), nil
}

func (m *meter) pass(threads int) (time.Duration, error) {
	found := make([]bool, threads)
	var readers sync.WaitGroup
	begun := time.Now()
	for k := range threads {
		part := m.memory[k*len(m.memory)/threads : (k+1)*len(m.memory)/threads]
		readers.Go(func() { found[k] = bytes.IndexByte(part, 2) >= 0 })
	}
	readers.Wait()
	took := time.Since(begun)
	for _, f := range found {
		if f {
			return 0, errors.New("memory does not hold what was written to it")
		}
	}
	return took, nil
}
