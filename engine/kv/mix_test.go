package kv

import (
	"bytes"
	"encoding/csv"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"parley/internal/testkit"
)

// A mix makes up a trace, one request a second.
type mix struct {
	rng  *rand.Rand
	next int32
	uses []use
}

// text returns n new blocks.
func (m *mix) text(n int) (ids []int32) {
	for range n {
		ids = append(ids, m.next)
		m.next++
	}
	return ids
}

func (m *mix) ask(parts ...[]int32) {
	u := use{at: time.Duration(len(m.uses)) * time.Second}
	for _, p := range parts {
		u.ids = append(u.ids, p...)
	}
	m.uses = append(m.uses, u)
}

// TestMixes holds the default policy against LRU on loads with other patterns
// than the recorded ones. The pool has 1,000 blocks.
func TestMixes(t *testing.T) {
	for _, row := range []struct {
		name string
		make func(m *mix)
		// least is the hit ratio wanted as a multiple of LRU's, and in itself.
		timesLRU, least float64
	}{
		{"system prompts by Zipf's law, each question new", systemPrompts, 1, 0.4},
		{"a hot set with scans between", scans, 1.02, 0.4},
		{"a loop half as large again as the pool", func(m *mix) { loop(m, 6000) }, 1, 0.3},
		{"chats that go on for a while", chats, 0.98, 0.5},
		{"a loop, then chats", func(m *mix) { loop(m, 3000); chats(m) }, 1, 0.3},
		{"nothing ever again", func(m *mix) { unique(m, 3000) }, 1, 0},
	} {
		m := &mix{rng: rand.New(rand.NewPCG(5, 5))}
		row.make(m)
		lru, asked := replay(t, m.uses, 1000*traceTokens, LRU)
		learned, _ := replay(t, m.uses, 1000*traceTokens, Learned)
		t.Logf("%-50s LRU %s, default %s", row.name, ratio(lru, asked), ratio(learned, asked))
		if float64(learned) < row.timesLRU*float64(lru) || float64(learned) < row.least*float64(asked) {
			t.Errorf("%s: the default policy found %s of the blocks, LRU %s", row.name, ratio(learned, asked),
				ratio(lru, asked))
		}
	}
}

func systemPrompts(m *mix) {
	prompts := make([][]int32, 400)
	for i := range prompts {
		prompts[i] = m.text(4 + m.rng.IntN(12))
	}
	zipf := rand.NewZipf(m.rng, 1.1, 4, uint64(len(prompts)-1))
	for range 8000 {
		m.ask(prompts[zipf.Uint64()], m.text(5))
	}
}

func scans(m *mix) {
	hot := make([][]int32, 40)
	for i := range hot {
		hot[i] = m.text(20)
	}
	for i := range 8000 {
		if i%200 < 100 {
			m.ask(hot[m.rng.IntN(len(hot))])
		} else {
			m.ask(m.text(15))
		}
	}
}

func loop(m *mix, rounds int) {
	texts := make([][]int32, 100)
	for i := range texts {
		texts[i] = m.text(15)
	}
	for i := range rounds {
		m.ask(texts[i%len(texts)])
	}
}

// chats keeps thirty conversations going; each turn adds to one of them, and
// one in eight is its last.
func chats(m *mix) {
	open := make([][]int32, 30)
	for range 8000 {
		i := m.rng.IntN(len(open))
		open[i] = append(open[i], m.text(3)...)
		m.ask(open[i])
		if m.rng.IntN(8) == 0 {
			open[i] = nil
		}
	}
}

func unique(m *mix, n int) {
	for range n {
		m.ask(m.text(10))
	}
}

// TestOneTenantCannotPushOutTheRest lets one tenant send fifty times the
// traffic of another that asks the same again and again.
func TestOneTenantCannotPushOutTheRest(t *testing.T) {
	for _, share := range []float64{0.5, 1} {
		c, err := NewCache(Config{Blocks: 1000, BlockTokens: traceTokens, Policy: LRU, TenantShare: share})
		if err != nil {
			t.Fatal(err)
		}
		m := &mix{rng: rand.New(rand.NewPCG(5, 5))}
		quiet := m.text(200)
		now, hits, asks := time.Unix(0, 0), 0, 0
		for i := range 3000 {
			now = now.Add(time.Second)
			if i%50 == 0 {
				hits += passThrough(t, c, quiet, "quiet", now)
				asks++
			} else {
				passThrough(t, c, m.text(30), "loud", now)
			}
		}
		t.Logf("share %.1f: the quiet tenant found %d of %d blocks; the loud one keeps %d", share, hits, asks*200,
			c.accounts.tenants.accounts[c.accounts.tenants.byName["loud"]].cached)
		if kept := hits > (asks-2)*200; kept != (share < 1) {
			t.Errorf("with a share of %.1f the quiet tenant found %d of %d blocks", share, hits, asks*200)
		}
	}
}

// passThrough sends one prompt through the cache and returns the blocks found.
func passThrough(t *testing.T, c *Cache, ids []int32, tenant string, now time.Time) int {
	t.Helper()
	var table Table
	claim := &Claim{PromptTokens: len(ids)*traceTokens + 1, Tenant: tenant}
	for _, id := range ids {
		claim.Hashes = append(claim.Hashes, hashOf(id))
	}
	a, ok := c.Admit(&table, claim, len(ids)*traceTokens, now)
	if !ok {
		t.Fatal("an idle cache refused a claim")
	}
	for i := table.Sealed(); i < len(ids); i++ {
		if err := c.Seal(&table, claim.Hashes[i], nil); err != nil {
			t.Fatal(err)
		}
	}
	c.Release(&table, now)
	return a.HitTokens / traceTokens
}

// TestWaste measures the slots that are taken and not used when requests of
// recorded lengths end: with blocks of 16 tokens, and with room reserved for
// the longest context.
func TestWaste(t *testing.T) {
	c, err := NewCache(Config{Blocks: 2000})
	if err != nil {
		t.Fatal(err)
	}
	var table Table
	var used, requests int
	reserved := map[int]int{4096: 0, 16384: 0}
	header := true
	readLines(t, testkit.SharedData(t, "traces", "AzureLLMInferenceTrace_conv.csv.gz"), func(line []byte) {
		if header {
			header = false
			return
		}
		row, err := csv.NewReader(bytes.NewReader(line)).Read()
		if err != nil {
			t.Fatal(err)
		}
		prompt, _ := strconv.Atoi(row[1])
		answer, _ := strconv.Atoi(row[2])
		if _, ok := c.Admit(&table, &Claim{PromptTokens: prompt}, prompt, time.Unix(0, 0)); !ok {
			t.Fatalf("no room for %d tokens", prompt)
		}
		for n := prompt + 1; n <= prompt+answer; n++ {
			if !c.Grow(&table, n, time.Unix(0, 0)) {
				t.Fatalf("no room for %d tokens", n)
			}
		}
		c.Release(&table, time.Unix(0, 0))
		used += prompt + answer
		requests++
		for most := range reserved {
			reserved[most] += max(most, prompt+answer)
		}
	})
	s := c.Stats()
	waste := 1 - float64(s.ReleasedTokens)/float64(s.ReleasedSlots)
	t.Logf("%d requests of %d tokens in all: %.2f %% of the slots wasted", requests, used, 100*waste)
	for most, slots := range reserved {
		t.Logf("reserving %d tokens for each would waste %.1f %%", most, 100*(1-float64(used)/float64(slots)))
	}
	if s.ReleasedTokens != uint64(used) || requests < 19_000 || waste > 0.01 {
		t.Errorf("%d requests used %d tokens, counted %d in %d slots: waste %.4f, want under 0.01", requests, used,
			s.ReleasedTokens, s.ReleasedSlots, waste)
	}
}
