package spec

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"parley"
)

func TestLookupGoesOnAsBefore(t *testing.T) {
	l := NewLookup([]parley.Token{1, 2, 3, 4, 5, 6, 9, 1, 2, 3})
	if got := l.Guess(nil, 4); !slices.Equal(got, []parley.Token{4, 5, 6, 9}) {
		t.Errorf("guess %v", got)
	}
	l.Push(7) // not what was guessed
	if got := l.Guess(nil, 4); len(got) != 0 {
		t.Errorf("nothing like 2 3 7 came before, but the guess is %v", got)
	}
	for _, tok := range []parley.Token{1, 2, 3} {
		l.Push(tok)
	}
	if got := l.Guess(nil, 2); !slices.Equal(got, []parley.Token{7, 1}) {
		t.Errorf("the latest place counts: guess %v", got)
	}
}

func TestLookupNeedsAFewTokens(t *testing.T) {
	for _, prompt := range [][]parley.Token{nil, {1}, {1, 1}, {1, 1, 1}} {
		if got := NewLookup(prompt).Guess(nil, 5); len(got) != 0 {
			t.Errorf("%v: guess %v", prompt, got)
		}
	}
	if got := NewLookup([]parley.Token{1, 1, 1, 1}).Guess(nil, 5); !slices.Equal(got, []parley.Token{1}) {
		t.Errorf("guess %v", got)
	}
}

func TestLookupLearnsAcceptance(t *testing.T) {
	prompt := []parley.Token{1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3}
	l := NewLookup(prompt)
	if o := l.Offer(4); o.Most != 4 || o.Chance != firstChance {
		t.Errorf("before any answer: %+v", o)
	}
	for _, tok := range []parley.Token{4, 5, 6, 7} {
		l.Push(tok)
	}
	good := l.Offer(9)
	if good.Most != 9 || good.Chance <= firstChance {
		t.Errorf("after a copy: %+v", good)
	}
	l.Push(42)
	if o := l.Offer(9); o.Most != 0 {
		t.Errorf("nothing like 6 7 42 came before: %+v", o)
	}
	for _, tok := range []parley.Token{1, 2, 3} {
		l.Push(tok)
	}
	if o := l.Offer(9); o.Most == 0 || o.Chance >= good.Chance {
		t.Errorf("after a wrong guess that nobody checked: %+v, before %+v", o, good)
	}
}

func TestAcceptanceFollowsTheTruth(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for _, truth := range []float64{0, 0.3, 0.9, 1} {
		all := Acceptance{Memory: 400}
		for range 2000 {
			guessed, right := 1+rng.IntN(6), 0
			for right < guessed && rng.Float64() < truth {
				right++
			}
			all.Learn(guessed, right)
		}
		fresh := all.Fresh()
		if math.Abs(all.Chance()-truth) > 0.1 || fresh.Chance() != all.Chance() {
			t.Errorf("the chance is %v, found %v, for a new sequence %v", truth, all.Chance(), fresh.Chance())
		}
		for range 40 { // another kind of text
			fresh.Learn(1, int(math.Round(1-truth)))
		}
		if math.Abs(fresh.Chance()-math.Round(1-truth)) > 0.1 {
			t.Errorf("from %v to %v, but after 40 guesses it is %v", truth, math.Round(1-truth), fresh.Chance())
		}
	}
}
