package parley

import (
	"slices"
	"testing"
)

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

// TestHashBlockKeepsItsNames pins the names: they are kept on disk and known
// to other machines.
func TestHashBlockKeepsItsNames(t *testing.T) {
	long := make([]Token, 100)
	for _, row := range []struct {
		tokens []Token
		want   string
	}{
		{nil, "401c2335feb1e3affa2ed28fc18f725fedab5d47df090eadc4b53a41dbe48395"},
		{[]Token{1, 2, 3}, "f17e6c7a48260e50aaf261435415762c5688a312d1a9284c26cff35bac43725a"},
		{long, "e14f68cfb4ddc68df688df8ae3c6729a0af66112802f3f4f8f214905206d383e"},
	} {
		if got := HashBlock(BlockHash{9}, Salt{1}, row.tokens).String(); got != row.want {
			t.Errorf("%d tokens are named %s, want %s", len(row.tokens), got, row.want)
		}
	}
}

func TestAppendBlockHashesIsHashBlockRepeated(t *testing.T) {
	tokens := make([]Token, 75)
	for i := range tokens {
		tokens[i] = Token(i)
	}
	for _, size := range []int{1, 2, 3, 4, 16, 64, 75, 76} {
		var want []BlockHash
		parent := BlockHash{3}
		for at := 0; at+size <= len(tokens); at += size {
			parent = HashBlock(parent, Salt{7}, tokens[at:at+size])
			want = append(want, parent)
		}
		if got := AppendBlockHashes(nil, BlockHash{3}, Salt{7}, tokens, size); !slices.Equal(got, want) {
			t.Errorf("blocks of %d: got %v, want %v", size, got, want)
		}
	}
}

// BenchmarkHashPrompt names the blocks of a prompt of 128K tokens.
func BenchmarkHashPrompt(b *testing.B) {
	tokens := make([]Token, 1<<17)
	for i := range tokens {
		tokens[i] = Token(i * 2654435761 % 150_000)
	}
	var names []BlockHash
	b.ReportAllocs()
	for b.Loop() {
		names = AppendBlockHashes(names[:0], BlockHash{}, Salt{1}, tokens, 16)
	}
}

func TestBlockHasherWithoutReadableState(t *testing.T) {
	h := newBlockHasher(2)
	if h.state == nil {
		t.Error("the state of SHA-256 cannot be read any more: prompts are hashed at half the speed")
	}
	h.state = nil
	if tokens := []Token{1, 2}; h.sum(BlockHash{3}, Salt{4}, tokens) != HashBlock(BlockHash{3}, Salt{4}, tokens) {
		t.Error("the slow way gives another name")
	}
}
