package engine

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"parley"
	"parley/compute"
	"parley/engine/kv"
	"parley/engine/sched"
	"parley/engine/tier"
)

// asideCopies are copies between a counter's pool and pinned memory that are made some time after
// they were asked for: when something uses the blocks, or after the engine has asked a few times
// whether they are done.
type asideCopies struct {
	arena   []byte
	waiting []func()
	moving  map[int32]bool // blocks, and whether they are being restored
	batches []int          // how many copies were asked for when each ended
	asked   int
	polls   int // how often the engine asks before they are done
	left    int
	joined  int // how often something had to wait for a block that was being restored
}

// background is what tiers are given; nil for nil.
func (a *asideCopies) background() *tier.Background {
	if a == nil {
		return nil
	}
	return &tier.Background{
		Pin:        func(memory []byte) error { a.arena, a.moving = memory, map[int32]bool{}; return nil },
		StartBatch: func() { a.left = a.polls },
		EndBatch:   func() { a.batches = append(a.batches, a.asked) },
		Batches:    a.ended,
		Wait:       a.finish,
	}
}

func (a *asideCopies) ended() (took []time.Duration) {
	if a.left--; a.left <= 0 {
		a.finish()
	}
	for len(a.batches) > 0 && a.batches[0] <= a.asked-len(a.waiting) {
		took, a.batches = append(took, 10*time.Microsecond), a.batches[1:]
	}
	return took
}

// finish makes all copies.
func (a *asideCopies) finish() {
	for _, do := range a.waiting {
		do()
	}
	a.waiting, a.moving = nil, map[int32]bool{}
}

// join makes the copies if they concern one of the blocks.
func (a *asideCopies) join(blocks []int32) {
	if a == nil {
		return
	}
	for _, b := range blocks {
		restored, moves := a.moving[b]
		if restored {
			a.joined++
		}
		if moves {
			a.finish()
		}
	}
}

// later lets a copy of pinned memory wait, and reports whether it does.
func (a *asideCopies) later(memory []byte, block int32, restored bool, do func()) bool {
	if a == nil {
		return false
	}
	from := uintptr(unsafe.Pointer(unsafe.SliceData(memory))) - uintptr(unsafe.Pointer(unsafe.SliceData(a.arena)))
	if from >= uintptr(len(a.arena)) {
		a.join([]int32{block})
		return false
	}
	a.waiting, a.moving[block] = append(a.waiting, do), restored
	a.asked++
	return true
}

// TestRestoringDoesNotStallOthers restores a prompt from host memory while another request
// is decoded: no pass of that one waits for the copies, and both are answered as before.
func TestRestoringDoesNotStallOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &counter{ahead: true, delay: time.Millisecond, aside: &asideCopies{polls: 6}}
		cfg := sched.Config{Blocks: 20, StepTokens: 256, StepOutputs: 8, Seqs: 4, Cache: kv.Config{HostBlocks: 40}}
		e := newCounter(t, n, cfg)
		restored := &parley.Request{Prompt: long(2, 8*compute.BlockTokens), MaxTokens: 5}
		want := askAll(t, e, []*parley.Request{restored})
		ask(t, e, &parley.Request{Prompt: long(3, 15*compute.BlockTokens), MaxTokens: 5}) // evicts its blocks
		synctest.Wait()
		other := &parley.Request{Prompt: long(4, 8), MaxTokens: 40, Stop: parley.Stop{IgnoreEnd: true}}
		done := make(chan []answer, 1)
		go func() { done <- askAll(t, e, []*parley.Request{other}) }()
		time.Sleep(5*n.delay + n.delay/2)
		joined := n.aside.joined
		got := askAll(t, e, []*parley.Request{restored})
		if !slices.Equal(got[0].tokens[0], want[0].tokens[0]) {
			t.Errorf("restored %v, at first %v", got, want)
		}
		if others := <-done; !slices.Equal(others[0].tokens[0], expect(other.Prompt, 40)) {
			t.Errorf("the other said %v", others)
		}
		s := e.Stats()
		if s.Cache.HitBlocks[kv.Host] == 0 || n.aside.joined != joined {
			t.Errorf("%v blocks were found, and %d passes waited for copies", s.Cache.HitBlocks, n.aside.joined-joined)
		}
	})
}
