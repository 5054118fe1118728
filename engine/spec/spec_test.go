package spec

import (
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

// TestDepthFollowsLuckAndPrice runs sequences whose guesses are right with a
// given chance, and compares the depth with the best one.
func TestDepthFollowsLuckAndPrice(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	average := func(chance, price float64) float64 {
		var d Depth
		sum := 0
		for i := range 3000 {
			n := d.Next(price)
			right := 0
			for right < n && rng.Float64() < chance {
				right++
			}
			d.Learn(n, right)
			if i >= 1000 {
				sum += n
			}
		}
		return float64(sum) / 2000
	}
	for _, c := range []struct{ chance, price, least, most float64 }{
		{0.95, 0.05, 6, 8},
		{0.5, 0.2, 1, 4},
		{0.0, 0.2, 0, 0.1},
		{0.9, 1.2, 0, 0},
		{0.3, 0.6, 0, 0.6},
	} {
		if got := average(c.chance, c.price); got < c.least || got > c.most {
			t.Errorf("chance %v at price %v: %.2f guesses a pass, want %v to %v", c.chance, c.price, got, c.least, c.most)
		}
	}
}

func TestDepthNoticesBetterTimes(t *testing.T) {
	var d Depth
	for range 200 {
		d.Learn(d.Next(0.1), 0)
	}
	n := 0
	for range 600 {
		n = d.Next(0.1)
		d.Learn(n, n)
	}
	if n < 6 {
		t.Errorf("after hundreds of right guesses only %d are made", n)
	}
}
