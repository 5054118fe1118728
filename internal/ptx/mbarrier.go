package ptx

import (
	"parley/internal/ptx/arith"
	"parley/internal/ptx/syntax"
)

func (m *mbarrier) settle(b *block) {
	if m.pending == 0 && m.bytes == 0 {
		m.phase++
		m.pending = m.count
		m.clocks.complete()
		b.events++
	}
}

// drain runs asynchronous operations until the phase ends or none is left.
func (m *mbarrier) drain(phase uint64) {
	for len(m.queue) > 0 && m.phase == phase {
		run := m.queue[0]
		m.queue = m.queue[1:]
		run()
	}
}

// mbarrierAt finds the object at an address; every use but init needs one.
func (w *warp) mbarrierAt(lane int, addr uint64, sp space) (*mbarrier, *block) {
	if sp == spaceGeneric {
		var is space
		if is, addr = w.resolve(lane, addr); is != spaceShared {
			w.faultAt(lane, addr, "mbarrier outside shared memory")
		}
	}
	w.bytes(&access{space: spaceShared, size: 8, strong: true}, lane, addr)
	b, at := w.sharedBlock(lane, addr)
	m := b.mbars[uint32(at)]
	if m == nil {
		w.faultAt(lane, addr, "mbarrier that was not initialised")
	}
	return m, b
}

// buildMbarrier decodes the mbarrier instructions.
func buildMbarrier(c *compiler, m *syntax.Modifiers, ops []syntax.Operand) inst {
	what := m.Take("init", "inval", "arrive", "arrive_drop", "expect_tx", "complete_tx", "test_wait", "try_wait",
		"pending_count")
	m.Drop("b64", "release", "acquire", "relaxed", "cta", "cluster")
	switch what {
	case "init", "inval":
		return c.mbarrierInit(m, what, ops)
	case "arrive", "arrive_drop":
		return c.mbarrierArrive(m, what == "arrive_drop", ops)
	case "expect_tx", "complete_tx":
		return c.mbarrierBytes(m, what, ops)
	case "test_wait", "try_wait":
		return c.mbarrierWait(m, what == "try_wait", ops)
	}
	c.fail("unknown instruction mbarrier.%s", what)
	return inst{}
}

func (c *compiler) mbarrierInit(m *syntax.Modifiers, what string, ops []syntax.Operand) inst {
	sp := c.takeSpace(m)
	if !c.operands(ops, 1, 2) {
		return inst{}
	}
	at := c.memory(ops[0])
	count := slot(-1)
	if len(ops) == 2 {
		count = c.in32(ops[1], arith.Types["u32"])
	}
	a := &access{space: sp, size: 8, write: true}
	return inst{step: func(w *warp, mask uint32) {
		eachLane(mask, func(i int) {
			addr := at.lane(w, i)
			w.bytes(a, i, addr)
			if sp == spaceGeneric {
				_, addr = w.resolve(i, addr)
			}
			b, offset := w.sharedBlock(i, addr)
			if what == "inval" {
				delete(b.mbars, uint32(offset))
				return
			}
			n := int(w.r[count][i])
			if n < 1 || n > 1<<20-1 {
				w.faultAt(i, addr, "mbarrier for %d arrivals", n)
			}
			b.mbars[uint32(offset)] = &mbarrier{count: n, pending: n}
		})
	}}
}

func (c *compiler) mbarrierArrive(m *syntax.Modifiers, drop bool, ops []syntax.Operand) inst {
	expect := m.Has("expect_tx")
	m.Drop("noComplete")
	sp := c.takeSpace(m)
	if !c.operands(ops, 1, 3) {
		return inst{}
	}
	d := ref{}
	if ops[0].Kind != syntax.AddressOperand {
		d = c.out(ops[0], arith.Types["b64"])
		ops = ops[1:]
	} else {
		d = ref{slot: c.k.fresh64(), wide: true}
	}
	at := c.memory(ops[0])
	number := ref{slot: c.k.constant32(1)}
	if len(ops) == 2 {
		number = c.in(ops[1], arith.Types["u32"])
	}
	return inst{step: func(w *warp, mask uint32) {
		eachLane(mask, func(i int) {
			bar, b := w.mbarrierAt(i, at.lane(w, i), sp)
			n := int(number.get(w, i))
			if expect {
				bar.bytes += n
				n = 1
			}
			if drop {
				bar.count -= n
			}
			d.set(w, i, bar.phase)
			bar.arrive(w, b, i, n)
		})
	}}
}

// arrive counts n arrivals.
func (m *mbarrier) arrive(w *warp, b *block, lane, n int) {
	if n > m.pending {
		w.fault(lane, "%d arrivals at an mbarrier that awaits %d", n, m.pending)
	}
	m.clocks.release(w)
	m.pending -= n
	m.settle(b)
}

func (c *compiler) mbarrierBytes(m *syntax.Modifiers, what string, ops []syntax.Operand) inst {
	sp := c.takeSpace(m)
	if !c.operands(ops, 2, 2) {
		return inst{}
	}
	at, n := c.memory(ops[0]), c.in32(ops[1], arith.Types["u32"])
	sign := 1
	if what == "complete_tx" {
		sign = -1
	}
	return inst{step: func(w *warp, mask uint32) {
		eachLane(mask, func(i int) {
			bar, b := w.mbarrierAt(i, at.lane(w, i), sp)
			bar.bytes += sign * int(w.r[n][i])
			if sign < 0 {
				bar.settle(b)
			}
		})
	}}
}

// mbarrierWait decodes test_wait and try_wait. A lane that waits lets the
// asynchronous operations of its mbarrier happen, as late as possible. With
// try the warp waits; when every warp of the cluster waits, it returns false.
func (c *compiler) mbarrierWait(m *syntax.Modifiers, try bool, ops []syntax.Operand) inst {
	parity := m.Has("parity")
	sp := c.takeSpace(m)
	if !c.operands(ops, 3, 4) {
		return inst{}
	}
	t := arith.Types["b64"]
	if parity {
		t = arith.Types["b32"]
	}
	d, at, state := c.outPred(ops[0]), c.memory(ops[1]), c.in(ops[2], t)
	test := func(w *warp, mask uint32) (done uint32) {
		eachLane(mask, func(i int) {
			bar, _ := w.mbarrierAt(i, at.lane(w, i), sp)
			want := state.get(w, i)
			if parity {
				want &= 1
			}
			over := func() bool { return !parity && bar.phase != want || parity && bar.phase&1 != want }
			if !over() {
				bar.drain(bar.phase)
			}
			if over() {
				done |= 1 << i
				bar.clocks.acquire(w)
			}
		})
		return done
	}
	if !try {
		return inst{step: func(w *warp, mask uint32) { w.setPred(d, test(w, mask), mask) }}
	}
	return inst{kind: kindWait, wait: func(w *warp, mask uint32) bool {
		done := test(w, mask)
		if done == 0 && !w.b.c.force {
			return false
		}
		w.setPred(d, done, mask)
		return true
	}}
}
