package traffic

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// randomRows makes a tree of prompts: each row follows an earlier one for some
// blocks and then goes its own way, as conversations do.
func randomRows(rng *rand.Rand, n int) (rows []Row) {
	id := uint64(0)
	for i := range n {
		var blocks []uint64
		if i > 0 {
			from := rows[rng.IntN(i)].Blocks
			blocks = slices.Clone(from[:rng.IntN(len(from))])
		}
		for range 1 + rng.IntN(5) {
			blocks = append(blocks, id)
			id++
		}
		tail := 1 + rng.IntN(MooncakeBlockTokens)
		rows = append(rows,
			Row{InputTokens: MooncakeBlockTokens*(len(blocks)-1) + tail, OutputTokens: 10, Blocks: blocks})
	}
	return rows
}

func commonPrefix[T comparable](a, b []T) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}

// Two prompts share the tokens of the blocks that their hashes share, whatever
// the scale, and then differ within two tokens, which is where ids this small
// must differ.
func TestPrefixesAreThoseOfTheHashes(t *testing.T) {
	rng := newRand(11, 1)
	for _, scale := range []float64{1, 0.05, 0.011} {
		replay := Replay{Scale: scale}
		rows := randomRows(rng, 60)
		requests := slices.Collect(replay.Requests(rows))
		for i := range rows {
			for j := range i {
				a, b := testContent.Tokens(requests[i].Prompt), testContent.Tokens(requests[j].Prompt)
				blocks := commonPrefix(rows[i].Blocks, rows[j].Blocks)
				want := min(blocks*replay.BlockTokens(), len(a), len(b))
				if got := commonPrefix(a, b); got < want || (got > want+1 && got < min(len(a), len(b))) {
					t.Fatalf("scale %g, rows %d and %d: %d tokens shared, their %d blocks say %d", scale, i, j, got,
						blocks, want)
				}
			}
		}
	}
}

func TestReplayScalesLengthAndTime(t *testing.T) {
	rows := []Row{
		{At: 0, InputTokens: 1000, OutputTokens: 400, Blocks: []uint64{1, 2}},
		{At: 30 * time.Second, InputTokens: 1300, OutputTokens: 0, Blocks: []uint64{1}},
		{At: 60 * time.Second, InputTokens: 100, OutputTokens: 3, Blocks: []uint64{1, 2, 3}},
	}
	got := slices.Collect(Replay{Scale: 0.1, Speed: 10}.Requests(rows))
	for i, want := range []struct {
		at             time.Duration
		prompt, output int
	}{{0, 51 + 49, 40}, {3 * time.Second, 51 + 79, 1}, {6 * time.Second, 10, 1}} {
		r := &got[i]
		if r.At != want.at || r.PromptTokens() != want.prompt || r.OutputTokens != want.output {
			t.Errorf("row %d: %v, %d and %d tokens, want %+v", i, r.At, r.PromptTokens(), r.OutputTokens, want)
		}
	}
	whole := slices.Collect(Replay{}.Requests(rows))
	if whole[1].PromptTokens() != 1300 || whole[1].At != 30*time.Second {
		t.Errorf("the zero replay changes the trace: %+v", whole[1])
	}
}

func TestReplaySpreadsBatches(t *testing.T) {
	var rows []Row
	for _, second := range []int{0, 0, 0, 3, 3, 5} {
		rows = append(rows, Row{At: time.Duration(second) * time.Second, InputTokens: 1, OutputTokens: 1})
	}
	var at []time.Duration
	for r := range (Replay{Spread: 3 * time.Second}).Requests(rows) {
		at = append(at, r.At)
	}
	want := []time.Duration{0, time.Second, 2 * time.Second, 3 * time.Second, 4 * time.Second, 5 * time.Second}
	if !slices.Equal(at, want) {
		t.Errorf("%v, want %v", at, want)
	}
}

func TestReplayIsChecked(t *testing.T) {
	for _, r := range []Replay{{Scale: -1}, {Scale: 100}, {Speed: -1}, {Speed: 1e9}, {Spread: -1}} {
		if r.Validate() == nil {
			t.Errorf("%+v was taken", r)
		}
	}
	if err := (Replay{}).Validate(); err != nil {
		t.Error(err)
	}
}

func FuzzReadTrace(f *testing.F) {
	f.Add(true, []byte(mooncakeSample))
	f.Add(false, []byte(azureSample))
	f.Add(true,
		[]byte(`{"timestamp": 1e12, "input_length": 4194304, "output_length": 1, "hash_ids": [4611686018427387903]}`))
	f.Add(false, []byte("TIMESTAMP,ContextTokens,GeneratedTokens\n0001-01-01 00:00:00,1,1\n9999-01-01 00:00:00,1,1"))
	f.Fuzz(func(t *testing.T, mooncake bool, text []byte) {
		format := Azure
		if mooncake {
			format = Mooncake
		}
		rows, err := ReadTrace(format, linesOf(text), 0)
		if err != nil {
			return
		}
		last := time.Duration(0)
		for r := range (Replay{Scale: 0.01, Speed: 2}).Requests(rows) {
			if r.At < last || r.PromptTokens() < 1 || r.PromptTokens() > LengthMax || r.OutputTokens < 1 {
				t.Fatalf("%+v after %v", r, last)
			}
			last = r.At
		}
	})
}
