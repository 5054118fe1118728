package sched

import (
	"testing"
	"time"

	"parley"
)

func TestAhead(t *testing.T) {
	s, err := New(Config{Blocks: 8, StepTokens: 8, StepOutputs: 1, Seqs: 1})
	if err != nil {
		t.Fatal(err)
	}
	seqs := make([]*Seq, 5)
	for i, class := range []parley.Class{parley.Free, parley.Free, parley.Pro, parley.Free, parley.Pro} {
		seqs[i] = &Seq{Tokens: make([]parley.Token, 4), Prompt: 4, Most: 8, Class: class, Background: i == 3}
		s.Add(seqs[i], time.Unix(int64(i), 0))
	}
	for i, want := range []int{2, 3, 0, 4, 1} {
		if got, waits := s.Ahead(seqs[i]); got != want || !waits {
			t.Errorf("sequence %d has %d ahead, waits %v; want %d", i, got, waits, want)
		}
	}
	if _, waits := s.Ahead(&Seq{}); waits {
		t.Error("a stranger waits")
	}
}
