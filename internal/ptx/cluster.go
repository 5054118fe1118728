package ptx

import (
	"fmt"
	"math/bits"
	"slices"
	"strings"

	"parley/internal/ptx/arith"
)

// together is how many clusters a worker runs at once when they wait for each other.
const together = 32

// patience is how many instructions a cluster runs before the next one may
// start beside it: it may be waiting for that one.
const patience = 1 << 18

// work runs clusters until there are none left. A cluster that does not end
// within its patience runs on beside the next ones.
func (k *worker) work(clusters int) {
	var active []*cluster
	for {
		if len(active) < together {
			if at, ok := k.l.take(clusters); ok {
				active = append(active, k.start(at))
			}
		}
		if len(active) == 0 {
			return
		}
		for i := 0; i < len(active); {
			done, err := active[i].advance()
			if err != nil {
				k.l.failed(active[i].number, err)
				return
			}
			if !done {
				i++
				continue
			}
			k.l.idle.Put(active[i])
			active = append(active[:i], active[i+1:]...)
		}
	}
}

// start makes a cluster ready, in the memory of one that has ended if there is
// one: its constants are in place, and its clocks rise on.
func (k *worker) start(number int) *cluster {
	c, ok := k.l.idle.Get().(*cluster)
	if !ok {
		c = k.l.newCluster()
	}
	for _, w := range c.warps {
		c.base = max(c.base, w.clock+1)
	}
	c.run, c.number, c.steps, c.force, c.stuck = k.l, number, 0, false, 0
	c.bar = barrier{}
	l := k.l
	per := Dim{l.grid[0] / l.cluster[0], l.grid[1] / l.cluster[1], l.grid[2] / l.cluster[2]}
	origin := Dim{number % per[0], number / per[0] % per[1], number / (per[0] * per[1])}
	for i, b := range c.blocks {
		in := Dim{i % l.cluster[0], i / l.cluster[0] % l.cluster[1], i / (l.cluster[0] * l.cluster[1])}
		for d := range 3 {
			b.at[d] = origin[d]*l.cluster[d] + in[d]
		}
		b.run = l
		b.reset(c.base)
	}
	return c
}

func (l *launch) newCluster() *cluster {
	c := &cluster{run: l, base: 1}
	warps := (l.block.count() + arith.WarpSize - 1) / arith.WarpSize
	all := warps * l.cluster.count()
	for rank := range l.cluster.count() {
		b := &block{run: l, c: c, rank: rank, shared: make([]byte, l.k.dynamic+l.dynamic)}
		b.shadow = newShadow(b, all)
		for id := range warps {
			w := &warp{b: b, k: l.k, id: id, index: len(c.warps)}
			w.r, w.q, w.p = slices.Clone(l.r), slices.Clone(l.q), make([]uint32, l.k.npred)
			w.local = make([]byte, l.k.LocalBytes*arith.WarpSize)
			w.seen, w.proxy = make([]uint64, all), make([]uint64, all)
			b.warps, c.warps = append(b.warps, w), append(c.warps, w)
		}
		c.blocks = append(c.blocks, b)
	}
	return c
}

func (b *block) reset(base uint64) {
	b.barriers = [16]barrier{}
	b.mbars = map[uint32]*mbarrier{}
	poison(b.shared)
	if b.shadow != nil {
		b.shadow.reset()
	}
	for _, w := range b.warps {
		w.reset(base)
	}
}

func (w *warp) reset(base uint64) {
	clear(w.p)
	w.p[0] = arith.AllLanes
	threads := w.b.run.block.count() - w.id*arith.WarpSize
	w.lanes = arith.AllLanes
	if threads < arith.WarpSize {
		w.lanes = 1<<threads - 1
	}
	w.live = w.lanes
	w.frags = append(w.frags[:0], fragment{mask: w.lanes})
	w.pc, w.steps, w.turn = 0, 0, 0
	w.clock = base + 1
	for i := range w.seen {
		w.seen[i], w.proxy[i] = base, base
	}
	w.copies, w.wg = asyncCopies{}, newMatrixGroups(w)
	w.last = nil
	for _, s := range w.k.specials {
		for lane := range arith.WarpSize {
			ref{slot: s.slot, wide: s.wide}.set(w, lane, s.fill(w, lane))
		}
	}
}

// advance runs the cluster's warps in turn until all have ended, or for its
// patience. A panic that is not a fault of the kernel passes through.
func (c *cluster) advance() (done bool, err error) {
	defer func() {
		if p := recover(); p != nil {
			f, ok := p.(*Fault)
			if !ok {
				panic(p)
			}
			err = f
		}
	}()
	for budget := patience; budget > 0; {
		moved, live := 0, 0
		for _, w := range c.warps {
			if len(w.frags) == 0 {
				continue
			}
			w.retry()
			moved += w.run()
			live += len(w.frags)
			if w.steps > c.run.d.options.Instructions {
				w.fault(0, "the kernel has not ended after %d instructions of one warp", w.steps)
			}
		}
		budget -= moved
		if live == 0 {
			c.checkEnd()
			return true, nil
		}
		if moved == 0 {
			c.unlock()
		}
	}
	return false, nil
}

// unlock deals with a cluster in which every warp waits: waits with a time
// limit return once, and if that changes nothing the cluster is at a deadlock.
func (c *cluster) unlock() {
	events := uint64(1)
	for _, b := range c.blocks {
		events += b.events
	}
	if c.force || events == c.stuck || !c.timed() {
		c.deadlock()
	}
	c.stuck, c.force = events, true
	for _, w := range c.warps {
		w.retry()
		w.run()
	}
	c.force = false
}

// timed reports whether a fragment waits at an instruction that gives up after
// a while.
func (c *cluster) timed() bool {
	for _, w := range c.warps {
		for _, f := range w.frags {
			if strings.Contains(w.k.code[f.pc].text, "try_wait") {
				return true
			}
		}
	}
	return false
}

// deadlock ends the launch: it names the first fragment that is at an
// instruction which needs lanes that are elsewhere, or else the first that
// waits, and lists where all warps are.
func (c *cluster) deadlock() {
	var where []string
	var first, divergent *Fault
	for _, w := range c.warps {
		for i, f := range w.frags {
			in := &w.k.code[f.pc]
			w.pc, w.cur = f.pc, i
			lane := bits.TrailingZeros32(f.mask)
			where = append(where, fmt.Sprintf("block %v warp %d lanes %#x at line %d (%s)", [3]int(w.b.at), w.id,
				f.mask, in.line, in.text))
			split := in.kind == kindConverge || in.kind == kindWait && in.aligned && f.mask != w.lanes
			if split && divergent == nil {
				divergent = w.newFault(lane,
					"divergence: lanes %#x wait at an instruction that lanes %#x of the warp do not reach",
					f.mask, w.missing(in, f.mask))
			}
			if first == nil {
				first = w.newFault(lane, "deadlock: no warp of the block can continue%s", w.awaited())
			}
		}
	}
	if divergent != nil {
		first = divergent
	}
	if len(where) > 12 {
		where = append(where[:12], fmt.Sprintf("and %d more", len(where)-12))
	}
	first.Reason += "; waiting: " + strings.Join(where, ", ")
	panic(first)
}

// missing returns the lanes that instruction in needs beside mask.
func (w *warp) missing(in *inst, mask uint32) uint32 {
	if in.members != nil {
		return in.members(w, mask) & w.lanes &^ mask
	}
	return w.lanes &^ mask
}
