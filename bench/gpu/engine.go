package gpu

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"parley"
	"parley/compute"
	"parley/compute/cuda"
	"parley/engine"
	"parley/engine/kv"
	"parley/engine/sched"
	"parley/internal/stat"
	"parley/model"
	"parley/model/weights"
)

// A Batch is requests whose prompts and answers have lengths between Shortest and
// Longest tokens, evenly distributed.
type Batch struct {
	Requests, Shortest, Longest int
}

// A request is one of a batch.
type request struct{ prompt, output int }

// requests returns the lengths of a batch, always the same ones.
func (b Batch) requests() (all []request) {
	r := rand.New(rand.NewPCG(1, 2))
	for range b.Requests {
		length := func() int { return b.Shortest + r.IntN(b.Longest-b.Shortest+1) }
		all = append(all, request{length(), length()})
	}
	return all
}

// OutputTokens are the tokens of all answers.
func (b Batch) OutputTokens() (sum int) {
	for _, r := range b.requests() {
		sum += r.output
	}
	return sum
}

// passTokens and passSeqs are the most tokens and sequences of a pass, the server's defaults on a GPU.
const passTokens, passSeqs = 8192, 256

// A Bench is a model on a GPU behind an engine.
type Bench struct {
	backend *cuda.CUDA
	engine  *engine.Engine
	vocab   int
}

// Open loads a model and starts an engine with a pool of tokens. Passes in which
// answers are written take about target, 0 for as long as is efficient.
func Open(ck *weights.Checkpoint, device, tokens int, target time.Duration) (*Bench, error) {
	backend, err := cuda.Open(device)
	if err != nil {
		return nil, err
	}
	blocks := tokens / compute.BlockTokens
	limits := model.Limits{Rows: passTokens, Outputs: passSeqs, Blocks: blocks, KV: compute.KVBF16}
	network, err := model.Load(ck, backend, limits)
	if err != nil {
		return nil, errors.Join(err, backend.Close())
	}
	e, err := engine.New(engine.Config{
		Model:   parley.Model{ID: ck.Path, ContextTokens: ck.Config.Context},
		Vocab:   network.Vocab(),
		Bytes:   func(parley.Token) []byte { return nil },
		Forward: network.Forward,
		Ahead:   &engine.Ahead{Launch: network.Launch, Wait: network.AwaitChosen},
		Move: func(m kv.Move) error {
			backend.CopyBlocks([]int32{m.ToSlot}, []int32{m.FromSlot})
			return nil
		},
		Sched: sched.Config{
			Blocks:      blocks,
			StepTokens:  passTokens,
			StepOutputs: passSeqs,
			Seqs:        passSeqs,
			Target:      target,
		},
	})
	if err != nil {
		return nil, errors.Join(err, backend.Close())
	}
	return &Bench{backend, e, network.Vocab()}, nil
}

// Close ends the engine and gives the memory back.
func (b *Bench) Close() error { return errors.Join(b.engine.Close(), b.backend.Close()) }

// generate computes one answer and calls token at the arrival of each token.
func (b *Bench) generate(ctx context.Context, number int, r request, token func(time.Time)) error {
	ask := &parley.Request{
		Prompt:    make([]parley.Token, r.prompt),
		MaxTokens: r.output,
		Stop:      parley.Stop{IgnoreEnd: true},
		Sampling:  parley.Sampling{Temperature: 0.6, Seed: uint64(number)},
	}
	random := rand.New(rand.NewPCG(3, uint64(number)))
	for i := range ask.Prompt {
		ask.Prompt[i] = parley.Token(random.IntN(b.vocab))
	}
	got := 0
	for d, err := range b.engine.Generate(ctx, ask) {
		if err != nil {
			return err
		}
		now := time.Now()
		for range d.Tokens {
			token(now)
		}
		got += len(d.Tokens)
	}
	if got != r.output {
		return fmt.Errorf("request %d has %d tokens, %d were asked for", number, got, r.output)
	}
	return nil
}

// Offline computes a batch, all of whose requests come at once, and returns how long it took. Each run has prompts of
// its own: those of the one before would be found in the cache.
func (b *Bench) Offline(ctx context.Context, batch Batch, run int) (time.Duration, error) {
	all := batch.requests()
	errs := make([]error, len(all))
	begun := time.Now()
	var running sync.WaitGroup
	for i, r := range all {
		running.Go(func() { errs[i] = b.generate(ctx, run*len(all)+i, r, func(time.Time) {}) })
	}
	running.Wait()
	return time.Since(begun), errors.Join(errs...)
}

// Described says how the engine has spent its time.
func (b *Bench) Described() string {
	s := b.engine.Stats()
	return fmt.Sprintf("%d passes of %.1f tokens in %.2f s, %d launched ahead, the device waited %.2f s for the host",
		s.Steps, float64(s.StepTokens)/float64(max(1, s.Steps)), s.StepTime.Seconds(), s.Ahead, s.Exposed.Seconds())
}

// Gaps are the times between two tokens of a stream.
type Gaps struct{ P50, P99, P999, Most time.Duration }

// gapAnswer is how many tokens a stream has at most: more than come while prompts arrive.
const gapAnswer = 4096

// GapTokens is how large a pool must be for streams and two prompts of a length beside them.
func GapTokens(streams, length int) int { return streams*(streamPrompt+gapAnswer) + 4*length }

// streamPrompt is the length of a stream's own prompt.
const streamPrompt = 512

// Arrivals lets prompts of a length come one after the other while streams of answers are
// written, and returns the gaps of the streams until the last prompt was read.
func (b *Bench) Arrivals(ctx context.Context, streams, prompts, length int) (Gaps, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var mutex sync.Mutex
	var gaps []float64
	var running sync.WaitGroup
	begun := make(chan struct{}, streams)
	for i := range streams {
		running.Go(func() {
			var last time.Time
			// It ends with the last prompt.
			_ = b.generate(ctx, i, request{streamPrompt, gapAnswer}, func(now time.Time) {
				if last.IsZero() {
					begun <- struct{}{}
				} else {
					mutex.Lock()
					gaps = append(gaps, now.Sub(last).Seconds())
					mutex.Unlock()
				}
				last = now
			})
		})
	}
	for range streams {
		<-begun
	}
	mutex.Lock()
	gaps = gaps[:0] // what the streams' own prompts caused
	mutex.Unlock()
	// Two prompts are under way at any time, so that there is always one to read.
	slots := make(chan struct{}, 2)
	errs := make([]error, prompts)
	var reading sync.WaitGroup
	for i := range prompts {
		slots <- struct{}{}
		reading.Go(func() {
			errs[i] = b.generate(ctx, streams+i, request{length, 1}, func(time.Time) {})
			<-slots
		})
	}
	reading.Wait()
	mutex.Lock()
	measured := slices.Clone(gaps)
	mutex.Unlock()
	cancel()
	running.Wait()
	return gapsOf(measured), errors.Join(errs...)
}

func gapsOf(seconds []float64) Gaps {
	if len(seconds) == 0 {
		return Gaps{}
	}
	slices.Sort(seconds)
	at := func(q float64) time.Duration {
		return time.Duration(seconds[stat.Rank(q, len(seconds))] * float64(time.Second))
	}
	return Gaps{at(0.5), at(0.99), at(0.999), at(1)}
}
