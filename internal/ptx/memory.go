package ptx

import (
	"encoding/binary"
	"math/bits"

	"parley/internal/ptx/arith"
	"parley/internal/ptx/syntax"
)

var le = binary.LittleEndian

type space byte

const (
	spaceGeneric space = iota
	spaceGlobal
	spaceShared
	spaceLocal
	spaceParam
)

// An access describes one memory operation, for checks and messages.
type access struct {
	space space
	size  int // bytes per lane
	write bool

	strong bool // volatile, atomic or ordered: no race by itself
}

// bytes returns the memory that a lane accesses, after all checks.
func (w *warp) bytes(a *access, lane int, addr uint64) []byte {
	if addr&uint64(a.size-1) != 0 && w.b.run.d.options.Without&CheckAlignment == 0 {
		w.faultAt(lane, addr, "misaligned access of %d bytes", a.size)
	}
	sp := a.space
	if sp == spaceGeneric {
		sp, addr = w.resolve(lane, addr)
	}
	switch sp {
	case spaceShared:
		return w.sharedBytes(a, lane, addr)
	case spaceLocal:
		if addr < 16 || addr+uint64(a.size) > uint64(w.k.LocalBytes) {
			w.faultAt(lane, addr, "access of %d bytes outside the %d bytes of local memory", a.size, w.k.LocalBytes)
		}
		return w.local[uint64(lane*w.k.LocalBytes)+addr:][:a.size]
	case spaceParam:
		params := w.b.run.params
		if addr+uint64(a.size) > uint64(len(params)) || a.write {
			w.faultAt(lane, addr, "access of %d bytes outside the %d bytes of parameters", a.size, len(params))
		}
		return params[addr:][:a.size]
	}
	return w.globalBytes(lane, addr, a.size)
}

// globalBytes returns n bytes of device memory.
func (w *warp) globalBytes(lane int, addr uint64, n int) []byte {
	if a := w.last; a != nil {
		if at := addr - a.base; at < a.size && at+uint64(n) <= a.size {
			return a.data[at : at+uint64(n)]
		}
	}
	a := findIn(w.b.run.memory, addr)
	if reason := outside(a, addr, n); reason != "" {
		w.faultAt(lane, addr, "access of %d bytes outside device memory: %s", n, reason)
	}
	w.last = a
	return a.data[addr-a.base:][:n]
}

// resolve maps a generic address to its space.
func (w *warp) resolve(lane int, addr uint64) (space, uint64) {
	switch {
	case addr < sharedWindow:
		return spaceGlobal, addr
	case addr < localWindow:
		return spaceShared, addr - sharedWindow
	case addr < paramWindow:
		return spaceLocal, addr - localWindow
	case addr < paramWindow+windowBytes:
		return spaceParam, addr - paramWindow
	}
	w.faultAt(lane, addr, "access to an address of no space")
	return 0, 0
}

// sharedBytes returns shared memory of this block, or of another one of the
// cluster when the address names one.
func (w *warp) sharedBytes(a *access, lane int, addr uint64) []byte {
	b, at := w.sharedBlock(lane, addr)
	if at < sharedBase || at+uint64(a.size) > uint64(len(b.shared)) {
		w.faultAt(lane, addr, "access of %d bytes outside the %d bytes of shared memory that start at %#x",
			a.size, len(b.shared)-sharedBase, sharedBase)
	}
	if b.shadow != nil {
		b.shadow.check(w, lane, int(at), a)
	}
	return b.shared[at:][:a.size]
}

// rankShift is where a shared::cluster address holds the rank of its block,
// plus one; an address of the block's own memory has zero there.
const rankShift = 24

func (w *warp) sharedBlock(lane int, addr uint64) (*block, uint64) {
	rank := addr >> rankShift
	if rank == 0 {
		return w.b, addr
	}
	if rank > uint64(len(w.b.c.blocks)) {
		w.faultAt(lane, addr, "access outside the shared memory of the cluster")
	}
	return w.b.c.blocks[rank-1], addr & (1<<rankShift - 1)
}

// An addressing computes the addresses of a warp's lanes.
type addressing struct {
	base   ref
	offset uint64
}

// memory decodes an address operand: [register+offset], [variable+offset] or
// [constant].
func (c *compiler) memory(op syntax.Operand) addressing {
	if op.Kind != syntax.AddressOperand || len(op.List) != 1 {
		c.fail("an address in brackets must stand here")
		return addressing{}
	}
	return c.addressOf(op.List[0])
}

func (c *compiler) addressOf(in syntax.Operand) addressing {
	t := arith.Types["u64"]
	if in.Kind == syntax.NameOperand {
		if sym, ok := c.scope.lookup(in.Name); ok && (sym.kind == symReg64 || sym.kind == symReg32) {
			bare := in
			bare.Offset = 0
			return addressing{c.in(bare, t), uint64(in.Offset)}
		}
	}
	return addressing{ref{slot: c.in64(in, t), wide: true}, 0}
}

// fill computes the addresses into w.ea.
func (a addressing) fill(w *warp) *arith.Lanes64 {
	if a.base.wide {
		q := &w.q[a.base.slot]
		for i := range w.ea {
			w.ea[i] = q[i] + a.offset
		}
		return &w.ea
	}
	r := &w.r[a.base.slot]
	for i := range w.ea {
		w.ea[i] = uint64(r[i] + uint32(a.offset))
	}
	return &w.ea
}

func (a addressing) lane(w *warp, lane int) uint64 {
	if a.base.wide {
		return a.base.get(w, lane) + a.offset
	}
	return uint64(w.r[a.base.slot][lane] + uint32(a.offset))
}

// takeSpace reads the state space of an opcode.
func (c *compiler) takeSpace(m *syntax.Modifiers) space {
	switch m.Take("global", "const", "shared", "shared::cta", "shared::cluster", "local", "param", "param::entry",
		"param::func") {
	case "global", "const":
		return spaceGlobal
	case "shared", "shared::cta", "shared::cluster":
		return spaceShared
	case "local":
		return spaceLocal
	case "param", "param::entry", "param::func":
		return spaceParam
	}
	return spaceGeneric
}

// paramSpace says whether a .param address is the kernel's buffer or an
// argument of a call, which lives in local memory.
func (c *compiler) paramSpace(op syntax.Operand) space {
	if op.Kind == syntax.AddressOperand && len(op.List) == 1 {
		if sym, ok := c.scope.lookup(op.List[0].Name); ok {
			switch sym.kind {
			case symLocal:
				return spaceLocal
			case symParam:
				return spaceParam
			}
		}
	}
	if len(c.ends) > 0 {
		return spaceLocal
	}
	return spaceParam
}

// dropHints removes cache and eviction modifiers, which have no effect here.
func dropHints(m *syntax.Modifiers) {
	m.Drop("nc", "ca", "cg", "cs", "lu", "cv", "wb", "wt",
		"L1::evict_normal", "L1::evict_unchanged", "L1::evict_first", "L1::evict_last", "L1::no_allocate",
		"L2::evict_normal", "L2::evict_first", "L2::evict_last",
		"L2::cache_hint", "L2::64B", "L2::128B", "L2::256B", "unified")
}

// ordered removes the memory order and scope, and says whether the access is
// stronger than a plain one.
func ordered(m *syntax.Modifiers) bool {
	strong := m.Take("volatile", "relaxed", "acquire", "release", "acq_rel", "mmio") != ""
	m.Drop("cta", "cluster", "gpu", "sys")
	return strong
}

func (c *compiler) elements(op syntax.Operand, n int) []syntax.Operand {
	if n == 1 && op.Kind != syntax.VectorOperand {
		return []syntax.Operand{op}
	}
	if op.Kind != syntax.VectorOperand || len(op.List) != n {
		c.fail("a vector of %d elements must stand here", n)
		return make([]syntax.Operand, n)
	}
	return op.List
}

func buildLoad(c *compiler, m *syntax.Modifiers, ops []syntax.Operand) inst {
	dropHints(m)
	strong := ordered(m)
	sp := c.takeSpace(m)
	n := m.VectorSize()
	t := c.typed(m)
	if !c.operands(ops, 2, 3) {
		return inst{}
	}
	if sp == spaceParam {
		sp = c.paramSpace(ops[1])
	}
	var dst []ref
	for _, e := range c.elements(ops[0], n) {
		dst = append(dst, c.out(e, t))
	}
	a := &access{space: sp, size: t.Size() * n, strong: strong}
	return inst{step: loadStep(dst, c.memory(ops[1]), a, t)}
}

// loadStep returns the step of a load; 4-byte elements in narrow registers,
// the common case, have a loop of their own.
func loadStep(dst []ref, addr addressing, a *access, t arith.Type) step {
	size := t.Size()
	plain := size == 4
	for _, d := range dst {
		plain = plain && !d.wide
	}
	return func(w *warp, mask uint32) {
		ea := addr.fill(w)
		if a.strong {
			w.b.run.d.atomics.Lock()
			defer w.b.run.d.atomics.Unlock()
			w.strong++
		}
		for m := mask; m != 0; m &= m - 1 {
			lane := bits.TrailingZeros32(m) & 31
			data := w.bytes(a, lane, ea[lane])
			if plain {
				for i := range dst {
					w.r[dst[i].slot][lane] = le.Uint32(data[4*i:])
				}
				continue
			}
			for i, d := range dst {
				d.set(w, lane, arith.Load(data[size*i:], size, t.Signed(), d.wide))
			}
		}
	}
}

func buildStore(c *compiler, m *syntax.Modifiers, ops []syntax.Operand) inst {
	dropHints(m)
	strong := ordered(m)
	sp := c.takeSpace(m)
	n := m.VectorSize()
	t := c.typed(m)
	if !c.operands(ops, 2, 3) {
		return inst{}
	}
	if sp == spaceParam {
		sp = c.paramSpace(ops[0])
	}
	var src []ref
	for _, e := range c.elements(ops[1], n) {
		src = append(src, c.in(e, t))
	}
	a := &access{space: sp, size: t.Size() * n, write: true, strong: strong}
	return inst{step: storeStep(c.memory(ops[0]), src, a, t.Size())}
}

func storeStep(addr addressing, src []ref, a *access, size int) step {
	return func(w *warp, mask uint32) {
		ea := addr.fill(w)
		if a.strong {
			w.b.run.d.atomics.Lock()
			defer w.b.run.d.atomics.Unlock()
			w.strong++
		}
		for m := mask; m != 0; m &= m - 1 {
			lane := bits.TrailingZeros32(m) & 31
			w.conflict = false
			data := w.bytes(a, lane, ea[lane])
			if w.conflict {
				w.sameValue(lane, ea[lane], data, src, size)
			}
			for i, s := range src {
				arith.Store(data[size*i:], size, s.get(w, lane))
			}
		}
	}
}

// sameValue allows two lanes of a warp to store to one place only if they
// store the same.
func (w *warp) sameValue(lane int, addr uint64, data []byte, src []ref, size int) {
	for i, s := range src {
		if arith.Load(data[size*i:], size, false, true) != arith.Extend(s.get(w, lane), arith.Scalar('u', 8*size)) {
			w.faultAt(lane, addr,
				"race in shared memory: two lanes of one warp write different values without bar.warp.sync between")
		}
	}
}
