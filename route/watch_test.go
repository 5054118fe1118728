package route

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"parley"
)

// A watched is an application whose prompts are a system prompt of 640 tokens
// and a question of its user's.
type watched struct {
	watch *Watch
	n     int
	held  map[parley.BlockHash]bool
}

// ask sends prompts, each with what edit does to the system prompt, and
// returns the findings.
func (a *watched) ask(times int, edit func(system []parley.Token, n int) []parley.Token) (findings []*Finding) {
	for range times {
		a.n++
		var tokens []parley.Token
		for i := range 640 {
			tokens = append(tokens, parley.Token(1000+i))
		}
		if edit != nil {
			tokens = edit(tokens, a.n)
		}
		for i := range 160 {
			tokens = append(tokens, parley.Token(100_000+a.n*200+i))
		}
		cached := 0
		for i, name := range parley.AppendBlockHashes(nil, parley.BlockHash{}, parley.Salt{}, tokens, 16) {
			if a.held[name] && cached == 16*i {
				cached += 16
			}
			a.held[name] = true
		}
		if f := a.watch.See(Sighting{Tenant: "acme", Family: "support", Tokens: tokens,
			CachedTokens: cached}); f != nil {
			findings = append(findings, f)
		}
	}
	return findings
}

func newWatched() *watched {
	return &watched{watch: NewWatch(WatchConfig{}), held: map[parley.BlockHash]bool{}}
}

func timestamp(system []parley.Token, n int) []parley.Token {
	system[52], system[57] = parley.Token(n), parley.Token(n*7)
	return system
}

func TestWatchFindsTheTimestamp(t *testing.T) {
	a := newWatched()
	if f := a.ask(100, nil); f != nil {
		t.Fatalf("a stable prompt gave %v", f)
	}
	f := a.ask(100, timestamp)
	if len(f) != 1 {
		t.Fatalf("%d findings", len(f))
	}
	want := "prompts of acme/support: hits fell from 75% to 35%, because block 3 changes from one to the next, " +
		"between tokens 52 and 58; they agreed for 640 tokens before"
	if got := f[0].String(); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if !slices.Equal(f[0].Was, []parley.Token{1052, 1053, 1054, 1055, 1056, 1057}) || len(f[0].Now) != 6 ||
		f[0].Now[1] != 1053 {
		t.Errorf("was %v, now %v", f[0].Was, f[0].Now)
	}
	if f := a.ask(100, nil); f != nil {
		t.Fatalf("recovery gave %v", f)
	}
	if f := a.ask(100, timestamp); len(f) != 1 {
		t.Errorf("a second collapse gave %v", f)
	}
}

// TestWatchKeepsQuiet lists what is no finding.
func TestWatchKeepsQuiet(t *testing.T) {
	edits := map[string]func(system []parley.Token, n int) []parley.Token{
		"a new version of the prompt": func(system []parley.Token, n int) []parley.Token {
			if n > 100 {
				system[3] = 7
			}
			return system
		},
		"prompts that never had anything in common": func(system []parley.Token, n int) []parley.Token {
			system[0] = parley.Token(n)
			return system
		},
		"one odd prompt in four": func(system []parley.Token, n int) []parley.Token {
			if n%4 == 0 {
				system[0] = parley.Token(n)
			}
			return system
		},
	}
	for name, edit := range edits {
		if f := newWatched().ask(400, edit); f != nil {
			t.Errorf("%s gave %v", name, f)
		}
	}
}

func TestWatchFindsWhatShifts(t *testing.T) {
	a := newWatched()
	a.ask(100, nil)
	f := a.ask(50, func(system []parley.Token, n int) []parley.Token {
		for range n%5 + 1 {
			system = slices.Insert(system, 100, parley.Token(n))
		}
		return system
	})
	if len(f) != 1 || f[0].Block != 6 || f[0].From != 100 || f[0].To != 0 ||
		!strings.Contains(f[0].String(), "from token 100 on") {
		t.Errorf("got %v", f)
	}
}

// TestWatchLearnsAgain: after a collapse that stays, the new ways are usual.
func TestWatchLearnsAgain(t *testing.T) {
	a := newWatched()
	a.ask(100, nil)
	if f := a.ask(300, timestamp); len(f) != 1 {
		t.Fatalf("%v", f)
	}
	later := func(system []parley.Token, n int) []parley.Token {
		system[20] = 9
		return system
	}
	a.ask(200, later)
	f := a.ask(100, func(system []parley.Token, n int) []parley.Token { return timestamp(later(system, n), n) })
	if len(f) != 1 || f[0].Block != 3 {
		t.Errorf("got %v", f)
	}
}

func TestWatchIsBounded(t *testing.T) {
	w := NewWatch(WatchConfig{Families: 10, PrefixTokens: 100})
	tokens := make([]parley.Token, 5000)
	for i := range 1000 {
		w.See(Sighting{Tenant: fmt.Sprint(i), Tokens: tokens})
		w.See(Sighting{Tenant: "short", Tokens: tokens[:3]})
	}
	if len(w.families) != 10 || w.recent.Len() != 10 {
		t.Errorf("%d families, %d in order", len(w.families), w.recent.Len())
	}
	for _, e := range w.families {
		if f := e.Value.(*family); len(f.usual) != 96 {
			t.Errorf("%d tokens are remembered", len(f.usual))
		}
	}
}
