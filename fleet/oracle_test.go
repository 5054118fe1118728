package fleet

import (
	"context"
	"errors"
	"iter"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"parley"
	"parley/compute"
	"parley/engine"
	"parley/engine/kv"
	"parley/engine/sched"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	modelID = "oracle"
	vocab   = 64
	room    = 512
)

// newOracle starts a real engine around a network whose scores are a mixture of
// all tokens before, as they stand in its pool.
func newOracle(t *testing.T, step time.Duration) *engine.Engine { return newSeated(t, step, 64) }

// newSeated starts an oracle that computes that many answers at once.
func newSeated(t *testing.T, step time.Duration, seats int) *engine.Engine {
	t.Helper()
	cells := map[[2]int32]parley.Token{}
	e, err := engine.New(engine.Config{
		Model: parley.Model{ID: modelID, ContextTokens: room}, Vocab: vocab, Ends: []parley.Token{vocab - 1},
		Bytes: func(t parley.Token) []byte { return []byte(spelling[t : t+1]) },
		Forward: func(s *compute.Step, logits []float32) {
			time.Sleep(step)
			out := 0
			for _, q := range s.Seqs {
				sum := uint64(0)
				for pos := range q.Past {
					sum = mix(sum, cells[cell(&q, pos)])
				}
				for r := q.Row; r < q.Row+q.Rows; r++ {
					pos := q.Past + r - q.Row
					cells[cell(&q, pos)] = s.Tokens[r]
					sum = mix(sum, s.Tokens[r])
					if out < len(s.Outputs) && int(s.Outputs[out]) == r {
						foretell(logits[out*vocab:][:vocab], sum)
						out++
					}
				}
			}
		},
		Move: func(m kv.Move) error {
			for p := range int32(compute.BlockTokens) {
				cells[[2]int32{m.ToSlot, p}] = cells[[2]int32{m.FromSlot, p}]
			}
			return nil
		},
		Sched: sched.Config{Blocks: 400, StepTokens: 256, StepOutputs: 64, Seqs: seats},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e
}

// spelling is one byte for each token: what JSON needs, and letters.
const spelling = `{}[]":,.0123456789-+ abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQ`

func cell(q *compute.Seq, pos int) [2]int32 {
	return [2]int32{q.Blocks[pos/compute.BlockTokens], int32(pos % compute.BlockTokens)}
}

func mix(sum uint64, t parley.Token) uint64 {
	sum = (sum ^ uint64(t) + 1) * 0x9e3779b97f4a7c15
	return sum ^ sum>>29
}

func foretell(row []float32, sum uint64) {
	for i := range row {
		row[i] = float32(mix(sum, parley.Token(i))>>40) / (1 << 21)
	}
}

// A frail worker can be killed, silenced and made to fail.
type frail struct {
	parley.Worker
	mu     sync.Mutex
	dead   chan struct{} // closed when it dies
	fails  error         // what every request is answered with
	silent atomic.Bool
	// dieAfter is after how many deltas of a request it dies; 0 never.
	dieAfter int
	asked    atomic.Int64
	active   atomic.Int64
}

func newFrail(w parley.Worker) *frail { return &frail{Worker: w, dead: make(chan struct{})} }

var errReset = errors.Join(errCut, errors.New("connection reset"))

func (w *frail) state() (dead chan struct{}, dieAfter int, fails error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.dead, w.dieAfter, w.fails
}

func (w *frail) kill() {
	w.mu.Lock()
	defer w.mu.Unlock()
	close(w.dead)
}

func (w *frail) revive() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.dead = make(chan struct{})
}

func (w *frail) set(fails error, dieAfter int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fails, w.dieAfter = fails, dieAfter
}

func (w *frail) probe(ctx context.Context) (Condition, error) {
	dead, _, _ := w.state()
	if w.silent.Load() {
		<-ctx.Done()
		return Condition{}, ctx.Err()
	}
	select {
	case <-dead:
		return Condition{}, errReset
	default:
		return Condition{}, nil
	}
}

func (w *frail) Generate(ctx context.Context, r *parley.Request) iter.Seq2[parley.Delta, error] {
	return func(yield func(parley.Delta, error) bool) {
		w.asked.Add(1)
		w.active.Add(1)
		defer w.active.Add(-1)
		dead, dieAfter, fails := w.state()
		if fails != nil {
			yield(parley.Delta{}, fails)
			return
		}
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		go func() {
			select {
			case <-dead:
				cancel()
			case <-ctx.Done():
			}
		}()
		n := 0
		for d, err := range w.Worker.Generate(ctx, r) {
			select {
			case <-dead:
				yield(parley.Delta{}, errReset)
				return
			default:
			}
			if w.silent.Load() {
				<-ctx.Done()
				yield(parley.Delta{}, ctx.Err())
				return
			}
			if n++; n > dieAfter && dieAfter > 0 {
				yield(parley.Delta{}, errReset)
				return
			}
			if !yield(d, err) || err != nil {
				return
			}
		}
	}
}

func joiner(name string, w *frail) Member {
	return Member{Name: name, Pool: "default", Worker: w, Probe: w.probe, BlockTokens: 16, CapacityTokens: 6400}
}

func newFleet(t *testing.T, cfg Config, members ...Member) *Fleet {
	t.Helper()
	if cfg.Models == nil {
		cfg.Models = []parley.Model{{ID: modelID, ContextTokens: room}}
	}
	if cfg.Pools == nil {
		cfg.Pools = []Pool{DefaultPool()}
	}
	f, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
	for _, m := range members {
		if err := f.Join(m); err != nil {
			t.Fatal(err)
		}
	}
	return f
}
