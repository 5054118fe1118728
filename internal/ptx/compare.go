package ptx

import "slices"

// comparisons are the operators of setp and set.
var comparisons = []string{
	"eq", "ne", "lt", "le", "gt", "ge", "lo", "ls", "hi", "hs",
	"equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan",
}

// compareInt returns the function of an integer comparison.
func compareInt(op string, t typ) func(a, b uint64) bool {
	s := t.signed()
	switch op {
	case "eq":
		return func(a, b uint64) bool { return a == b }
	case "ne":
		return func(a, b uint64) bool { return a != b }
	case "lt", "lo":
		return func(a, b uint64) bool { return lessThan(a, b, s) }
	case "le", "ls":
		return func(a, b uint64) bool { return !lessThan(b, a, s) }
	case "gt", "hi":
		return func(a, b uint64) bool { return lessThan(b, a, s) }
	case "ge", "hs":
		return func(a, b uint64) bool { return !lessThan(a, b, s) }
	}
	return nil
}

// compareFloat returns the function of a floating-point comparison; those with
// a u at the end hold for NaN.
func compareFloat(op string) func(a, b float64) bool {
	unordered := func(a, b float64) bool { return a != a || b != b }
	switch op {
	case "eq":
		return func(a, b float64) bool { return a == b }
	case "ne":
		return func(a, b float64) bool { return a < b || a > b }
	case "lt":
		return func(a, b float64) bool { return a < b }
	case "le":
		return func(a, b float64) bool { return a <= b }
	case "gt":
		return func(a, b float64) bool { return a > b }
	case "ge":
		return func(a, b float64) bool { return a >= b }
	case "num":
		return func(a, b float64) bool { return !unordered(a, b) }
	case "nan":
		return unordered
	}
	if base := compareFloat(trimU(op)); base != nil && op != trimU(op) {
		return func(a, b float64) bool { return unordered(a, b) || base(a, b) }
	}
	return nil
}

func trimU(op string) string {
	if len(op) == 3 && op[2] == 'u' {
		return op[:2]
	}
	return "?"
}

// compareLanes compares all lanes and returns the result as a mask.
func (c *compiler) compareLanes(op string, t typ, ftz bool, a, b ref) func(w *warp, mask uint32) uint32 {
	if t.float() {
		f := compareFloat(op)
		if f == nil || t.pack == 2 {
			c.fail("unknown comparison .%s", op)
			return nil
		}
		if t.bits == 32 && !ftz {
			return compareF32(f, a.slot, b.slot)
		}
		mode := floatMode{ftz: ftz}
		return compareEach(a, b, func(x, y uint64) bool { return f(flushed(t, mode, x), flushed(t, mode, y)) })
	}
	f := compareInt(op, t)
	if f == nil {
		c.fail("unknown comparison .%s", op)
		return nil
	}
	if t.bits == 32 && !a.wide && !b.wide {
		return compareWords(op, t.signed(), func(w *warp) (*v32, *v32) { return &w.r[a.slot], &w.r[b.slot] })
	}
	if t.bits == 64 && a.wide && b.wide {
		return compareWords(op, t.signed(), func(w *warp) (*v64, *v64) { return &w.q[a.slot], &w.q[b.slot] })
	}
	return compareEach(a, b, func(x, y uint64) bool { return f(extend(x, t), extend(y, t)) })
}

func compareEach(a, b ref, f func(x, y uint64) bool) func(w *warp, mask uint32) uint32 {
	return func(w *warp, mask uint32) (out uint32) {
		eachLane(mask, func(i int) {
			if f(a.get(w, i), b.get(w, i)) {
				out |= 1 << i
			}
		})
		return out
	}
}

func compareF32(f func(a, b float64) bool, a, b slot) func(w *warp, mask uint32) uint32 {
	return func(w *warp, _ uint32) (out uint32) {
		x, y := &w.r[a], &w.r[b]
		for i := range x {
			if f(float64(f32(x[i])), float64(f32(y[i]))) {
				out |= 1 << i
			}
		}
		return out
	}
}

// compareWords has loops for integers as wide as their registers; the other
// comparisons are these with operands or result exchanged.
func compareWords[T unsigned](op string, signed bool,
	get func(w *warp) (x, y *[warpSize]T)) func(w *warp, mask uint32) uint32 {
	flip, bias := uint32(0), T(0)
	if signed {
		bias = ^(^T(0) >> 1)
	}
	if slices.Contains([]string{"ne", "ge", "hs", "le", "ls"}, op) {
		flip = allLanes
	}
	swap := slices.Contains([]string{"gt", "hi", "le", "ls"}, op)
	if op == "eq" || op == "ne" {
		return func(w *warp, _ uint32) (out uint32) {
			x, y := get(w)
			for i := range x {
				if x[i] == y[i] {
					out |= 1 << i
				}
			}
			return out ^ flip
		}
	}
	return func(w *warp, _ uint32) (out uint32) {
		x, y := get(w)
		if swap {
			x, y = y, x
		}
		for i := range x {
			if x[i]^bias < y[i]^bias {
				out |= 1 << i
			}
		}
		return out ^ flip
	}
}

// buildSetp decodes setp, with its second destination and its combination.
func buildSetp(c *compiler, m *modifiers, ops []operand) inst {
	if !c.operands(ops, 3, 4) {
		return inst{}
	}
	op := m.take(comparisons...)
	logic := m.take("and", "or", "xor")
	ftz := m.has("ftz")
	t := c.typed(m)
	d, a, b := c.outPred(ops[0]), c.in(ops[1], t), c.in(ops[2], t)
	compare := c.compareLanes(op, t, ftz, a, b)
	second := slot(-1)
	if ops[0].second != nil {
		second = c.outPred(*ops[0].second)
	}
	with := predicate{}
	if (len(ops) == 4) != (logic != "") {
		c.fail("setp with a combination needs a fourth operand")
	} else if logic != "" {
		with = c.inPred(ops[3])
	}
	return inst{step: func(w *warp, mask uint32) {
		v := compare(w, mask)
		other := with.of(w)
		w.setPred(d, combine(logic, v, other), mask)
		if second >= 0 {
			w.setPred(second, combine(logic, ^v, other), mask)
		}
	}}
}

func combine(logic string, v, with uint32) uint32 {
	switch logic {
	case "and":
		return v & with
	case "or":
		return v | with
	case "xor":
		return v ^ with
	}
	return v
}

// buildSet decodes set: a comparison whose result is a number.
func buildSet(c *compiler, m *modifiers, ops []operand) inst {
	if !c.operands(ops, 3, 3) {
		return inst{}
	}
	op := m.take(comparisons...)
	ftz := m.has("ftz")
	to, t := c.typed(m), c.typed(m)
	d, a, b := c.out(ops[0], to), c.in(ops[1], t), c.in(ops[2], t)
	compare := c.compareLanes(op, t, ftz, a, b)
	yes := extend(^uint64(0), unsignedOf(typ{'u', to.bits, 1}))
	if to.float() {
		yes = fromFloat(to, 1, roundNearest)
	}
	return inst{step: func(w *warp, mask uint32) {
		v := compare(w, mask)
		eachLane(mask, func(i int) { d.set(w, i, pick(v>>i&1 != 0, yes, 0)) })
	}}
}

// buildSelp decodes selp: one of two values by a predicate.
func buildSelp(c *compiler, m *modifiers, ops []operand) inst {
	t := c.typed(m)
	if !c.operands(ops, 4, 4) {
		return inst{}
	}
	d, a, b, p := c.out(ops[0], t), c.in(ops[1], t), c.in(ops[2], t), c.inPred(ops[3])
	if d.wide {
		return inst{step: func(w *warp, mask uint32) {
			yes := p.of(w)
			eachLane(mask, func(i int) { d.set(w, i, pick(yes>>i&1 != 0, a.get(w, i), b.get(w, i))) })
		}}
	}
	return inst{step: func(w *warp, mask uint32) {
		yes, x, y := p.of(w), &w.r[a.slot], &w.r[b.slot]
		to := &w.r[d.slot]
		if mask != w.live {
			to = &w.t
		}
		for i := range to {
			v := y[i]
			if yes>>i&1 != 0 {
				v = x[i]
			}
			to[i] = v
		}
		if mask != w.live {
			blend(&w.r[d.slot], to, mask)
		}
	}}
}

// buildSlct decodes slct: one of two values by the sign of a third.
func buildSlct(c *compiler, m *modifiers, ops []operand) inst {
	m.drop("ftz")
	t, by := c.typed(m), c.typed(m)
	if !c.operands(ops, 4, 4) {
		return inst{}
	}
	d, a, b, s := c.out(ops[0], t), c.in(ops[1], t), c.in(ops[2], t), c.in(ops[3], by)
	return inst{step: lanes3(d, a, b, s, func(x, y, z uint64) uint64 {
		if by.float() {
			return pick(f32(uint32(z)) >= 0, x, y)
		}
		return pick(int32(z) >= 0, x, y)
	})}
}
