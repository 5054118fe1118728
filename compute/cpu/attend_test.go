package cpu

import (
	"fmt"
	"testing"

	"parley/compute"
	"parley/compute/computetest"
)

func TestAttention(t *testing.T) {
	talks := []computetest.Conversation{
		{Chunks: []int{37, 1, 1, 30}, Blocks: []int32{7, 3, 9, 11, 2}},
		{Chunks: []int{1, 16, 1}, Blocks: []int32{0, 12}},
		{Chunks: []int{2, 64, 1}, Blocks: blockTable(67, 20)},
	}
	for i, dim := range []int{64, 24, 2, 40, 80, 96, 128, 256} {
		for k, heads := range []compute.Heads{{Query: 4, KV: 4, Dim: dim}, {Query: 9, KV: 3, Dim: dim},
			{Query: 8, KV: 1, Dim: dim}} {
			for _, window := range []int{0, 1, 20} {
				if i > 1 && (window > 0 || k != i%3) {
					continue
				}
				t.Run(fmt.Sprintf("dim_%d_heads_%d_of_%d_window_%d", dim, heads.Query, heads.KV, window),
					func(t *testing.T) {
						l := computetest.Lookback{Heads: heads, Window: window, Talks: talks,
							Interleaved: heads.KV == 3, Norms: heads.KV == 1}
						scenario(l.Scenario()).compare(t, budgetAttention)
					})
			}
		}
	}
}

func TestAttentionOverSegments(t *testing.T) {
	const tokens = 2*segmentBlocks*compute.BlockTokens + 100
	for _, window := range []int{0, 530} {
		l := computetest.Lookback{Heads: compute.Heads{Query: 2, KV: 1, Dim: 16}, Window: window}
		l.Talks = []computetest.Conversation{
			{Chunks: []int{tokens - 35, 1, 33, 1}, Blocks: blockTable(tokens, 0)},
			{Chunks: []int{20, 1, 1}, Blocks: blockTable(22, tokens)},
		}
		scenario(l.Scenario()).compare(t, budgetAttention)
	}
}

// TestAttentionWithManyThreads lets one long context stand among short ones,
// and has more threads than there is work for.
func TestAttentionWithManyThreads(t *testing.T) {
	const tokens = 3*segmentBlocks*compute.BlockTokens + 7
	for kind := range compute.KVType(compute.KVTypes) {
		l := computetest.Lookback{Heads: compute.Heads{Query: 6, KV: 3, Dim: 16}, Kind: kind}
		l.Talks = []computetest.Conversation{{Chunks: []int{tokens, 1, 3}, Blocks: blockTable(tokens+4, 0)}}
		for i := range 20 {
			l.Talks = append(l.Talks,
				computetest.Conversation{Chunks: []int{1 + i, 1, 1}, Blocks: blockTable(i+3, 1000+2*i)})
		}
		want := scenario(l.Scenario()).on(t, Options{Threads: 1})
		for _, threads := range []int{2, 64} {
			if err := sameBits(scenario(l.Scenario()).on(t, Options{Threads: threads}), want); err != nil {
				t.Errorf("%v, %d threads: %v", kind, threads, err)
			}
		}
	}
}

func TestRotation(t *testing.T) {
	for _, interleaved := range []bool{false, true} {
		for _, dim := range []int{2, 30, 64, 96} {
			scenario(computetest.Rotation(dim, interleaved)).compare(t, budgetRope)
		}
	}
}
