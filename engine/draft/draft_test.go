package draft

import (
	"reflect"
	"testing"

	"parley"
	"parley/engine/sched"
)

// TestPagesFollowTheBlocks writes texts into blocks and asks what is held.
func TestPagesFollowTheBlocks(t *testing.T) {
	d := New(Config{Blocks: 8})
	text := func(n, salt int) (out []parley.Token) {
		for i := range n {
			out = append(out, parley.Token(i*salt%97))
		}
		return out
	}
	put := func(blocks []int32, tokens []parley.Token, from int) {
		for i, tok := range tokens[from:] {
			d.write(blocks, from+i, tok)
		}
	}
	held := func(blocks []int32, tokens []parley.Token) int {
		q := &sched.Seq{Tokens: tokens}
		q.Table.Blocks = blocks
		return d.Held(q)
	}
	a, b := text(40, 3), text(40, 5)
	put([]int32{0, 1, 2}, a, 0)
	var got []int
	check := func(blocks []int32, tokens []parley.Token) { got = append(got, held(blocks, tokens)) }
	check([]int32{0, 1, 2}, a)                    // all of it
	check([]int32{0, 1, 3}, a)                    // the last block elsewhere
	check([]int32{0, 2, 1}, a)                    // the right tokens nowhere
	check([]int32{0, 1, 2}, append(a[:36:36], 7)) // the text went on otherwise
	check([]int32{0, 1, 2}, b)                    // another text, alike in one token
	put([]int32{1, 4, 5}, b, 0)
	check([]int32{0, 1, 2}, a) // its second block was taken
	check([]int32{1, 4, 5}, b)
	put([]int32{0, 6, 2}, a, 16) // computed again elsewhere
	check([]int32{0, 6, 2}, a)
	if want := []int{40, 32, 16, 36, 1, 16, 40, 40}; !reflect.DeepEqual(got, want) {
		t.Errorf("held %v, want %v", got, want)
	}
}
