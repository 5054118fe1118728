package traffic

import (
	"math/rand/v2"
	"testing"

	"parley"
)

// Blocks have equal names exactly if their tokens have, for parts that begin and end within
// blocks and for keys that share their first digits. With as many choices, no two tokens are
// the same by chance.
func TestNamesTellTextsApart(t *testing.T) {
	const size = 16
	rng := rand.New(rand.NewPCG(1, 2))
	for _, c := range []Content{{Seed: 3, Choices: 1 << 20}, {Seed: 4, First: 300, Choices: 1 << 28}} {
		byTokens, byKeys := map[parley.BlockHash]parley.BlockHash{}, map[parley.BlockHash]parley.BlockHash{}
		blocks := 0
		for range 4000 {
			var parts []Part
			for range 1 + rng.IntN(4) {
				base := uint64(c.Choices)
				key := rng.Uint64N(6) + base*(rng.Uint64N(3)+base*rng.Uint64N(2))
				parts = append(parts, Part{Key: key, Tokens: rng.IntN(40)})
			}
			fast := c.AppendNames(nil, parts, size)
			slow := parley.AppendBlockHashes(nil, parley.BlockHash{}, parley.Salt{}, c.Tokens(parts), size)
			if len(fast) != len(slow) {
				t.Fatalf("%v have %d names, and %d blocks", parts, len(fast), len(slow))
			}
			for i := range fast {
				if name, ok := byTokens[slow[i]]; ok && name != fast[i] {
					t.Fatalf("block %d of %v has another name than a block with the same tokens", i, parts)
				}
				if name, ok := byKeys[fast[i]]; ok && name != slow[i] {
					t.Fatalf("block %d of %v has the name of a block with other tokens", i, parts)
				}
				byTokens[slow[i]], byKeys[fast[i]] = fast[i], slow[i]
			}
			blocks += len(fast)
		}
		if len(byTokens) == blocks {
			t.Error("no two blocks were alike")
		}
	}
}
