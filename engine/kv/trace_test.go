package kv

import (
	"bufio"
	"cmp"
	"compress/gzip"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"slices"
	"testing"
	"time"

	"parley"
	"parley/internal/testkit"
)

// A use is one request of a trace: when it came and which blocks its prompt
// consists of. Equal ids mean equal content up to that block.
type use struct {
	at  time.Duration
	ids []int32
}

// readLines calls f with each line of a compressed file.
func readLines(t testing.TB, path string, f func(line []byte)) {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	unzipped, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(unzipped)
	lines.Buffer(nil, 1<<26)
	for lines.Scan() {
		f(lines.Bytes())
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
}

// conversations reads the Mooncake conversation trace, 512 tokens to a block.
func conversations(t testing.TB) (uses []use) {
	readLines(t, testkit.SharedData(t, "traces", "conversation_trace.jsonl.gz"), func(line []byte) {
		var r struct {
			Timestamp int64   `json:"timestamp"`
			HashIDs   []int32 `json:"hash_ids"`
		}
		if err := json.Unmarshal(line, &r); err != nil {
			t.Fatal(err)
		}
		uses = append(uses, use{time.Duration(r.Timestamp) * time.Millisecond, r.HashIDs})
	})
	return uses
}

// agentSessions reads the coding-agent sessions, spread over 4 hours. Their
// blocks of 64 tokens are taken 8 at a time, to make 512.
func agentSessions(t testing.TB) (uses []use) {
	const group, spread = 8, 4 * time.Hour
	next, session := int32(0), 0
	readLines(t, testkit.SharedData(t, "traces", "agent_sessions.jsonl.gz"), func(line []byte) {
		var s struct {
			Requests []struct {
				T float64    `json:"t"`
				H [][2]int32 `json:"h"`
			} `json:"requests"`
		}
		if err := json.Unmarshal(line, &s); err != nil {
			t.Fatal(err)
		}
		start := time.Duration(math.Mod(float64(session)*0.6180339887498949, 1) * float64(spread))
		session++
		type step struct{ parent, id int32 }
		known := map[step]int32{}
		for _, r := range s.Requests {
			u := use{at: start + time.Duration(r.T*float64(time.Second))}
			parent, block := int32(-1), 0
			for _, run := range r.H {
				for id := run[0]; id < run[0]+run[1]; id++ {
					if block++; block%group != 0 {
						continue
					}
					at := step{parent, id}
					if _, ok := known[at]; !ok {
						known[at] = next
						next++
					}
					parent = known[at]
					u.ids = append(u.ids, parent)
				}
			}
			uses = append(uses, u)
		}
	})
	slices.SortStableFunc(uses, func(a, b use) int { return cmp.Compare(a.at, b.at) })
	return uses
}

// hashOf makes a name from the id of a block in a trace.
func hashOf(id int32) (h parley.BlockHash) {
	mixed := (uint64(id) + 1) * 0x9e3779b97f4a7c15
	binary.LittleEndian.PutUint64(h[:], mixed^mixed>>29)
	binary.LittleEndian.PutUint32(h[8:], uint32(id))
	return h
}

const traceTokens = 512

// replay sends a trace through a cache of that many tokens, one request after
// the other, and returns how many blocks were found and how many were asked
// for. A prompt larger than the cache keeps its beginning.
func replay(t testing.TB, uses []use, capacityTokens int, policy Policy) (hits, asked int) {
	t.Helper()
	blocks := capacityTokens / traceTokens
	c, err := NewCache(Config{Blocks: blocks, BlockTokens: traceTokens, Policy: policy})
	if err != nil {
		t.Fatal(err)
	}
	var hashes []parley.BlockHash
	var table Table
	for i, u := range uses {
		now := time.Unix(0, 0).Add(u.at)
		asked += len(u.ids)
		ids := u.ids[:min(len(u.ids), blocks)]
		hashes = hashes[:0]
		for _, id := range ids {
			hashes = append(hashes, hashOf(id))
		}
		tokens := len(ids) * traceTokens
		a, ok := c.Admit(&table, &Claim{PromptTokens: tokens + 1, Hashes: hashes}, tokens, now)
		if !ok {
			t.Fatalf("request %d of %d blocks was refused by an idle cache of %d", i, len(ids), blocks)
		}
		hits += a.HitTokens / traceTokens
		for table.Sealed() < len(ids) {
			if err := c.Seal(&table, hashes[table.Sealed()], nil); err != nil {
				t.Fatal(err)
			}
		}
		c.Release(&table, now)
		if i%4000 == 3999 {
			if err := c.Check(); err != nil {
				t.Fatalf("after request %d: %v", i, err)
			}
		}
	}
	return hits, asked
}

func ratio(hits, asked int) string { return fmt.Sprintf("%.4f", float64(hits)/float64(asked)) }

// TestConversationTrace holds the two policies against the published table of
// hit ratios: consecutive-prefix hits over all blocks, arrival order only.
// LRU must agree to the digit; the default, one setting for all sizes, must
// be at least as good as the bar. It uses the trace's timestamps for ages.
func TestConversationTrace(t *testing.T) {
	if underRace {
		t.Skip("minutes under the race detector, for one goroutine")
	}
	uses := conversations(t)
	for _, row := range []struct {
		tokens           int
		lru, clairvoyant string
		bar              float64
	}{
		{10_000, ".0417", ".0487", 0},
		{100_000, ".0419", ".0897", 0},
		{1_000_000, ".0533", ".2527", 0.110},
		{2_000_000, ".0848", ".3203", 0.148},
		{3_000_000, ".1361", ".3532", 0.175},
		{5_000_000, ".2071", ".3664", 0.228},
		{10_000_000, ".2852", ".3664", 0.296},
		{20_000_000, ".3513", ".3664", 0.346},
		{50_000_000, ".3635", ".3664", 0.360},
		{100_000_000, ".3664", ".3664", 0.3664},
	} {
		hits, asked := replay(t, uses, row.tokens, LRU)
		if got := ratio(hits, asked); got != "0"+row.lru || asked != 288_500 {
			t.Errorf("%d tokens: LRU found %s of %d blocks, want %s of 288500", row.tokens, got, asked, row.lru)
		}
		learned, _ := replay(t, uses, row.tokens, Learned)
		t.Logf("%11d tokens: LRU %s, default %s, clairvoyant 0%s", row.tokens, ratio(hits, asked),
			ratio(learned, asked), row.clairvoyant)
		if float64(learned)/float64(asked) < row.bar-0.00005 {
			t.Errorf("%d tokens: the default policy found %s, want at least %.3f", row.tokens, ratio(learned, asked),
				row.bar)
		}
		if row.tokens == 100_000_000 && hits != 105_710 {
			t.Errorf("with room for everything %d blocks were found, want 105710", hits)
		}
	}
}

// TestAgentTrace holds the default policy against LRU where LRU is strong:
// long sessions that go on at once.
func TestAgentTrace(t *testing.T) {
	if underRace {
		t.Skip("minutes under the race detector, for one goroutine")
	}
	uses := agentSessions(t)
	for _, tokens := range []int{1_000_000, 4_000_000, 8_000_000, 16_000_000} {
		hits, asked := replay(t, uses, tokens, LRU)
		learned, _ := replay(t, uses, tokens, Learned)
		t.Logf("%11d tokens: LRU %s, default %s", tokens, ratio(hits, asked), ratio(learned, asked))
		if float64(learned) < 0.998*float64(hits) {
			t.Errorf("%d tokens: the default policy found %s, LRU %s", tokens, ratio(learned, asked),
				ratio(hits, asked))
		}
	}
}
