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
	watch  *Watch
	n      int
	held   map[parley.BlockHash]bool
	system func(n int) string // nil for none
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
		s := ServedPrompt{Tenant: "acme", Family: "support", Tokens: tokens, CachedTokens: cached}
		if a.system != nil {
			s.System = a.system(a.n)
		}
		if f := a.watch.See(s); f != nil {
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
		w.See(ServedPrompt{Tenant: fmt.Sprint(i), Tokens: tokens})
		w.See(ServedPrompt{Tenant: "short", Tokens: tokens[:3]})
	}
	if len(w.families) != 10 || w.recent.Len() != 10 {
		t.Errorf("%d families, %d in order", len(w.families), w.recent.Len())
	}
	for e := w.recent.Front(); e != nil; e = e.Next() {
		if f := e.Value.(*family); len(f.usual) != 96 {
			t.Errorf("%d tokens are remembered", len(f.usual))
		}
	}
	for i := range 1000 {
		w.See(ServedPrompt{Tenant: "one", System: fmt.Sprint("a", i, " b", i, " c", i), Tokens: tokens})
	}
	if n := len(w.families[familyKey{"one", ""}]); n != wordingsMax {
		t.Errorf("%d applications with one key", n)
	}
	for i := range 1000 {
		w.See(ServedPrompt{Tenant: "one", Family: fmt.Sprint(i), Tokens: tokens})
	}
	if w.recent.Len() != 10 || w.recent.Back().Value.(*family).key.tenant == "one" {
		t.Errorf("one tenant evicts the families of others")
	}
}

// TestWatchTellsApplicationsApart has two applications of one tenant that differ in their system prompts alone. One
// puts the time into it: only that one is found, and the other's prompts do not hide it.
func TestWatchTellsApplicationsApart(t *testing.T) {
	support, search := newWatched(), newWatched()
	search.watch, search.held = support.watch, support.held
	text := "You answer questions about orders of a shop. Be brief, polite and exact. Now is %d:%d."
	support.system = func(n int) string { return fmt.Sprintf(text, n%24, n%60) }
	search.system = func(int) string { return "Rank these pages by how well they answer the query that follows." }
	other := func(system []parley.Token, _ int) []parley.Token {
		for i := range system {
			system[i] += 5000
		}
		return system
	}
	for i := range 200 {
		if f := search.ask(1, other); len(f) > 0 {
			t.Fatalf("the other application: %v", f)
		}
		edit := timestamp
		if i < 100 {
			edit = nil
		}
		if f := support.ask(1, edit); len(f) == 1 {
			if !strings.HasPrefix(f[0].System, "You answer questions") || f[0].Block != 3 || i < 100 {
				t.Errorf("prompt %d: %+v", i, f[0])
			}
			return
		}
	}
	t.Error("nothing was found")
}

// TestWatchKeepsApplicationsApartFromMany has an application whose prompts stay as they are, and a program of the same
// tenant with another system prompt for each request: there is nothing to find, whichever came first.
func TestWatchKeepsApplicationsApartFromMany(t *testing.T) {
	for _, first := range []int{0, 40} {
		steady, varied := newWatched(), newWatched()
		varied.watch, varied.held = steady.watch, steady.held
		steady.system = func(int) string { return "You answer questions about orders of a shop." }
		varied.system = func(n int) string { return fmt.Sprintf("a%d b%d c%d d%d e%d f%d", n, n, n, n, n, n) }
		other := func(system []parley.Token, n int) []parley.Token {
			for i := range system {
				system[i] += parley.Token(10_000 * n)
			}
			return system
		}
		varied.ask(first, other)
		for i := range 400 {
			if f := append(steady.ask(1, nil), varied.ask(3, other)...); len(f) > 0 {
				t.Fatalf("prompt %d after %d others: %v", i, first, f)
			}
		}
		if f := steady.ask(100, timestamp); len(f) != 1 || !strings.HasPrefix(f[0].System, "You answer questions") {
			t.Errorf("after %d others the time in the prompt gives %v", first, f)
		}
	}
}
