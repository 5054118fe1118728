package kv

import (
	"math/rand/v2"
	"slices"
	"testing"

	"parley"
)

// TestCopyQueueKeepsOrder does random copies at once in one memory and through a
// queue in another. Whatever a queue of copies is asked for first, the device blocks it
// was asked for must then be equal, and in the end everything.
func TestCopyQueueKeepsOrder(t *testing.T) {
	const slots = 6
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 9))
		cfg := Config{Blocks: slots, HostBlocks: slots, DiskBlocks: slots, BlockTokens: 1}
		direct, ferried := newFakeMemory(cfg), newFakeMemory(cfg)
		var f CopyQueue
		for step := range 100 {
			m := Move{From: Tier(rng.IntN(int(tiers))), To: Tier(rng.IntN(int(tiers))),
				FromSlot: int32(rng.IntN(slots)), ToSlot: int32(rng.IntN(slots))}
			direct.do([]Move{m})
			f.Add([]Move{m})
			wanted := []int32{int32(rng.IntN(slots)), int32(rng.IntN(slots))}
			switch rng.IntN(4) {
			case 0:
				ferried.do(f.TakeFor(nil, wanted))
				for _, b := range wanted {
					if direct[Device][b][0] != ferried[Device][b][0] || f.Waits([]int32{b}) != 0 {
						t.Fatalf("seed %d, step %d: block %d holds %d, want %d", seed, step, b, ferried[Device][b][0],
							direct[Device][b][0])
					}
					// The pass writes to the block: no copy may read or write it late.
					direct[Device][b][0] = uint64(step + 1)
					ferried[Device][b][0] = uint64(step + 1)
				}
			case 1:
				ferried.do(f.TakeOldest(nil, rng.IntN(4)))
			}
		}
		ferried.do(f.TakeOldest(nil, 1000))
		if f.Len() != 0 || len(f.last) != 0 || len(f.waiting) != 0 {
			t.Fatalf("seed %d: %d copies are left, %d places", seed, f.Len(), len(f.last))
		}
		for tier := range tiers {
			for slot := range slots {
				if direct[tier][slot][0] != ferried[tier][slot][0] {
					t.Fatalf("seed %d: slot %d of %s differs", seed, slot, tier)
				}
			}
		}
	}
}

func TestCopyQueueVoidsLostContent(t *testing.T) {
	lost, other := parley.BlockHash{1}, parley.BlockHash{2}
	var f CopyQueue
	f.Add([]Move{
		{Hash: lost, From: Disk, To: Device, FromSlot: 1, ToSlot: 2},
		{Hash: lost, From: Device, To: Host, FromSlot: 2, ToSlot: 3},
		{Hash: other, From: Disk, To: Device, FromSlot: 4, ToSlot: 2},
	})
	f.Void(lost)
	got := f.TakeFor(nil, []int32{2})
	if len(got) != 1 || got[0].Hash != other || f.Len() != 0 {
		t.Errorf("left to do: %v, %d wait", got, f.Len())
	}
	if got := f.TakeOldest(nil, 5); slices.ContainsFunc(got, func(Move) bool { return true }) {
		t.Errorf("an empty queue gave %v", got)
	}
}
