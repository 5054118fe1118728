package ptx

import (
	"math/bits"
)

type unsigned interface{ uint32 | uint64 }
type signed interface{ int32 | int64 }

// blend copies the lanes of mask.
func blend[T unsigned](d, s *[warpSize]T, mask uint32) {
	for ; mask != 0; mask &= mask - 1 {
		i := bits.TrailingZeros32(mask) & 31
		d[i] = s[i]
	}
}

// The steps of pure functions compute all lanes, into scratch memory when some
// are not active, so that loops have no conditions.

func unary32(d, a slot, op func(d, a *v32)) step {
	return func(w *warp, mask uint32) {
		if mask == w.live {
			op(&w.r[d], &w.r[a])
			return
		}
		op(&w.t, &w.r[a])
		blend(&w.r[d], &w.t, mask)
	}
}

func binary32(d, a, b slot, op func(d, a, b *v32)) step {
	return func(w *warp, mask uint32) {
		if mask == w.live {
			op(&w.r[d], &w.r[a], &w.r[b])
			return
		}
		op(&w.t, &w.r[a], &w.r[b])
		blend(&w.r[d], &w.t, mask)
	}
}

func ternary32(d, a, b, c slot, op func(d, a, b, c *v32)) step {
	return func(w *warp, mask uint32) {
		if mask == w.live {
			op(&w.r[d], &w.r[a], &w.r[b], &w.r[c])
			return
		}
		op(&w.t, &w.r[a], &w.r[b], &w.r[c])
		blend(&w.r[d], &w.t, mask)
	}
}

func binary64(d, a, b slot, op func(d, a, b *v64)) step {
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

func addLanes[T unsigned](d, a, b *[warpSize]T) {
	for i := range d {
		d[i] = a[i] + b[i]
	}
}

func subLanes[T unsigned](d, a, b *[warpSize]T) {
	for i := range d {
		d[i] = a[i] - b[i]
	}
}

func mulLanes[T unsigned](d, a, b *[warpSize]T) {
	for i := range d {
		d[i] = a[i] * b[i]
	}
}

func andLanes[T unsigned](d, a, b *[warpSize]T) {
	for i := range d {
		d[i] = a[i] & b[i]
	}
}

func orLanes[T unsigned](d, a, b *[warpSize]T) {
	for i := range d {
		d[i] = a[i] | b[i]
	}
}

func xorLanes[T unsigned](d, a, b *[warpSize]T) {
	for i := range d {
		d[i] = a[i] ^ b[i]
	}
}

func minLanes[T unsigned](d, a, b *[warpSize]T) {
	for i := range d {
		d[i] = min(a[i], b[i])
	}
}

func maxLanes[T unsigned](d, a, b *[warpSize]T) {
	for i := range d {
		d[i] = max(a[i], b[i])
	}
}

func minSigned[S signed, T unsigned](d, a, b *[warpSize]T) {
	for i := range d {
		d[i] = T(min(S(a[i]), S(b[i])))
	}
}

func maxSigned[S signed, T unsigned](d, a, b *[warpSize]T) {
	for i := range d {
		d[i] = T(max(S(a[i]), S(b[i])))
	}
}

func shlLanes(d, a, b *v32) {
	for i := range d {
		d[i] = a[i] << b[i]
	}
}

func shrLanes(d, a, b *v32) {
	for i := range d {
		d[i] = a[i] >> b[i]
	}
}

func sarLanes(d, a, b *v32) {
	for i := range d {
		d[i] = uint32(int32(a[i]) >> b[i])
	}
}

// hot32 and hot64 are the integer instructions with a loop of their own, by
// name and class; the class is left out where it makes no difference.
var hot32 = map[string]func(d, a, b *v32){
	"add": addLanes[uint32], "sub": subLanes[uint32], "mul": mulLanes[uint32],
	"and": andLanes[uint32], "or": orLanes[uint32], "xor": xorLanes[uint32],
	"min.u": minLanes[uint32], "max.u": maxLanes[uint32],
	"min.s": minSigned[int32, uint32], "max.s": maxSigned[int32, uint32],
	"shl": shlLanes, "shr.u": shrLanes, "shr.b": shrLanes, "shr.s": sarLanes,
}

var hot64 = map[string]func(d, a, b *v64){
	"add": addLanes[uint64], "sub": subLanes[uint64], "mul": mulLanes[uint64],
	"and": andLanes[uint64], "or": orLanes[uint64], "xor": xorLanes[uint64],
	"min.u": minLanes[uint64], "max.u": maxLanes[uint64],
	"min.s": minSigned[int64, uint64], "max.s": maxSigned[int64, uint64],
}

// hotStep returns the fast step of a two-operand instruction, if it has one.
func hotStep(name string, t typ, d, a, b ref) step {
	key := name + "." + string(t.class)
	if t.bits == 32 && t.pack == 1 && !d.wide && !a.wide && !b.wide {
		if op, ok := firstOf(hot32, name, key); ok {
			return binary32(d.slot, a.slot, b.slot, op)
		}
	}
	if t.bits == 64 && d.wide && a.wide && !b.wide && (name == "shl" || name == "shr" && !t.signed()) {
		return shiftStep(d.slot, a.slot, b.slot, name == "shl")
	}
	if t.bits == 64 && d.wide && a.wide && b.wide {
		if op, ok := firstOf(hot64, name, key); ok {
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

func firstOf[T any](table map[string]T, keys ...string) (v T, ok bool) {
	for _, key := range keys {
		if v, ok = table[key]; ok {
			return v, true
		}
	}
	return v, false
}

// extend reads the low bits of v as a value of type t.
func extend(v uint64, t typ) uint64 {
	if t.bits >= 64 {
		return v
	}
	if t.class == 's' {
		return uint64(int64(v<<(64-t.bits)) >> (64 - t.bits))
	}
	return v & (1<<t.bits - 1)
}

// values2 are two-operand integer instructions on values extended by their
// type; results are cut to the destination's width.
func values2(name string, t typ) func(a, b uint64) uint64 {
	s := t.signed()
	width := uint64(t.bits)
	switch name {
	case "add":
		return func(a, b uint64) uint64 { return a + b }
	case "sub":
		return func(a, b uint64) uint64 { return a - b }
	case "mul":
		return func(a, b uint64) uint64 { return a * b }
	case "and":
		return func(a, b uint64) uint64 { return a & b }
	case "or":
		return func(a, b uint64) uint64 { return a | b }
	case "xor":
		return func(a, b uint64) uint64 { return a ^ b }
	case "shl":
		return func(a, b uint64) uint64 { return a << min(b, width) }
	case "shr":
		if s {
			return func(a, b uint64) uint64 { return uint64(int64(a) >> min(b, width)) }
		}
		return func(a, b uint64) uint64 { return a >> min(b, width) }
	case "min":
		return func(a, b uint64) uint64 { return pick(lessThan(a, b, s), a, b) }
	case "max":
		return func(a, b uint64) uint64 { return pick(lessThan(a, b, s), b, a) }
	case "div":
		return func(a, b uint64) uint64 { return quotient(a, b, s) }
	case "rem":
		return func(a, b uint64) uint64 { return remainder(a, b, s) }
	}
	return nil
}

func pick(first bool, a, b uint64) uint64 {
	if first {
		return a
	}
	return b
}

func lessThan(a, b uint64, signed bool) bool {
	if signed {
		return int64(a) < int64(b)
	}
	return a < b
}

// quotient is what hardware computes; division by zero has no result that a
// program may rely on, and gives all ones here.
func quotient(a, b uint64, signed bool) uint64 {
	switch {
	case b == 0:
		return ^uint64(0)
	case signed && b == ^uint64(0):
		return -a
	case signed:
		return uint64(int64(a) / int64(b))
	}
	return a / b
}

func remainder(a, b uint64, signed bool) uint64 {
	switch {
	case b == 0:
		return a
	case signed && b == ^uint64(0):
		return 0
	case signed:
		return uint64(int64(a) % int64(b))
	}
	return a % b
}
