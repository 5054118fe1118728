package ptx

import (
	"math"
	"math/bits"
)

// slice is how many instructions a warp runs before others get a turn.
const slice = 1 << 14

// spins is how many atomic or ordered accesses end a slice early: what makes
// them may be waiting for another thread.
const spins = 64

// run executes until every fragment waits or has ended, or the slice is over.
// It reports how many instructions went ahead.
func (w *warp) run() int {
	done := 0
	w.strong = 0
	for done < slice && w.strong < spins {
		i := w.pick()
		if i < 0 {
			break
		}
		w.cur = i
		done += w.runFragment(slice - done)
	}
	if done >= slice || w.strong >= spins {
		w.turn++
	}
	w.steps += done
	return done
}

// pick returns the fragment to run: the lowest program counter among those
// that do not wait. After a whole slice the others have their turn, too, or a
// loop that waits for another lane of its own warp would never end.
func (w *warp) pick() int {
	best, ready := -1, 0
	for i := range w.frags {
		f := &w.frags[i]
		if f.blocked {
			continue
		}
		ready++
		if best < 0 || f.pc < w.frags[best].pc {
			best = i
		}
	}
	if w.turn == 0 || ready < 2 {
		return best
	}
	nth := w.turn % ready
	w.turn = 0
	for i := range w.frags {
		if !w.frags[i].blocked {
			if nth == 0 {
				return i
			}
			nth--
		}
	}
	return best
}

// limit is the lowest program counter above pc at which another fragment stands.
func (w *warp) limit(pc int32) int32 {
	limit := int32(math.MaxInt32)
	for i := range w.frags {
		if at := w.frags[i].pc; i != w.cur && at > pc && at < limit {
			limit = at
		}
	}
	return limit
}

// runFragment executes the current fragment until it waits, ends, splits or
// reaches another one, and reports how many instructions went ahead.
func (w *warp) runFragment(budget int) (n int) {
	f := &w.frags[w.cur]
	code := w.k.code
	limit := w.limit(f.pc)
	pc, active := f.pc, f.mask
	for n < budget && w.strong < spins {
		in := &code[pc]
		m := active & in.guard.of(w)
		w.pc = pc
		if w.k.matrix && m != 0 {
			w.track(in)
		}
		if in.kind == kindPlain {
			if m != 0 {
				in.step(w, m)
			}
			pc++
		} else if in.kind == kindBranch && (m == active || m == 0) {
			if pc++; m != 0 {
				pc = in.target
			}
		} else {
			f.pc = pc
			if w.control(in, m) {
				n++
			}
			return n
		}
		n++
		if pc >= limit {
			break
		}
	}
	f.pc = pc
	w.merge()
	return n
}

// merge joins fragments at one program counter.
func (w *warp) merge() {
	for i := 0; i < len(w.frags); i++ {
		for j := i + 1; j < len(w.frags); {
			a, b := &w.frags[i], &w.frags[j]
			if a.pc != b.pc || a.arrived || b.arrived {
				j++
				continue
			}
			a.mask |= b.mask
			a.blocked = false
			w.frags = append(w.frags[:j], w.frags[j+1:]...)
		}
	}
}

// control executes an instruction that may change the flow for lanes m of the
// current fragment, and reports whether it went ahead.
func (w *warp) control(in *inst, m uint32) bool {
	f := &w.frags[w.cur]
	if rest := f.mask &^ m; rest != 0 {
		if m == 0 {
			f.pc++
			w.merge()
			return true
		}
		f.mask = m
		w.frags = append(w.frags, fragment{pc: f.pc + 1, mask: rest})
		f = &w.frags[w.cur]
	}
	switch in.kind {
	case kindBranch:
		f.pc = in.target
		w.merge()
	case kindIndexed:
		w.indexed(in)
	case kindExit:
		w.exit(m)
	case kindConverge:
		return w.converge(in)
	case kindWait:
		return w.wait(in)
	}
	return true
}

// indexed sends each lane to the target that its index names.
func (w *warp) indexed(in *inst) {
	f := w.frags[w.cur]
	in.step(w, f.mask)
	w.frags = append(w.frags[:w.cur], w.frags[w.cur+1:]...)
	for m := f.mask; m != 0; m &= m - 1 {
		lane := bits.TrailingZeros32(m)
		i := w.t[lane]
		if int(i) >= len(in.targets) {
			w.fault(lane, "branch index %d of %d targets", i, len(in.targets))
		}
		w.frags = append(w.frags, fragment{pc: in.targets[i], mask: 1 << lane})
	}
	w.merge()
}

func (w *warp) exit(m uint32) {
	w.live &^= m
	w.frags = append(w.frags[:w.cur], w.frags[w.cur+1:]...)
	w.b.events++
}

// converge runs a .sync instruction once all lanes that it names are here.
func (w *warp) converge(in *inst) bool {
	f := &w.frags[w.cur]
	members := w.lanes
	if in.members != nil {
		members = in.members(w, f.mask) & w.lanes
	}
	if f.mask&^members != 0 {
		w.fault(bits.TrailingZeros32(f.mask&^members), "a lane outside the member mask %#x executes this", members)
	}
	if f.mask != members {
		f.blocked = true
		w.merge()
		return false
	}
	in.step(w, f.mask)
	f.pc++
	w.merge()
	return true
}

// wait asks whether the lanes may pass; if not, the warp is asked again later.
func (w *warp) wait(in *inst) bool {
	f := &w.frags[w.cur]
	if in.aligned && f.mask != w.lanes {
		f.blocked = true
		w.merge()
		return false
	}
	if !in.wait(w, f.mask) {
		w.frags[w.cur].blocked = true
		return false
	}
	f.pc++
	f.blocked, f.arrived = false, false
	w.merge()
	return true
}

// retry makes fragments at waiting instructions runnable again.
func (w *warp) retry() {
	for i := range w.frags {
		f := &w.frags[i]
		if f.blocked && w.k.code[f.pc].kind == kindWait {
			f.blocked = w.k.code[f.pc].aligned && f.mask != w.lanes
		}
	}
}
