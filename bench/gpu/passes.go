package gpu

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"parley"
	"parley/compute"
	"parley/compute/cuda"
	"parley/internal/stat"
	"parley/model"
	"parley/model/weights"
)

// A Load is what passes are measured with: a prompt, or a pass with one new token
// for each of Batch sequences of Context tokens, of which all begin with the same Shared ones.
type Load struct {
	Prompt, Batch, Context, Shared int
	// Special has every token of a batch chosen with penalties of 512 tokens, a mask of half of the
	// vocabulary, and the log-probabilities of the five best.
	Special bool
}

// Tokens is how many tokens one pass computes.
func (l Load) Tokens() int { return max(l.Prompt, l.Batch) }

// String names the load.
func (l Load) String() string {
	if l.Prompt > 0 {
		return fmt.Sprintf("prefill %d", l.Prompt)
	}
	text := fmt.Sprintf("decode batch %d, context %d", l.Batch, l.Context)
	if l.Special {
		text += ", special"
	}
	if l.Shared > 0 {
		text += fmt.Sprintf(", %d shared", l.Shared)
	}
	return text
}

// A Result is the median time of a pass.
type Result struct {
	Load Load
	Pass time.Duration
}

// Rate is tokens a second.
func (r Result) Rate() float64 { return float64(r.Load.Tokens()) / r.Pass.Seconds() }

// A Setup is where and how a model is loaded.
type Setup struct {
	Device   int
	KV       compute.KVType
	RoundFP8 bool // matrices are rounded to FP8
}

// A roundingBackend rounds matrices to FP8. Those of different layers often share their numbers.
type roundingBackend struct {
	*cuda.CUDA
	done map[*byte]weights.Tensor
}

func (b *roundingBackend) Upload(t weights.Tensor) (compute.Weight, error) {
	if len(t.Shape) != 2 || t.Type != weights.BF16 {
		return b.CUDA.Upload(t)
	}
	rounded, ok := b.done[&t.Data[0]]
	if !ok || !slices.Equal(rounded.Shape, t.Shape) {
		var err error
		if rounded, err = t.ToF8(); err != nil {
			return nil, err
		}
		b.done[&t.Data[0]] = rounded
	}
	return b.CUDA.Upload(rounded)
}

// MeasurePasses loads a model on a GPU and measures passes of each load.
func MeasurePasses(ck *weights.Checkpoint, setup Setup, loads []Load,
	atMost time.Duration) (results []Result, load time.Duration, err error) {
	limits := model.Limits{Rows: 1, Outputs: 1, KV: setup.KV}
	for _, l := range loads {
		limits.Rows, limits.Outputs = max(limits.Rows, l.Tokens()), max(limits.Outputs, l.Batch)
		limits.Blocks = max(limits.Blocks, l.blocks())
	}
	begun := time.Now()
	backend, err := cuda.Open(setup.Device)
	if err != nil {
		return nil, 0, err
	}
	defer func() { err = errors.Join(err, backend.Close()) }()
	var target compute.Backend = backend
	if setup.RoundFP8 {
		target = &roundingBackend{backend, map[*byte]weights.Tensor{}}
	}
	network, err := model.Load(ck, target, limits)
	if err != nil {
		return nil, 0, err
	}
	backend.Wait()
	load = time.Since(begun)
	fillPool(backend, model.KVShape(&ck.Config, limits.Blocks, setup.KV))
	logits := make([]float32, limits.Outputs*network.Vocab())
	for _, l := range loads {
		if l.Batch > 0 {
			results = append(results, Result{l, l.decode(network, atMost)})
		} else {
			results = append(results, Result{l, l.prefill(network, logits, atMost)})
		}
	}
	return results, load, nil
}

// blocks is how many blocks of the pool a load uses.
func (l Load) blocks() int {
	per := (l.Context + max(l.Prompt, 1) + compute.BlockTokens) / compute.BlockTokens
	return per * max(l.Batch, 1)
}

// fillPool writes small numbers to all blocks.
func fillPool(be compute.Backend, s compute.KVShape) {
	block := make([]byte, s.BlockBytes())
	for i := range block {
		block[i] = byte(i*7%64) | byte(i&1)<<5 // as bfloat16: 2^-63 to 2, as codes: small
	}
	be.WriteBlock(0, 0, block)
	for i := range s.Blocks - 1 {
		be.CopyBlocks([]int32{int32(i + 1)}, []int32{0})
	}
}

// prefill returns the median time of passes whose scores are read.
func (l Load) prefill(network *model.Model, logits []float32, atMost time.Duration) time.Duration {
	step := l.step(network.Vocab())
	return median(atMost, func() { network.Forward(step, logits) })
}

// decode returns the median time between the tokens of one pass and the next. The
// device chooses the best tokens and feeds them to the next pass, which is launched
// before they are read, as the engine does it.
func (l Load) decode(network *model.Model, atMost time.Duration) (took time.Duration) {
	l.each(network, func(pass func()) { took = median(atMost, pass) })
	return took
}

// each has passes of a batch computed, each launched before the tokens of the one before are read.
func (l Load) each(network *model.Model, do func(pass func())) {
	step := l.step(network.Vocab())
	draws := make([]compute.Draw, l.Batch)
	for i := range draws {
		draws[i] = compute.Draw{
			Greedy:      true,
			TopK:        network.Vocab(),
			Temperature: 1,
			TopP:        1,
			MinPSteps:   math.Inf(1),
		}
		if l.Special {
			specialDraw(&draws[i], network.Vocab())
		}
	}
	network.Launch(step, draws)
	for i := range step.Tokens {
		step.Tokens[i] = compute.Chosen(i)
	}
	defer network.AwaitChosen()
	do(func() {
		network.Launch(step, draws)
		network.AwaitChosen()
	})
}

// specialDraw makes a draw of a special load.
func specialDraw(d *compute.Draw, vocab int) {
	d.Adjust.Repetition, d.Adjust.Frequency, d.Adjust.Presence = 1.1, 0.1, 0.1
	for i := range 512 {
		d.Adjust.Tokens = append(d.Adjust.Tokens, compute.Adjustment{Token: parley.Token(i * 31 % vocab), Answered: 1})
	}
	for range (vocab + 63) / 64 {
		d.Mask = append(d.Mask, 0x5555555555555555)
	}
	d.Logprobs, d.TopLogprobs = true, 5
}

// median returns the median time of passes after some that do not count.
func median(atMost time.Duration, pass func()) time.Duration {
	const unmeasured, fewest, most = 3, 5, 200
	var times []float64
	begun := time.Now()
	for i := 0; i < unmeasured+most && (i < unmeasured+fewest || time.Since(begun) < atMost); i++ {
		at := time.Now()
		pass()
		if i >= unmeasured {
			times = append(times, time.Since(at).Seconds())
		}
	}
	return time.Duration(stat.Median(times) * float64(time.Second))
}

// step makes the pass of a load. A prompt's last token is scored, as are all of a batch.
func (l Load) step(vocab int) *compute.Step {
	s := &compute.Step{}
	rows := max(l.Prompt, 1)
	per := int32(l.blocks() / max(l.Batch, 1))
	for i := range max(l.Batch, 1) {
		seq := compute.Seq{Row: len(s.Tokens), Rows: rows, Past: l.Context}
		for b := range per {
			owner := int32(i)
			if int(b) < l.Shared/compute.BlockTokens {
				owner = 0
			}
			seq.Blocks = append(seq.Blocks, owner*per+b)
		}
		for j := range rows {
			s.Tokens = append(s.Tokens, parley.Token((i*7919+j*104729)%vocab))
		}
		s.Seqs = append(s.Seqs, seq)
		s.Outputs = append(s.Outputs, int32(len(s.Tokens)-1))
	}
	return s
}
