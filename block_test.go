package parley

import "testing"

func TestHashBlockTellsEverythingApart(t *testing.T) {
	tokens := []Token{1, 2, 3}
	first := HashBlock(BlockHash{}, Salt{}, tokens)
	if first != HashBlock(BlockHash{}, Salt{}, []Token{1, 2, 3}) {
		t.Error("equal blocks have different hashes")
	}
	for name, other := range map[string]BlockHash{
		"parent": HashBlock(first, Salt{}, tokens),
		"salt":   HashBlock(BlockHash{}, Salt{1}, tokens),
		"tokens": HashBlock(BlockHash{}, Salt{}, []Token{1, 3, 2}),
		"length": HashBlock(BlockHash{}, Salt{}, []Token{1, 2}),
	} {
		if other == first {
			t.Errorf("another %s gives the same hash", name)
		}
	}
}
