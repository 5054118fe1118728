package kv

import (
	"iter"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"parley"
)

func TestConfigIsChecked(t *testing.T) {
	bad := Config{Blocks: 0, HostBlocks: -1, DiskBlocks: -1, BlockTokens: -1, Policy: 9, WatermarkBlocks: 5,
		TenantShare: 2, ClassShare: -1, RetainShare: 3, RetainMax: -1, Ghosts: -1, Events: -1}
	_, err := NewCache(bad)
	if err == nil {
		t.Fatal("a config of nonsense was accepted")
	}
	for _, word := range []string{"0 blocks", "host", "disk", "tokens", "policy", "watermark", "organisation", "class",
		"retain share", "retention", "ghosts", "events"} {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("the error does not mention %q: %v", word, err)
		}
	}
	c, err := NewCache(Config{Blocks: 100})
	if err != nil {
		t.Fatal(err)
	}
	if got := c.Config(); got.BlockTokens != 16 || got.TenantShare != 0.5 || got.Ghosts != 800 ||
		got.RetainMax != time.Hour {
		t.Errorf("the defaults are %+v", got)
	}
}

// TestMisuseIsHarmless calls operations out of order: they refuse and change nothing.
func TestMisuseIsHarmless(t *testing.T) {
	c, err := NewCache(Config{Blocks: 4, BlockTokens: 2})
	if err != nil {
		t.Fatal(err)
	}
	now := time.Unix(5, 0)
	var q, other Table
	if c.Grow(&q, 2, now) || c.Fork(&q, &other, 1, now) ||
		c.Seal(&q, parley.BlockHash{}, make([]parley.Token, 2)) == nil {
		t.Error("a table that was not admitted could be used")
	}
	c.Release(&q, now)
	if _, ok := c.Admit(&q, &Claim{}, 2, now); ok {
		t.Error("an empty prompt was admitted")
	}
	claim := &Claim{Prompt: []parley.Token{1, 2, 3}, Hashes: []parley.BlockHash{{1}, {2}, {3}, {4}}}
	if _, ok := c.Admit(&q, claim, 3, now); !ok {
		t.Fatal("no room")
	}
	if _, ok := c.Admit(&q, claim, 3, now); ok || c.Fork(&q, &q, 2, now) || c.Fork(&q, &other, 5, now) {
		t.Error("a table was admitted twice, forked into itself, or beyond its end")
	}
	if c.Seal(&q, parley.BlockHash{1}, []parley.Token{1}) == nil {
		t.Error("a block was sealed with half of its tokens")
	}
	c.Release(&q, now.Add(-time.Hour))
	if err := c.Check(); err != nil || c.Use(Device).Free != 4 || c.Use(9) != (Use{}) {
		t.Errorf("%v, %+v", err, c.Use(Device))
	}
}

// TestHalfEqualNames seals two blocks whose names agree in the half that is
// indexed. The second must stay private, not be taken for the first.
func TestHalfEqualNames(t *testing.T) {
	c, err := NewCache(Config{Blocks: 4, BlockTokens: 1})
	if err != nil {
		t.Fatal(err)
	}
	first, second := parley.BlockHash{1, 31: 1}, parley.BlockHash{1, 31: 2}
	var a, b Table
	for q, h := range map[*Table]parley.BlockHash{&a: first, &b: second} {
		if _, ok := c.Admit(q, &Claim{Prompt: []parley.Token{7, 8}, Hashes: []parley.BlockHash{h}}, 2,
			time.Time{}); !ok {
			t.Fatal("no room")
		}
	}
	for q, h := range map[*Table]parley.BlockHash{&a: first, &b: second} {
		if err := c.Seal(q, h, []parley.Token{7}); err != nil {
			t.Fatal(err)
		}
	}
	if a.Sealed()+b.Sealed() != 1 || a.Blocks[0] == b.Blocks[0] {
		t.Errorf("%d and %d blocks are sealed, in %v and %v", a.Sealed(), b.Sealed(), a.Blocks, b.Blocks)
	}
	c.Release(&a, time.Time{})
	c.Release(&b, time.Time{})
	if err := c.Check(); err != nil || c.Use(Device).Cached != 1 {
		t.Errorf("%v, %+v", err, c.Use(Device))
	}
}

func TestIndexAgainstMap(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	const most = 60
	x, model := newIndex(most, 9), map[uint64]int32{}
	for range 100_000 {
		key := rng.Uint64N(100) << 40
		switch {
		case model[key] != 0 && rng.IntN(2) == 0:
			x.remove(key)
			delete(model, key)
		case model[key] == 0 && len(model) < most:
			model[key] = rng.Int32N(1000) + 1
			x.put(key, model[key])
		}
		if got := x.find(key); got != model[key] || x.n != len(model) {
			t.Fatalf("key %d gives %d of %d, want %d of %d", key, got, x.n, model[key], len(model))
		}
	}
	x.add(1, 2)
	x.add(1, -1)
	if x.find(1) != 1 {
		t.Errorf("a count of 2-1 is %d", x.find(1))
	}
	if x.add(1, -1); x.find(1) != 0 || x.n != len(model) {
		t.Errorf("a count of 0 is still there")
	}
}

// TestWithoutTokens gives two caches the same random prompts. The one that keeps no tokens
// decides the same, and its events differ in their tokens alone.
func TestWithoutTokens(t *testing.T) {
	var with, without *Cache
	for _, c := range []struct {
		made     **Cache
		noTokens bool
	}{{&with, false}, {&without, true}} {
		made, err := NewCache(Config{
			Blocks:      24,
			HostBlocks:  8,
			BlockTokens: 2,
			Ghosts:      32,
			Events:      1 << 16,
			NoTokens:    c.noTokens,
		})
		if err != nil {
			t.Fatal(err)
		}
		*c.made = made
	}
	rng, now := rand.New(rand.NewPCG(5, 6)), time.Unix(9, 0)
	hits := 0
	for range 3000 {
		now = now.Add(time.Duration(rng.IntN(1000)) * time.Millisecond)
		tokens := make([]parley.Token, 2+rng.IntN(12))
		for i := range tokens {
			tokens[i] = parley.Token(rng.IntN(2))
		}
		names := parley.AppendBlockHashes(nil, parley.BlockHash{}, parley.Salt{byte(rng.IntN(2))}, tokens, 2)
		var got [2]Admission
		for i, c := range []*Cache{with, without} {
			var q Table
			got[i], _ = c.Admit(&q, &Claim{Prompt: tokens, Hashes: names}, len(tokens), now)
			c.Approach(&q, names)
			for at := q.Sealed(); at < len(names); at++ {
				if err := c.Seal(&q, names[at], tokens[2*at:2*at+2]); err != nil {
					t.Fatal(err)
				}
			}
			c.Release(&q, now)
			if err := c.Check(); err != nil {
				t.Fatal(err)
			}
		}
		if got[0].Miss == MissOtherSalt && (got[1].Miss == MissNew || got[1].Miss == MissDiverged) {
			got[1].Miss = MissOtherSalt
		}
		if got[0] != got[1] {
			t.Fatalf("%+v with tokens, %+v without", got[0], got[1])
		}
		hits += got[0].HitTokens
	}
	events, ok1 := with.EventsSince(0)
	others, ok2 := without.EventsSince(0)
	if !ok1 || !ok2 || hits == 0 || with.Stats().Evicted[Device] == 0 {
		t.Fatalf("%v, %v: %d hits, %+v", ok1, ok2, hits, with.Stats())
	}
	next, stop := iter.Pull(others)
	defer stop()
	for e := range events {
		if (e.Kind == Stored) != (len(e.Tokens) == 2) {
			t.Fatalf("%+v has %d tokens", e, len(e.Tokens))
		}
		e.Tokens = nil
		if o, ok := next(); !ok || !reflect.DeepEqual(e, o) {
			t.Fatalf("%+v with tokens, %+v without", e, o)
		}
	}
}
