package engine

import (
	"testing"
	"testing/synctest"
	"time"

	"parley"
	"parley/engine/sched"
)

// TestProgress lets one request wait for another, and then read a prompt that
// takes several passes.
func TestProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newCounter(t, &counter{delay: 100 * time.Millisecond},
			sched.Config{Blocks: 40, StepTokens: 24, StepOutputs: 4, Seqs: 1})
		first := make(chan error, 1)
		go func() {
			_, _, err := collect(t.Context(), e,
				&parley.Request{Prompt: make([]parley.Token, 5), MaxTokens: 20, Stop: parley.Stop{IgnoreEnd: true}})
			first <- err
		}()
		synctest.Wait()
		prompt := make([]parley.Token, 100)
		for i := range prompt {
			prompt[i] = parley.Token(i % 7)
		}
		var waited, read []parley.Progress
		tokens := 0
		for d, err := range e.Generate(t.Context(),
			&parley.Request{Prompt: prompt, MaxTokens: 2, Progress: true, Stop: parley.Stop{IgnoreEnd: true}}) {
			if err != nil {
				t.Fatal(err)
			}
			tokens += len(d.Tokens)
			switch p := d.Progress; {
			case p == nil:
			case tokens > 0 || len(d.Tokens) > 0 || p.PromptTokens != 100:
				t.Errorf("after %d tokens: %+v", tokens, *p)
			case p.Waiting:
				waited = append(waited, *p)
			default:
				read = append(read, *p)
			}
		}
		if err := <-first; err != nil {
			t.Fatal(err)
		}
		if len(waited) < 4 || len(waited) > 8 || waited[0].Ahead != 0 {
			t.Errorf("waited %+v", waited)
		}
		if len(read) != 5 {
			t.Fatalf("read %+v", read)
		}
		for i, p := range read {
			if p.DoneTokens != min(24*(i+1), 100) || p.CachedTokens != 0 ||
				p.Spent != time.Duration(i+1)*100*time.Millisecond {
				t.Errorf("pass %d: %+v", i, p)
			}
		}
		if tokens != 2 {
			t.Errorf("%d tokens", tokens)
		}
	})
}

func TestNoProgressUnasked(t *testing.T) {
	e := newCounter(t, &counter{}, small)
	for d, err := range e.Generate(t.Context(), &parley.Request{Prompt: make([]parley.Token, 100), MaxTokens: 2}) {
		if err != nil || d.Progress != nil {
			t.Errorf("%+v, %v", d, err)
		}
	}
}
