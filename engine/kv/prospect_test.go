package kv

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"parley"
)

// prospects is a cache of blocks of one token, whose sequences are texts.
type prospects struct {
	*testing.T
	c   *Cache
	now time.Time
}

// run computes a text, leaves it running, and returns its table.
func (p *prospects) run(text string) *Table {
	p.Helper()
	tokens := make([]parley.Token, len(text))
	for i := range tokens {
		tokens[i] = parley.Token(text[i])
	}
	names := parley.AppendBlockHashes(nil, parley.BlockHash{}, parley.Salt{}, tokens, 1)
	q := &Table{}
	if _, ok := p.c.Admit(q, &Claim{Prompt: tokens, Hashes: names}, len(tokens), p.now); !ok {
		p.Fatalf("no room for %s", text)
	}
	for at := q.Sealed(); at < len(tokens); at++ {
		if err := p.c.Seal(q, names[at], tokens[at:at+1]); err != nil {
			p.Fatal(err)
		}
	}
	return q
}

// use computes a text and lets go of it.
func (p *prospects) use(text string) {
	p.Helper()
	p.c.Release(p.run(text), p.now)
}

// named returns the names of the prefixes of texts.
func named(texts ...string) map[parley.BlockHash]string {
	all := map[parley.BlockHash]string{}
	for _, text := range texts {
		parent := parley.BlockHash{}
		for i := range text {
			parent = parley.HashBlock(parent, parley.Salt{}, []parley.Token{parley.Token(text[i])})
			all[parent] = text[:i+1]
		}
	}
	return all
}

// TestProspects has blocks of several sequences listed: each after those before it, the
// likelier one with the greater chance, none that is known, and the same ones however few are
// looked at in a call.
func TestProspects(t *testing.T) {
	c, err := NewCache(Config{Blocks: 64, HostBlocks: 8, BlockTokens: 1})
	if err != nil {
		t.Fatal(err)
	}
	p := &prospects{t, c, time.Unix(100, 0)}
	running := p.run("running")
	for range 20 { // what is common is used again and again
		p.now = p.now.Add(2 * time.Second)
		p.use("common" + string(rune('a'+p.now.Second()%26)))
	}
	p.use("once")
	texts := named("running", "once", "commona", "commonb", "commonc")
	maps.Copy(texts, named("common"))
	for i := range 26 {
		maps.Copy(texts, named("common"+string(rune('a'+i))))
	}
	known := func(h *parley.BlockHash) bool { return texts[*h] == "on" || texts[*h] == "o" }
	var want []string
	for _, each := range []int{1, 7, 1000} {
		t.Run(fmt.Sprint(each), func(t *testing.T) {
			var list []Prospect
			seen := map[string]float64{}
			for next := int32(0); ; {
				list, next = c.Prospects(list[:0], next, each, 0.001, known)
				for _, q := range list {
					s := texts[q.Name]
					if s == "" || s == "o" || s == "on" || s[0] == 'r' {
						t.Errorf("%q is listed", s)
					}
					if before := s[:len(s)-1]; before != "" && before != "on" && seen[before] == 0 {
						t.Errorf("%q is listed before %q", s, before)
					}
					seen[s] = max(seen[s], q.Chance)
				}
				if next == 0 {
					break
				}
			}
			once := seen["once"]
			if seen["common"] <= seen["onc"] || seen["commo"] < seen["common"] || once == 0 || once > 1 {
				t.Errorf("the chances are %v", seen)
			}
			var got []string
			for s := range seen {
				got = append(got, s)
			}
			slices.Sort(got)
			if want == nil {
				want = got
			}
			if !slices.Equal(got, want) {
				t.Errorf("%v, want %v", got, want)
			}
		})
	}
	c.Release(running, p.now)
	list, _ := c.Prospects(nil, 0, 1000, 0.001, known)
	if !slices.ContainsFunc(list, func(q Prospect) bool { return texts[q.Name] == "running" }) {
		t.Error("what has ended is not listed")
	}
	if list, _ = c.Prospects(nil, 0, 1000, 1.1, known); len(list) > 0 {
		t.Errorf("%d blocks have a chance above 1", len(list))
	}
}
