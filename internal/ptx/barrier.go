package ptx

import (
	"fmt"
	"math/bits"

	"parley/internal/ptx/arith"
	"parley/internal/ptx/syntax"
)

// arrive counts threads and completes the generation when all are there.
func (b *barrier) arrive(w *warp, threads int) {
	b.clocks.release(w)
	b.arrived += threads
}

// complete ends the generation if expected threads have arrived.
func (b *barrier) complete(expected int) bool {
	if b.arrived < expected {
		return false
	}
	b.arrived = 0
	b.generation++
	b.clocks.complete()
	b.result, b.total = b.votes, b.count
	b.votes, b.count = 0, 0
	return true
}

// release adds what the warp has seen and done.
func (c *clocks) release(w *warp) {
	if c.seen == nil {
		n := len(w.seen)
		c.seen, c.proxy = make([]uint64, n), make([]uint64, n)
		c.readySeen, c.readyProxy = make([]uint64, n), make([]uint64, n)
	}
	for i, v := range w.seen {
		c.seen[i] = max(c.seen[i], v)
		c.proxy[i] = max(c.proxy[i], w.proxy[i])
	}
	c.seen[w.index] = max(c.seen[w.index], w.clock)
	w.clock++
}

// complete keeps the clocks of the generation that has ended.
func (c *clocks) complete() {
	copy(c.readySeen, c.seen)
	copy(c.readyProxy, c.proxy)
}

// acquire adds what the last generation had seen to the warp.
func (c *clocks) acquire(w *warp) {
	for i, v := range c.readySeen {
		w.seen[i] = max(w.seen[i], v)
		w.proxy[i] = max(w.proxy[i], c.readyProxy[i])
	}
}

// proxyFence makes what the warp has seen and written visible to the
// asynchronous proxy.
func (w *warp) proxyFence() {
	copy(w.proxy, w.seen)
	w.proxy[w.index] = w.clock
	w.clock++
}

// buildBar decodes bar and barrier in all their forms.
func buildBar(c *compiler, m *syntax.Modifiers, ops []syntax.Operand) inst {
	if m.Has("warp") {
		return c.barWarp(m, ops)
	}
	if m.Has("cluster") {
		return c.barCluster(m)
	}
	m.Drop("cta")
	aligned := m.Name == "bar"
	if m.Has("aligned") {
		aligned = true
	}
	switch m.Take("sync", "arrive", "red") {
	case "sync":
		return c.barSync(aligned, ops)
	case "arrive":
		return c.barArrive(aligned, ops)
	case "red":
		return c.barRed(m, aligned, ops)
	}
	c.fail("unknown form of %s", m.Name)
	return inst{}
}

// barWarp decodes bar.warp.sync.
func (c *compiler) barWarp(m *syntax.Modifiers, ops []syntax.Operand) inst {
	if !m.Has("sync") || !c.operands(ops, 1, 1) {
		c.fail("unknown form of bar.warp")
		return inst{}
	}
	return inst{kind: kindConverge, members: c.memberSlot(ops[0]), step: func(w *warp, _ uint32) { w.clock++ }}
}

// named decodes the number of a barrier and the number of its threads.
func (c *compiler) named(ops []syntax.Operand) func(w *warp, lane int) (b *barrier, expected int) {
	if !c.operands(ops, 1, 3) {
		return nil
	}
	id := c.in32(ops[0], arith.Types["u32"])
	count := slot(-1)
	if len(ops) > 1 {
		count = c.in32(ops[1], arith.Types["u32"])
	}
	return func(w *warp, lane int) (*barrier, int) {
		n := w.r[id][lane]
		if n > 15 {
			w.fault(lane, "barrier %d; a block has barriers 0 to 15", n)
		}
		expected := -1
		if count >= 0 {
			expected = int(w.r[count][lane])
			if expected == 0 || expected%arith.WarpSize != 0 {
				w.fault(lane, "barrier %d for %d threads; the number must be a multiple of 32", n, expected)
			}
		}
		return &w.b.barriers[n], expected
	}
}

// threads returns how many threads a barrier without a count waits for: the
// warps of the block that have not ended.
func (w *warp) threads(expected int) int {
	if expected >= 0 {
		return expected
	}
	n := 0
	for _, other := range w.b.warps {
		if other.live != 0 {
			n += arith.WarpSize
		}
	}
	return n
}

// share is what lanes of a warp count at a barrier: a warp that is not full
// counts as if it were.
func (w *warp) share(mask uint32) int {
	if mask == w.lanes {
		return arith.WarpSize
	}
	return bits.OnesCount32(mask)
}

func (c *compiler) barSync(aligned bool, ops []syntax.Operand) inst {
	at := c.named(ops)
	return inst{kind: kindWait, aligned: aligned, wait: func(w *warp, mask uint32) bool {
		b, expected := at(w, bits.TrailingZeros32(mask)&31)
		return w.meet(b, expected, mask)
	}}
}

// meet arrives once and reports whether the barrier is complete.
func (w *warp) meet(b *barrier, expected int, mask uint32) bool {
	f := &w.frags[w.cur]
	if !f.arrived {
		if b.arrived > 0 && b.expected != expected {
			w.fault(bits.TrailingZeros32(mask), "barrier for %d threads, at which others wait for %d", expected,
				b.expected)
		}
		b.expected = expected
		f.arrived, f.token = true, b.generation
		b.arrive(w, w.share(mask))
		w.b.events++
	}
	if f.token == b.generation && !b.complete(w.threads(expected)) {
		return false
	}
	b.clocks.acquire(w)
	w.b.events++
	return true
}

func (c *compiler) barArrive(aligned bool, ops []syntax.Operand) inst {
	if len(ops) < 2 {
		c.fail("arrive without a number of threads")
		return inst{}
	}
	at := c.named(ops)
	return inst{kind: kindWait, aligned: aligned, wait: func(w *warp, mask uint32) bool {
		b, expected := at(w, bits.TrailingZeros32(mask)&31)
		b.expected = expected
		b.arrive(w, w.share(mask))
		b.complete(w.threads(expected))
		w.b.events++
		return true
	}}
}

// barRed decodes bar.red.popc, .and and .or.
func (c *compiler) barRed(m *syntax.Modifiers, aligned bool, ops []syntax.Operand) inst {
	mode := m.Take("popc", "and", "or")
	c.typed(m)
	if !c.operands(ops, 3, 4) {
		return inst{}
	}
	at := c.named(ops[1 : len(ops)-1])
	p := c.inPred(ops[len(ops)-1])
	var d, dp slot
	if mode == "popc" {
		d = c.out32(ops[0])
	} else {
		dp = c.outPred(ops[0])
	}
	return inst{kind: kindWait, aligned: aligned, wait: func(w *warp, mask uint32) bool {
		b, expected := at(w, bits.TrailingZeros32(mask)&31)
		if !w.frags[w.cur].arrived {
			v := p.of(w) & mask
			b.count += bits.OnesCount32(v)
			b.votes |= uint32(arith.Pick(v != mask, 1, 0)) | uint32(arith.Pick(v != 0, 2, 0))
		}
		if !w.meet(b, expected, mask) {
			return false
		}
		switch mode {
		case "popc":
			eachLane(mask, func(i int) { w.r[d][i] = uint32(b.total) })
		case "and":
			w.setPred(dp, uint32(arith.Pick(b.result&1 == 0, arith.AllLanes, 0)), mask)
		case "or":
			w.setPred(dp, uint32(arith.Pick(b.result&2 != 0, arith.AllLanes, 0)), mask)
		}
		return true
	}}
}

// barCluster decodes barrier.cluster.arrive and barrier.cluster.wait.
func (c *compiler) barCluster(m *syntax.Modifiers) inst {
	arrive := m.Take("arrive", "wait") == "arrive"
	m.Drop("acquire", "release", "relaxed")
	aligned := m.Has("aligned")
	if arrive {
		return inst{kind: kindWait, aligned: aligned, wait: func(w *warp, mask uint32) bool {
			b := &w.b.c.bar
			w.cluster = b.generation
			b.arrive(w, w.share(mask))
			b.complete(w.b.c.threads())
			w.b.events++
			return true
		}}
	}
	return inst{kind: kindWait, aligned: aligned, wait: func(w *warp, _ uint32) bool {
		b := &w.b.c.bar
		if w.cluster == b.generation && !b.complete(w.b.c.threads()) {
			return false
		}
		b.clocks.acquire(w)
		w.b.events++
		return true
	}}
}

func (c *cluster) threads() int {
	n := 0
	for _, w := range c.warps {
		if w.live != 0 {
			n += arith.WarpSize
		}
	}
	return n
}

// awaited describes what the current fragment waits for.
func (w *warp) awaited() string {
	for i := range w.b.barriers {
		if b := &w.b.barriers[i]; b.arrived > 0 {
			return fmt.Sprintf(": barrier %d has %d of %d threads", i, b.arrived, w.threads(b.expected))
		}
	}
	for addr, m := range w.b.mbars {
		if m.pending > 0 || m.bytes != 0 {
			return fmt.Sprintf(": mbarrier at %#x awaits %d arrivals and %d bytes", addr, m.pending, m.bytes)
		}
	}
	return ""
}
