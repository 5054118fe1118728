package fleet

import (
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"parley"
)

// TestPromptsAreScoredOnce moves an answer that was asked for the log-probabilities
// of its prompt: who goes on is not asked for them again. A prompt of one token has
// none, which is not the same as not having been told.
func TestPromptsAreScoredOnce(t *testing.T) {
	for _, prompt := range [][]parley.Token{{1}, {1, 2, 3, 4}} {
		synctest.Test(t, func(t *testing.T) {
			f, w := two(t, Config{})
			for _, x := range w {
				x.set(nil, 30)
			}
			r := ask(100)
			r.Prompt, r.PromptLogprobs = prompt, true
			want, err := hear(t.Context(), newOracle(t, 0), r)
			if err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			got, err := hear(t.Context(), f, r)
			if err != nil || !reflect.DeepEqual(gather(r, got), gather(r, want)) {
				t.Fatalf("%d tokens, after %v: %v, got %v, want %v", len(prompt), time.Since(began), err,
					gather(r, got), gather(r, want))
			}
			if u := got[len(got)-1].Usage; u.Routing.Moves < 3 {
				t.Errorf("it moved %d times", u.Routing.Moves)
			}
		})
	}
}
