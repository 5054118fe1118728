package sched

import (
	"slices"
	"testing"
	"time"

	"parley"
	"parley/engine/kv"
)

// TestSequencesOfAPrefixAreNeighbours lets sequences with one of three prefixes come by turns, of which two begin
// alike, and a prompt before them. Of a pass that writes a token of each and computes a part of the prompt, those of
// one prefix are next to each other, those that begin alike, too, and the prompt is last.
func TestSequencesOfAPrefixAreNeighbours(t *testing.T) {
	const seqs, common, prefix = 12, 4 * kv.BlockTokens, 8 * kv.BlockTokens
	s := mustNew(t, Config{Blocks: 1000, StepTokens: 64, Seqs: seqs + 1, StepOutputs: seqs + 1})
	now := time.Unix(1000, 0)
	prefixes := [][]parley.Token{distinct(1, prefix), distinct(2, prefix),
		append(distinct(1, common), distinct(3, prefix-common)...)}
	add := func(tokens []parley.Token) *Seq {
		q := &Seq{Tokens: tokens, Prompt: len(tokens), Most: len(tokens) + 100}
		s.Add(q, now)
		return q
	}
	for _, p := range prefixes { // what is cached when the others come
		q := add(slices.Clone(p))
		for q.behind() > 0 {
			s.Commit(s.Next(now), time.Millisecond)
		}
		s.Remove(q, now)
	}
	number := map[*Seq]int{}
	for i := range seqs {
		number[add(append(slices.Clone(prefixes[i%3]), distinct(10+i, 20)...))] = i % 3
	}
	long := add(distinct(100, 64*100))
	for range 50 {
		plan := s.Next(now)
		plan.GroupPrefixes()
		if len(plan.Parts) == seqs+1 && s.pass.writers == seqs {
			order := make([]int, seqs)
			for i := range order {
				order[i] = number[plan.Parts[i].Seq]
			}
			order = slices.Compact(order)
			if len(order) != 3 || order[1] == 1 || plan.Parts[seqs].Seq != long {
				t.Errorf("the prefixes of neighbours are %v, and last comes %+v", order, plan.Parts[seqs])
			}
			return
		}
		s.Commit(plan, time.Millisecond)
		for _, p := range plan.Parts {
			if p.Seq.behind() == 0 {
				p.Seq.Tokens = append(p.Seq.Tokens, 7)
			}
		}
	}
	t.Errorf("no pass wrote a token of each of %d sequences", seqs)
}
