package worker

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"sync"
	"testing"
	"time"

	"parley"
)

// An eager uptake takes what it is asked for, but every so often not.
type eager struct {
	taken, refuse, asked int
	between              bool
}

func (e *eager) Try() bool {
	if e.asked++; e.refuse > 0 && e.asked%e.refuse == 0 {
		return false
	}
	e.taken++
	e.between = true
	return true
}

func (e *eager) Done() { e.between = false }

// A paced worker waits before each token, so that those who read it wait, too.
type paced struct{ counting }

func (w *paced) Generate(ctx context.Context, r *parley.Request) iter.Seq2[parley.Delta, error] {
	return func(yield func(parley.Delta, error) bool) {
		for d, err := range w.counting.Generate(ctx, r) {
			time.Sleep(200 * time.Microsecond)
			if !yield(d, err) {
				return
			}
		}
	}
}

// counted reads an answer whose tokens must be the numbers from 0 on.
func counted(ctx context.Context, r *Remote, tokens int) error {
	next := parley.Token(0)
	for d, err := range r.Generate(ctx, &parley.Request{Prompt: []parley.Token{1}, MaxTokens: tokens}) {
		if err != nil {
			return err
		}
		for _, got := range d.Tokens {
			if got != next {
				return fmt.Errorf("token %d came where %d was due", got, next)
			}
			next++
		}
	}
	if int(next) != tokens {
		return fmt.Errorf("%d tokens of %d came", next, tokens)
	}
	return nil
}

// TestUptakesMissNothing reads answers side by side whose deltas are taken where
// they come in, refused now and then, and acknowledged in between.
func TestUptakesMissNothing(t *testing.T) {
	w := &paced{counting{left: make(chan error, 64)}}
	r := dial(t, Config{URL: serveWire(t, w), Kind: Parley, Window: 32})
	var readers sync.WaitGroup
	takers := make([]*eager, 12)
	for i := range takers {
		takers[i] = &eager{refuse: 2 * i}
		readers.Go(func() {
			if err := counted(parley.WithUptake(t.Context(), takers[i]), r, 300); err != nil {
				t.Errorf("reader %d: %v", i, err)
			}
		})
	}
	readers.Wait()
	for i, e := range takers {
		if e.taken == 0 || e.between {
			t.Errorf("reader %d took %d deltas where they came in; one is not done: %v", i, e.taken, e.between)
		}
	}
}

// TestUptakeEnds leaves, cancels and fails an answer from within a delta that was
// taken on the goroutine of the link. The link goes on for others.
func TestUptakeEnds(t *testing.T) {
	w := &paced{counting{left: make(chan error, 64)}}
	r := dial(t, Config{URL: serveWire(t, w), Kind: Parley})
	ask := func(ctx context.Context, at func(e *eager) bool) (err error) {
		e := &eager{}
		defer func() {
			if p := recover(); p != nil {
				err = fmt.Errorf("panic: %v", p)
			}
		}()
		for _, err := range r.Generate(parley.WithUptake(ctx, e), &parley.Request{Prompt: []parley.Token{1}, MaxTokens: 1 << 20}) {
			if err != nil {
				return err
			}
			if e.between && e.taken > 3 && at(e) {
				return nil
			}
		}
		return errors.New("the answer ended")
	}
	t.Run("left", func(t *testing.T) {
		if err := ask(t.Context(), func(*eager) bool { return true }); err != nil {
			t.Error(err)
		}
	})
	t.Run("cancelled", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		err := ask(ctx, func(*eager) bool { cancel(); return false })
		if parley.CodeOf(err) != parley.Cancelled {
			t.Errorf("it ended with %v", err)
		}
	})
	t.Run("panic", func(t *testing.T) {
		err := ask(t.Context(), func(*eager) bool { panic("too much") })
		if err == nil || !strings.Contains(err.Error(), "too much") || !strings.Contains(err.Error(), "uptake_test.go") {
			t.Errorf("a panic ended with %v", err)
		}
	})
	for range 3 {
		if err := <-w.left; err == nil {
			t.Error("the worker was not told that an answer is not wanted")
		}
	}
	if err := counted(t.Context(), r, 50); err != nil {
		t.Errorf("the link after that: %v", err)
	}
}
