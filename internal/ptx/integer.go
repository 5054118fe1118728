package ptx

import (
	"math/bits"

	"parley/internal/ptx/arith"
)

type unsigned interface{ uint32 | uint64 }

// blend copies the lanes of mask.
func blend[T unsigned](d, s *[arith.WarpSize]T, mask uint32) {
	for ; mask != 0; mask &= mask - 1 {
		i := bits.TrailingZeros32(mask) & 31
		d[i] = s[i]
	}
}

// The steps of pure functions compute all lanes, into scratch memory when some
// are not active, so that loops have no conditions.

func unary32(d, a slot, op func(d, a *arith.Lanes32)) step {
	return func(w *warp, mask uint32) {
		if mask == w.live {
			op(&w.r[d], &w.r[a])
			return
		}
		op(&w.t, &w.r[a])
		blend(&w.r[d], &w.t, mask)
	}
}

func binary32(d, a, b slot, op func(d, a, b *arith.Lanes32)) step {
	return func(w *warp, mask uint32) {
		if mask == w.live {
			op(&w.r[d], &w.r[a], &w.r[b])
			return
		}
		op(&w.t, &w.r[a], &w.r[b])
		blend(&w.r[d], &w.t, mask)
	}
}

func ternary32(d, a, b, c slot, op func(d, a, b, c *arith.Lanes32)) step {
	return func(w *warp, mask uint32) {
		if mask == w.live {
			op(&w.r[d], &w.r[a], &w.r[b], &w.r[c])
			return
		}
		op(&w.t, &w.r[a], &w.r[b], &w.r[c])
		blend(&w.r[d], &w.t, mask)
	}
}

func binary64(d, a, b slot, op func(d, a, b *arith.Lanes64)) step {
	return func(w *warp, mask uint32) {
		if mask == w.live {
			op(&w.q[d], &w.q[a], &w.q[b])
			return
		}
		op(&w.u, &w.q[a], &w.q[b])
		blend(&w.q[d], &w.u, mask)
	}
}

// lanes1, lanes2 and lanes3 apply a function of values to each lane: for
// instructions that are not on hot paths, of any width.
func lanes1(d, a ref, f func(a uint64) uint64) step {
	return func(w *warp, mask uint32) {
		for ; mask != 0; mask &= mask - 1 {
			i := bits.TrailingZeros32(mask) & 31
			d.set(w, i, f(a.get(w, i)))
		}
	}
}

func lanes2(d, a, b ref, f func(a, b uint64) uint64) step {
	return func(w *warp, mask uint32) {
		for ; mask != 0; mask &= mask - 1 {
			i := bits.TrailingZeros32(mask) & 31
			d.set(w, i, f(a.get(w, i), b.get(w, i)))
		}
	}
}

func lanes3(d, a, b, c ref, f func(a, b, c uint64) uint64) step {
	return func(w *warp, mask uint32) {
		for ; mask != 0; mask &= mask - 1 {
			i := bits.TrailingZeros32(mask) & 31
			d.set(w, i, f(a.get(w, i), b.get(w, i), c.get(w, i)))
		}
	}
}

// hotStep returns the fast step of a two-operand instruction, if it has one.
func hotStep(name string, t arith.Type, d, a, b ref) step {
	key := name + "." + string(t.Class)
	if t.Bits == 32 && t.Pack == 1 && !d.wide && !a.wide && !b.wide {
		if op, ok := arith.FirstOf(arith.HotInt32, name, key); ok {
			return binary32(d.slot, a.slot, b.slot, op)
		}
	}
	if t.Bits == 64 && d.wide && a.wide && !b.wide && (name == "shl" || name == "shr" && !t.Signed()) {
		return shiftStep(d.slot, a.slot, b.slot, name == "shl")
	}
	if t.Bits == 64 && d.wide && a.wide && b.wide {
		if op, ok := arith.FirstOf(arith.HotInt64, name, key); ok {
			return binary64(d.slot, a.slot, b.slot, op)
		}
	}
	return nil
}

// shiftStep shifts 64-bit values by 32-bit counts.
func shiftStep(d, a, b slot, left bool) step {
	return func(w *warp, mask uint32) {
		from, by, to := &w.q[a], &w.r[b], &w.q[d]
		if mask != w.live {
			to = &w.u
		}
		if left {
			for i := range to {
				to[i] = from[i] << by[i]
			}
		} else {
			for i := range to {
				to[i] = from[i] >> by[i]
			}
		}
		if mask != w.live {
			blend(&w.q[d], to, mask)
		}
	}
}
