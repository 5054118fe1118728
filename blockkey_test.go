package parley

import (
	"math/bits"
	"slices"
	"testing"
)

// TestKeysAreThoseInNames gets keys without their names, for all sizes of blocks.
func TestKeysAreThoseInNames(t *testing.T) {
	tokens := make([]Token, 75)
	for i := range tokens {
		tokens[i] = Token(i * 7919 % 150_000)
	}
	parent := HashBlock(BlockHash{}, Salt{}, []Token{5})
	for size := 1; size <= len(tokens)+1; size++ {
		var want []BlockKey
		for _, name := range AppendBlockHashes(nil, parent, Salt{7, 15: 8}, tokens, size) {
			want = append(want, name.Key())
		}
		if got := AppendBlockKeys(nil, parent.Key(), Salt{7, 15: 8}, tokens, size); !slices.Equal(got, want) {
			t.Errorf("blocks of %d: got %v, want %v", size, got, want)
		}
	}
}

// TestKeysTellEverythingApart changes one thing at a time, as little as can be:
// about half of the key's bits must change with it.
func TestKeysTellEverythingApart(t *testing.T) {
	base := func() (BlockKey, Salt, []Token) {
		return 0, Salt{}, []Token{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}
	}
	changes := map[string]func(parent *BlockKey, salt *Salt, tokens []Token){
		"parent":       func(parent *BlockKey, _ *Salt, _ []Token) { *parent++ },
		"salt's begin": func(_ *BlockKey, salt *Salt, _ []Token) { salt[0]++ },
		"salt's end":   func(_ *BlockKey, salt *Salt, _ []Token) { salt[15]++ },
		"order":        func(_ *BlockKey, _ *Salt, tokens []Token) { slices.Reverse(tokens) },
		"halves":       func(_ *BlockKey, _ *Salt, tokens []Token) { tokens[0], tokens[8] = tokens[8], tokens[0] },
	}
	for i := range 16 {
		changes["token "+string(rune('a'+i))] = func(_ *BlockKey, _ *Salt, tokens []Token) { tokens[i]++ }
	}
	first := hashKey(base())
	for name, change := range changes {
		parent, salt, tokens := base()
		change(&parent, &salt, tokens)
		if other := hashKey(parent, salt, tokens); bits.OnesCount64(uint64(first^other)) < 12 {
			t.Errorf("another %s gives %016x after %016x", name, other, first)
		}
	}
}

// TestKeysDoNotMeet makes the keys of many blocks that differ in little.
func TestKeysDoNotMeet(t *testing.T) {
	seen, high := map[BlockKey]bool{}, map[BlockKey]int{}
	tokens := make([]Token, 16)
	for a := range 300 {
		for b := range 300 {
			tokens[a%16], tokens[(a+1+b%15)%16] = Token(a), Token(b)
			for parent := range BlockKey(3) {
				k := hashKey(parent, Salt{}, tokens)
				seen[k] = true
				high[k>>56]++
			}
			clear(tokens)
		}
	}
	if len(seen) < 3*300*300*99/100 { // some blocks are equal: a and b may be 0
		t.Errorf("%d keys of %d blocks", len(seen), 3*300*300)
	}
	for _, n := range high {
		if mean := 3 * 300 * 300 / 256; n < mean*8/10 || n > mean*12/10 {
			t.Errorf("%d keys begin alike, on average %d", n, mean)
		}
	}
}

// BenchmarkKeysOfPrompt gets the keys of a prompt of 128K tokens.
func BenchmarkKeysOfPrompt(b *testing.B) {
	tokens := make([]Token, 1<<17)
	for i := range tokens {
		tokens[i] = Token(i * 2654435761 % 150_000)
	}
	var keys []BlockKey
	b.ReportAllocs()
	for b.Loop() {
		keys = AppendBlockKeys(keys[:0], 0, Salt{1}, tokens, 16)
	}
}
