package fleet

import (
	"context"
	"fmt"
	"iter"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"parley"
	"parley/engine"
)

// A seated worker has few seats, and says how many of its requests wait.
type seated struct {
	*frail
	engine *engine.Engine
	seats  int
}

func newSeatedWorker(t *testing.T, seats int, step time.Duration) *seated {
	e := newSeated(t, step, seats)
	return &seated{newFrail(e), e, seats}
}

func (w *seated) joiner(name string) Member {
	m := joiner(name, w.frail)
	m.Withdraws = true
	m.Probe = func(ctx context.Context) (Condition, error) {
		c, err := w.probe(ctx)
		s := w.engine.Stats()
		c.Seats, c.Running = w.seats, s.Running
		for _, n := range s.Waiting {
			c.Waiting += n
		}
		return c, err
	}
	return m
}

// computed is how many tokens the engines of the workers have computed.
func computed(workers ...*seated) (n int) {
	for _, w := range workers {
		n += int(w.engine.Stats().StepTokens)
	}
	return n
}

// prompted asks for tokens after a prompt of that many tokens of its own.
func prompted(n, prompt, tokens int) *parley.Request {
	r := ask(tokens)
	r.ID, r.Prompt = fmt.Sprint("r", n), nil
	for i := range prompt {
		r.Prompt = append(r.Prompt, parley.Token((n*7+i*i)%vocab))
	}
	return r
}

// TestAnIdleWorkerGetsWhatAnotherHolds has a worker with one seat write a long answer
// and hold two requests. A second worker joins: one after the other is withdrawn and
// answered there, in the order in which they came, with the tokens that it would have
// had, computed once, and counted as waiting and not as failed.
func TestAnIdleWorkerGetsWhatAnotherHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := newSeatedWorker(t, 1, time.Millisecond), newSeatedWorker(t, 1, time.Millisecond)
		f := newFleet(t, Config{SlowStart: -1, ProbeEvery: 20 * time.Millisecond}, a.joiner("a"))
		time.Sleep(10 * time.Millisecond)
		var wg sync.WaitGroup
		wg.Go(func() { hear(t.Context(), f, prompted(0, 20, 450)) })
		time.Sleep(5 * time.Millisecond)
		type end struct {
			attempts []parley.Attempt
			deltas   []parley.Delta
			at       time.Time
		}
		ends := make([]end, 2)
		for i := range ends {
			wg.Go(func() {
				attempts, deltas, err := travel(t.Context(), f, prompted(i+1, 20, 30))
				if err != nil {
					t.Error(err)
				}
				ends[i] = end{attempts, deltas, time.Now()}
			})
			time.Sleep(time.Millisecond)
		}
		if err := f.Join(b.joiner("b")); err != nil {
			t.Fatal(err)
		}
		wg.Wait()
		tokens := 20 + 449
		for i, e := range ends {
			want, _ := hear(t.Context(), newOracle(t, 0), prompted(i+1, 20, 30))
			if r := prompted(i+1, 20, 30); !reflect.DeepEqual(gather(r, e.deltas), gather(r, want)) {
				t.Errorf("answer %d changed", i)
			}
			if len(e.attempts) != 2 || e.attempts[0].End != "withdrawn" || e.attempts[0].Worker != "a" ||
				e.attempts[0].Tokens != 0 || e.attempts[1].End != "done" || e.attempts[1].Worker != "b" {
				t.Fatalf("request %d went so: %+v", i, e.attempts)
			}
			u := e.deltas[len(e.deltas)-1].Usage
			if u.Queued < e.attempts[1].Sent.Sub(e.attempts[0].Sent) || u.OutputTokens != 30 || u.Routing.Moves != 0 {
				t.Errorf("request %d was used so: %+v", i, u)
			}
			tokens += 20 + 29
		}
		if ends[0].at.After(ends[1].at) {
			t.Error("the second was answered before the first")
		}
		if n := computed(a, b); n != tokens {
			t.Errorf("%d tokens were computed, want %d: something was computed twice", n, tokens)
		}
		for _, s := range f.Standings() {
			if s.Moved+s.Failed+s.Lost != 0 || s.Answering != 0 {
				t.Errorf("%s is told of so: %+v", s.Name, s)
			}
		}
	})
}

// TestAWarmRequestStays has a worker hold a request whose prompt it has cached: it waits
// for as long as computing it elsewhere would take before it is withdrawn.
func TestAWarmRequestStays(t *testing.T) {
	for _, busy := range []int{80, 450} {
		synctest.Test(t, func(t *testing.T) {
			a, b := newSeatedWorker(t, 1, time.Millisecond), newSeatedWorker(t, 1, time.Millisecond)
			f := newFleet(t, Config{SlowStart: -1, ProbeEvery: 10 * time.Millisecond}, a.joiner("a"))
			time.Sleep(10 * time.Millisecond)
			if _, err := hear(t.Context(), f, prompted(1, 320, 1)); err != nil {
				t.Fatal(err)
			}
			f.mu.Lock()
			id := f.members[0].replicas[0].id
			f.router.Prefilled(id, 0, 3200, time.Second)
			f.mu.Unlock()
			var wg sync.WaitGroup
			wg.Go(func() { hear(t.Context(), f, prompted(0, 20, busy)) })
			time.Sleep(5 * time.Millisecond)
			if err := f.Join(b.joiner("b")); err != nil {
				t.Fatal(err)
			}
			f.mu.Lock()
			id = f.members[1].replicas[0].id
			f.router.Prefilled(id, 0, 3200, time.Second) // 100 ms for the prompt
			f.mu.Unlock()
			attempts, _, err := travel(t.Context(), f, prompted(1, 320, 1))
			wg.Wait()
			if err != nil {
				t.Fatal(err)
			}
			if busy == 80 && len(attempts) != 1 {
				t.Errorf("it was withdrawn within 100 ms: %+v", attempts)
			}
			held := attempts[0].Ended.Sub(attempts[0].Sent)
			if busy == 450 && (len(attempts) != 2 || held < 340*time.Millisecond) {
				t.Errorf("it was withdrawn after %v: %+v", held, attempts)
			}
		})
	}
}

// A fifo worker is an engine that begins requests one by one, as they come, says how
// many wait, and knows nothing of classes.
type fifo struct {
	mu    sync.Mutex
	line  []string
	moved chan struct{}
	begun []string
}

func (w *fifo) Models() []parley.Model { return []parley.Model{{ID: modelID, ContextTokens: room}} }

func (w *fifo) change(do func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	do()
	close(w.moved)
	w.moved = make(chan struct{})
}

func (w *fifo) Generate(ctx context.Context, r *parley.Request) iter.Seq2[parley.Delta, error] {
	return func(yield func(parley.Delta, error) bool) {
		w.change(func() { w.line = append(w.line, r.ID) })
		defer w.change(func() { w.line = slices.DeleteFunc(w.line, func(id string) bool { return id == r.ID }) })
		for {
			w.mu.Lock()
			first, moved := w.line[0] == r.ID, w.moved
			w.mu.Unlock()
			if first {
				break
			}
			select {
			case <-moved:
			case <-ctx.Done():
				yield(parley.Delta{}, ctx.Err())
				return
			}
		}
		w.change(func() { w.begun = append(w.begun, r.ID) })
		for i := range r.MaxTokens {
			if !sleep(ctx, time.Millisecond) {
				yield(parley.Delta{}, ctx.Err())
				return
			}
			d := parley.Delta{Text: "x"}
			if i == r.MaxTokens-1 {
				d.Finish, d.Usage = parley.FinishLength, &parley.Usage{PromptTokens: len(r.Prompt), OutputTokens: i + 1}
			}
			if !yield(d, nil) {
				return
			}
		}
	}
}

func (w *fifo) probe(context.Context) (Condition, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return Condition{Running: min(1, len(w.line)), Waiting: max(0, len(w.line)-1)}, nil
}

// TestHigherClassesGoFirstAnywhere has a foreign engine hold free requests when a paid
// one comes: it begins the paid one next, and the free ones after it in the order in
// which they came. One whose client hung up meanwhile is gone.
func TestHigherClassesGoFirstAnywhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &fifo{moved: make(chan struct{})}
		f := newFleet(t, Config{SlowStart: -1, ProbeEvery: 20 * time.Millisecond},
			Member{Name: "v", Pool: "default", Worker: w, Probe: w.probe, TextOnly: true, Resume: ResumeNever})
		time.Sleep(10 * time.Millisecond)
		var wg sync.WaitGroup
		impatient, hangUp := context.WithCancel(t.Context())
		send := func(ctx context.Context, id string, class parley.Class) {
			r := ask(200)
			r.ID, r.Class = id, class
			wg.Go(func() {
				deltas, err := hear(ctx, f, r)
				if ctx.Err() == nil && (err != nil || len(deltas) != 200) {
					t.Errorf("%s: %d deltas, error %v", id, len(deltas), err)
				}
			})
			time.Sleep(time.Millisecond)
		}
		send(t.Context(), "free1", parley.Free)
		send(t.Context(), "free2", parley.Free)
		send(impatient, "free3", parley.Free)
		send(t.Context(), "free4", parley.Free)
		time.Sleep(50 * time.Millisecond)
		send(t.Context(), "paid", parley.Pro)
		hangUp()
		wg.Wait()
		if got := strings.Join(w.begun, " "); got != "free1 paid free2 free4" {
			t.Errorf("it began %s", got)
		}
		if len(w.line) != 0 || len(f.withdrawn.dispatches) != 0 {
			t.Errorf("%v and %d dispatches stay", w.line, len(f.withdrawn.dispatches))
		}
	})
}

// disturb drains and kills three workers in turn.
func disturb(ctx context.Context, f *Fleet, workers []*seated) {
	for i := 0; sleep(ctx, 400*time.Millisecond); i++ {
		switch name := fmt.Sprint("w", i%3); i % 4 {
		case 0, 1:
			f.Drain(name, -1)
			sleep(ctx, 300*time.Millisecond)
			f.Resume(name)
		case 2:
			workers[i%3].kill()
			sleep(ctx, 100*time.Millisecond)
			workers[i%3].revive()
		}
	}
}

// TestWithdrawalsSurvive lets clients hang up, hedges, and drains and kills workers with
// two seats each, while requests are withdrawn: each client that stays sees what it would
// have seen of one worker that lives.
func TestWithdrawalsSurvive(t *testing.T) {
	back := 0
	for seed := range uint64(8) {
		synctest.Test(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 1))
			calm := newOracle(t, 0)
			var workers []*seated
			cfg := Config{ProbeEvery: 20 * time.Millisecond, SlowStart: -1}
			if seed%4 == 3 {
				cfg.HedgeAfter = 300 * time.Millisecond
			}
			f := newFleet(t, cfg)
			for i := range 3 {
				workers = append(workers, newSeatedWorker(t, 2, 10*time.Millisecond))
				m := workers[i].joiner(fmt.Sprint("w", i))
				m.Withdraws = i > 0 || seed%2 == 0 // else it is cancelled, whatever it has begun
				if err := f.Join(m); err != nil {
					t.Fatal(err)
				}
			}
			ctx, stop := context.WithCancel(t.Context())
			var storm, wg sync.WaitGroup
			storm.Go(func() { disturb(ctx, f, workers) })
			var mu sync.Mutex
			for i := range 24 {
				r := randomRequest(rng, i)
				r.Class, r.Choices = parley.Class(i%3), 1
				leaves := time.Duration(rng.IntN(4)) * time.Second
				wg.Go(func() {
					client, hangUp := context.WithCancel(t.Context())
					defer hangUp()
					if i%6 == 5 {
						time.AfterFunc(leaves, hangUp)
					}
					attempts, got, err := travel(client, f, r)
					if client.Err() != nil {
						return
					}
					want, _ := hear(t.Context(), calm, r)
					if a, b := gather(r, got), gather(r, want); err != nil || !reflect.DeepEqual(a, b) {
						t.Errorf("seed %d, request %d: %v\ngot  %+v\nwant %+v", seed, i, err, a, b)
					}
					mu.Lock()
					defer mu.Unlock()
					for _, l := range attempts {
						if l.End == "withdrawn" {
							back++
						}
					}
				})
				time.Sleep(time.Duration(rng.IntN(20)) * time.Millisecond)
			}
			wg.Wait()
			stop()
			storm.Wait()
			for _, s := range f.Standings() {
				if s.Answering != 0 {
					t.Errorf("left behind: %+v", s)
				}
			}
			if len(f.withdrawn.dispatches) != 0 {
				t.Errorf("%d dispatches stay", len(f.withdrawn.dispatches))
			}
		})
	}
	if back < 10 {
		t.Errorf("%d requests were withdrawn: this tests too little", back)
	}
}
