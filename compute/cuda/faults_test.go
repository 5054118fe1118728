package cuda

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"
	"unsafe"

	"parley"
	"parley/compute"
	"parley/compute/libcuda"
	"parley/engine"
	"parley/engine/sched"
	"parley/internal/ptx"
	"parley/internal/testkit"
	"parley/model"
	"parley/model/weights"
)

// A faulty driver fails for good at a call, as a device does that was lost or
// that met an illegal address. It is an interpreter until then.
type faulty struct {
	*interpreter
	calls, at int
	err       error
}

func (d *faulty) check() error {
	if d.calls++; d.at > 0 && d.calls >= d.at {
		return d.err
	}
	return nil
}

func (d *faulty) Upload(to libcuda.Address, from []byte) error {
	return first(d.check(), d.interpreter.Upload(to, from))
}

func (d *faulty) Download(to []byte, from libcuda.Address) error {
	return first(d.check(), d.interpreter.Download(to, from))
}

func (d *faulty) Launch(f libcuda.Function, grid [2]int, k *libcuda.Kernel, args unsafe.Pointer, size int) error {
	return first(d.check(), d.interpreter.Launch(f, grid, k, args, size))
}

func (d *faulty) Replay(g libcuda.Graph) error { return first(d.check(), d.interpreter.Replay(g)) }
func (d *faulty) BeginCapture() error          { return first(d.check(), d.interpreter.BeginCapture()) }
func (d *faulty) Mark(number int) error        { return first(d.check(), d.interpreter.Mark(number)) }
func (d *faulty) Await(number int) error       { return first(d.check(), d.interpreter.Await(number)) }
func (d *faulty) Synchronize() error           { return first(d.check(), d.interpreter.Synchronize()) }
func (d *faulty) Release(at libcuda.Address) error {
	return first(d.check(), d.interpreter.Release(at))
}
func (d *faulty) ReleasePinned(m []byte) error {
	return first(d.check(), d.interpreter.ReleasePinned(m))
}

func (d *faulty) Close() error { return nil } // what a failed device held is lost

// startFaulty puts an engine on a backend whose device has not failed yet.
func startFaulty(t *testing.T, d *faulty) (*CUDA, *engine.Engine) {
	t.Helper()
	ck, err := weights.Open(testkit.Golden("tiny-qwen3"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ck.Close() })
	c, err := open(d)
	if err != nil {
		t.Fatal(err)
	}
	m, err := model.Load(ck, c, model.Limits{Rows: 64, Outputs: 8, Blocks: 32, KV: compute.KVBF16})
	if err != nil {
		t.Fatal(err)
	}
	e, err := engine.New(engine.Config{
		Model:   parley.Model{ID: "tiny", ContextTokens: 128},
		Vocab:   m.Vocab(),
		Bytes:   func(parley.Token) []byte { return []byte("x") },
		Forward: m.Forward,
		Ahead:   &engine.Ahead{Launch: m.Launch, Wait: m.AwaitChosen},
		Sched:   sched.Config{Blocks: 32, StepTokens: 64, StepOutputs: 8, Seqs: 8},
	})
	if err != nil {
		t.Fatal(err)
	}
	return c, e
}

// answers asks three requests at once and returns their errors: two whose tokens the
// device chooses, and one with log-probabilities, for which the host does.
func answers(ctx context.Context, e *engine.Engine) (errs [3]error) {
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() {
			r := &parley.Request{
				Prompt:    []parley.Token{parley.Token(3 + i), 5},
				MaxTokens: 2 + i%2,
				Logprobs:  i == 2,
				Stop:      parley.Stop{IgnoreEnd: true},
			}
			for _, err := range e.Generate(ctx, r) {
				errs[i] = err
			}
		})
	}
	wg.Wait()
	return errs
}

// TestADeviceErrorAtAnyCall lets the device fail at calls all over a run: the requests
// of the step fail with its error, the backend says so, later requests fail at once,
// and nothing hangs.
func TestADeviceErrorAtAnyCall(t *testing.T) {
	if onDevice {
		t.Skip("a device that works does not fail")
	}
	lost := errors.New("an illegal memory access was encountered")
	calm := &faulty{interpreter: newInterpreter(ptx.Options{})}
	c, e := startFaulty(t, calm)
	loaded := calm.calls
	if errs := answers(t.Context(), e); errors.Join(errs[:]...) != nil || calm.calls == loaded {
		t.Fatalf("without a failure: %v", errs)
	}
	whole := calm.calls - loaded
	if err := errors.Join(e.Close(), c.Close()); err != nil {
		t.Fatal(err)
	}
	rng, failed := rand.New(rand.NewPCG(1, 1)), 0
	const runs = 4 // the interpreter takes its time
	for range runs {
		d := &faulty{interpreter: newInterpreter(ptx.Options{}), err: lost}
		c, e := startFaulty(t, d)
		d.at = loaded + 1 + rng.IntN(whole)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		for _, err := range answers(ctx, e) {
			if err != nil && !strings.Contains(err.Error(), lost.Error()) {
				t.Errorf("call %d of %d: a request failed with %v", d.at-loaded, whole, err)
			}
			if err != nil {
				failed++
			}
		}
		if d.calls >= d.at { // a failure while idle shows with the next request
			for _, err := range answers(ctx, e) {
				if err == nil || !strings.Contains(err.Error(), lost.Error()) {
					t.Errorf("call %d of %d: after the failure a request ended with %v", d.at-loaded, whole, err)
				}
			}
			if err := c.Err(); !errors.Is(err, lost) {
				t.Errorf("call %d of %d: the backend says %v", d.at-loaded, whole, err)
			}
		}
		cancel()
		failedBefore := c.Err() != nil // otherwise it fails now, which is to be told
		if err := errors.Join(e.Close(), c.Close()); err != nil && failedBefore {
			t.Errorf("call %d of %d: closing: %v", d.at-loaded, whole, err)
		}
	}
	if failed < runs {
		t.Errorf("%d requests failed", failed)
	}
}

// A scarce driver has memory for so many pieces.
type scarce struct {
	*interpreter
	left int
}

func (d *scarce) Allocate(bytes int64) (libcuda.Address, error) {
	if d.left--; d.left < 0 {
		return 0, errors.New("out of memory")
	}
	return d.interpreter.Allocate(bytes)
}

// TestNoMemoryIsAnError loads a model on devices whose memory ends at each piece.
func TestNoMemoryIsAnError(t *testing.T) {
	if onDevice {
		t.Skip("the device has memory")
	}
	ck, err := weights.Open(testkit.Golden("tiny-qwen3"))
	if err != nil {
		t.Fatal(err)
	}
	defer ck.Close()
	loaded := false
	for pieces := 0; !loaded; pieces += 1 + pieces/4 {
		c, err := open(&scarce{newInterpreter(ptx.Options{}), pieces})
		if err == nil {
			_, err = model.Load(ck, c, model.Limits{Rows: 64, Outputs: 8, Blocks: 32, KV: compute.KVBF16})
		}
		if loaded = err == nil; !loaded && !strings.Contains(err.Error(), "out of memory") {
			t.Errorf("memory for %d pieces: %v", pieces, err)
		}
		if err := c.Close(); err != nil {
			t.Errorf("memory for %d pieces: closing: %v", pieces, err)
		}
		if pieces > 10_000 {
			t.Fatal("it never has enough")
		}
	}
}
