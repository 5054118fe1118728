package engine

import (
	"math/rand/v2"
	"testing"
	"time"

	"parley"
	"parley/compute"
	"parley/engine/kv"
	"parley/engine/sched"
)

// BenchmarkStep64 says what a step of 64 writing streams costs besides the
// network: planning and bookkeeping, choosing the tokens from 32K scores, and
// handing them over.
func BenchmarkStep64(b *testing.B) {
	const streams, vocab, context = 64, 32768, 1 << 20
	rng := rand.New(rand.NewPCG(1, 1))
	scores := make([]float32, streams*vocab)
	for i := range scores {
		scores[i] = 3 * float32(rng.NormFloat64())
	}
	cfg := Config{
		Model: parley.Model{ID: "none", ContextTokens: context}, Vocab: vocab,
		Bytes: func(parley.Token) []byte {
			return []byte("x")
		}, Forward: func(*compute.Step, []float32) {}, Move: func(kv.Move) error { return nil },
		Sched: sched.Config{Blocks: 1 << 16, StepTokens: 512, StepOutputs: streams, Seqs: streams,
			Target: 50 * time.Millisecond},
		Now: time.Now,
	}
	e, err := assembleEngine(cfg)
	if err != nil {
		b.Fatal(err)
	}
	join(b, e, streams)
	l := e.loop
	copy(l.buffers.logits, scores)
	var plan, choose, deliver time.Duration
	b.ReportAllocs()
	for b.Loop() {
		t0 := time.Now()
		p := l.sched.Next(t0)
		l.sched.Commit(p, 10*time.Millisecond)
		t1 := time.Now()
		for i, part := range p.Parts {
			c := l.owner[part.Seq]
			if part.Outputs > 0 {
				if _, err := c.sampler.Choose(l.buffers.logits[i*vocab:][:vocab], &l.buffers.scratch); err != nil {
					b.Fatal(err)
				}
			}
		}
		t2 := time.Now()
		for _, part := range p.Parts {
			c := l.owner[part.Seq]
			if part.Outputs == 0 {
				continue
			}
			c.seq.Tokens = append(c.seq.Tokens, 7)
			c.stopper.Push(7)
			l.deliver(c, parley.Delta{Tokens: []parley.Token{7}})
			c.job.mail.take()
		}
		plan, choose, deliver = plan+t1.Sub(t0), choose+t2.Sub(t1), deliver+time.Since(t2)
	}
	for name, t := range map[string]time.Duration{"plan": plan, "choose": choose, "deliver": deliver} {
		b.ReportMetric(float64(t.Microseconds())/float64(b.N), name+"-µs")
	}
}

// join adds streams that write without end, some greedily and some at a
// temperature, and computes their prompts.
func join(b *testing.B, e *Engine, streams int) {
	b.Helper()
	for i := range streams {
		r := &parley.Request{Prompt: long(i+2, 20), Sampling: parley.Sampling{Temperature: float32(i % 2)},
			Stop: parley.Stop{IgnoreEnd: true}}
		j, err := e.newJob(b.Context(), r)
		if err != nil {
			b.Fatal(err)
		}
		if !e.inbox.submit(j) {
			b.Fatal("the engine is closed")
		}
	}
	e.loop.attend()
	for range 2 * streams {
		p := e.loop.sched.Next(time.Now())
		e.loop.sched.Commit(p, 10*time.Millisecond)
		for _, part := range p.Parts {
			if part.Seq.Computed == len(part.Seq.Tokens) {
				part.Seq.Tokens = append(part.Seq.Tokens, 7)
			}
		}
	}
}
