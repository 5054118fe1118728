package ptx

import "math/bits"

// memberSlot decodes the member mask of a .sync instruction.
func (c *compiler) memberSlot(op operand) func(w *warp, mask uint32) uint32 {
	s := c.in32(op, types["b32"])
	return func(w *warp, mask uint32) uint32 { return w.r[s][bits.TrailingZeros32(mask)&31] }
}

// buildShfl decodes shfl.sync.
func buildShfl(c *compiler, m *modifiers, ops []operand) inst {
	if !m.has("sync") || !c.operands(ops, 5, 5) {
		c.fail("shfl without .sync")
		return inst{}
	}
	mode := m.take("up", "down", "bfly", "idx")
	t := c.typed(m)
	d, a := c.out32(ops[0]), c.in32(ops[1], t)
	b, e := c.in32(ops[2], types["u32"]), c.in32(ops[3], types["u32"])
	p := slot(-1)
	if ops[0].second != nil {
		p = c.outPred(*ops[0].second)
	}
	return inst{kind: kindConverge, members: c.memberSlot(ops[4]), step: func(w *warp, mask uint32) {
		var valid uint32
		w.t = w.r[a]
		for m := mask; m != 0; m &= m - 1 {
			i := bits.TrailingZeros32(m) & 31
			from, ok := shuffleSource(mode, uint32(i), w.r[b][i], w.r[e][i])
			if ok {
				valid |= 1 << i
			}
			if mask>>from&1 == 0 {
				w.fault(i, "shuffle from lane %d, which does not take part", from)
			}
			w.t2[i] = w.t[from]
		}
		blend(&w.r[d], &w.t2, mask)
		if p >= 0 {
			w.setPred(p, valid, mask)
		}
	}}
}

// shuffleSource returns the lane to read from, and whether it is in range; out
// of range a lane reads itself.
func shuffleSource(mode string, lane, b, c uint32) (uint32, bool) {
	b &= 31
	segment, clamp := c>>8&31, c&31
	top := lane&segment | clamp&^segment
	bottom := lane & segment
	from, ok := lane, false
	switch mode {
	case "up":
		from = lane - b
		ok = int32(from) >= int32(top)
	case "down":
		from = lane + b
		ok = from <= top
	case "bfly":
		from = lane ^ b
		ok = from <= top
	case "idx":
		from = bottom | b&^segment
		ok = from <= top
	}
	if !ok {
		from = lane
	}
	return from, ok
}

// buildVote decodes vote.sync.
func buildVote(c *compiler, m *modifiers, ops []operand) inst {
	if !m.has("sync") || !c.operands(ops, 3, 3) {
		c.fail("vote without .sync")
		return inst{}
	}
	mode := m.take("all", "any", "uni", "ballot")
	c.typed(m)
	p := c.inPred(ops[1])
	in := inst{kind: kindConverge, members: c.memberSlot(ops[2])}
	if mode == "ballot" {
		d := c.out32(ops[0])
		in.step = func(w *warp, mask uint32) {
			v := p.of(w) & mask
			eachLane(mask, func(i int) { w.r[d][i] = v })
		}
		return in
	}
	d := c.outPred(ops[0])
	in.step = func(w *warp, mask uint32) {
		v := p.of(w) & mask
		yes := mode == "all" && v == mask || mode == "any" && v != 0 || mode == "uni" && (v == 0 || v == mask)
		out := uint32(0)
		if yes {
			out = allLanes
		}
		w.setPred(d, out, mask)
	}
	return in
}

// buildMatch decodes match.any.sync and match.all.sync.
func buildMatch(c *compiler, m *modifiers, ops []operand) inst {
	mode := m.take("any", "all")
	if !m.has("sync") || !c.operands(ops, 3, 3) {
		c.fail("match without .sync")
		return inst{}
	}
	t := c.typed(m)
	d, a := c.out32(ops[0]), c.in(ops[1], t)
	p := slot(-1)
	if ops[0].second != nil {
		p = c.outPred(*ops[0].second)
	}
	return inst{kind: kindConverge, members: c.memberSlot(ops[2]), step: func(w *warp, mask uint32) {
		all := true
		eachLane(mask, func(i int) {
			var same uint32
			eachLane(mask, func(j int) {
				if a.get(w, i) == a.get(w, j) {
					same |= 1 << j
				}
			})
			w.t[i] = same
			all = all && same == mask
		})
		if mode == "all" {
			eachLane(mask, func(i int) { w.t[i] = uint32(pick(all, uint64(mask), 0)) })
		}
		blend(&w.r[d], &w.t, mask)
		if p >= 0 {
			w.setPred(p, uint32(pick(all, allLanes, 0)), mask)
		}
	}}
}

func buildActiveMask(c *compiler, m *modifiers, ops []operand) inst {
	c.typed(m)
	if !c.operands(ops, 1, 1) {
		return inst{}
	}
	d := c.out32(ops[0])
	return inst{step: func(w *warp, mask uint32) { eachLane(mask, func(i int) { w.r[d][i] = mask }) }}
}

// buildRedux decodes redux.sync: a reduction over the lanes of a mask.
func buildRedux(c *compiler, m *modifiers, ops []operand) inst {
	if !m.has("sync") || !c.operands(ops, 3, 3) {
		c.fail("redux without .sync")
		return inst{}
	}
	name := m.take("add", "min", "max", "and", "or", "xor")
	t := c.typed(m)
	f := values2(name, t)
	if f == nil || t.bits != 32 || t.float() {
		c.fail("unknown reduction .%s", name)
		return inst{}
	}
	d, a := c.out32(ops[0]), c.in32(ops[1], t)
	return inst{kind: kindConverge, members: c.memberSlot(ops[2]), step: func(w *warp, mask uint32) {
		first := bits.TrailingZeros32(mask) & 31
		v := extend(uint64(w.r[a][first]), t)
		eachLane(mask&^(1<<first), func(i int) { v = extend(f(v, extend(uint64(w.r[a][i]), t)), t) })
		eachLane(mask, func(i int) { w.r[d][i] = uint32(v) })
	}}
}

// buildElect decodes elect.sync: one lane, here the lowest, is the leader.
func buildElect(c *compiler, m *modifiers, ops []operand) inst {
	if !m.has("sync") || !c.operands(ops, 2, 2) || ops[0].second == nil {
		c.fail("elect without .sync")
		return inst{}
	}
	d, p := c.out32OrSink(ops[0]), c.outPred(*ops[0].second)
	return inst{kind: kindConverge, members: c.memberSlot(ops[1]), step: func(w *warp, mask uint32) {
		leader := bits.TrailingZeros32(mask)
		eachLane(mask, func(i int) { w.r[d][i] = uint32(leader) })
		w.setPred(p, 1<<leader, mask)
	}}
}

func (c *compiler) out32OrSink(op operand) slot {
	op.second = nil
	return c.out32(op)
}
