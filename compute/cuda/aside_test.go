package cuda

import (
	"reflect"
	"testing"

	"parley"
	"parley/compute"
	"parley/internal/testkit"
)

// TestBlocksMoveWhileStepsAreComputed takes all blocks away to pinned memory after the prompts, writes
// something else in their place, and brings them back: each copy waits for what it must, and so does
// the next step, which gives the same bits as without. A device that makes copies as late
// as it may is the interpreter.
func TestBlocksMoveWhileStepsAreComputed(t *testing.T) {
	dir := testkit.Golden("tiny-qwen3")
	prompts := [][]parley.Token{{5, 9, 2}, {7}, {3, 1, 4, 1, 5}}
	last := func(seq int) parley.Token { return parley.Token(11 + seq) }
	plain := newRunner(t, dir, newBackend(t), compute.KVBF16)
	plain.forward(plain.stepOf(prompts, 0, last))
	want := plain.forward(plain.stepOf(prompts, 1, last))

	c := newBackend(t)
	r := newRunner(t, dir, c, compute.KVBF16)
	size := int(c.pool.shape.BlockBytes())
	arena, err := c.driver.AllocatePinned(size * len(r.blocks))
	if err != nil {
		t.Fatal(err)
	}
	c.arenas = append(c.arenas, arena)
	r.forward(r.stepOf(prompts, 0, last))
	c.StartBatch()
	for i, b := range r.blocks {
		c.ReadBlock(arena[i*size:][:size], b, 0)
	}
	c.EndBatch()
	for _, b := range r.blocks {
		c.WriteBlock(b, 0, make([]byte, size))
	}
	c.StartBatch()
	for i, b := range r.blocks {
		c.WriteBlock(b, 0, arena[i*size:][:size])
	}
	c.EndBatch()
	if got := r.forward(r.stepOf(prompts, 1, last)); !reflect.DeepEqual(got, want) {
		t.Error("a step after the blocks moved gives other bits")
	}
	c.WaitCopies()
	if n := len(c.Batches()); n != 2 {
		t.Errorf("%d of 2 batches ended", n)
	}
	c.arenas = nil // it was allocated, not pinned
	if err := c.driver.ReleasePinned(arena); err != nil {
		t.Error(err)
	}
}
