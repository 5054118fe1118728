package ptx

import (
	"math/bits"
	"time"

	"parley/internal/ptx/arith"
)

func constant(v uint64) func(*warp, int) uint64 { return func(*warp, int) uint64 { return v } }

func below(lane int) uint64 { return 1<<lane - 1 }

// specials maps the special registers that do not change while a warp runs.
var specials = map[string]func(w *warp, lane int) uint64{
	"%laneid":       func(_ *warp, lane int) uint64 { return uint64(lane) },
	"%warpid":       func(w *warp, _ int) uint64 { return uint64(w.id) },
	"%nwarpid":      func(w *warp, _ int) uint64 { return uint64(len(w.b.warps)) },
	"%smid":         func(w *warp, _ int) uint64 { return uint64(w.b.c.number % w.b.run.d.options.Multiprocs) },
	"%nsmid":        func(w *warp, _ int) uint64 { return uint64(w.b.run.d.options.Multiprocs) },
	"%gridid":       constant(1),
	"WARP_SZ":       constant(arith.WarpSize),
	"%lanemask_eq":  func(_ *warp, lane int) uint64 { return 1 << lane },
	"%lanemask_lt":  func(_ *warp, lane int) uint64 { return below(lane) },
	"%lanemask_le":  func(_ *warp, lane int) uint64 { return below(lane) | 1<<lane },
	"%lanemask_gt":  func(_ *warp, lane int) uint64 { return arith.AllLanes &^ (below(lane) | 1<<lane) },
	"%lanemask_ge":  func(_ *warp, lane int) uint64 { return arith.AllLanes &^ below(lane) },
	"%tid.x":        func(w *warp, lane int) uint64 { return uint64(w.thread(lane)[0]) },
	"%tid.y":        func(w *warp, lane int) uint64 { return uint64(w.thread(lane)[1]) },
	"%tid.z":        func(w *warp, lane int) uint64 { return uint64(w.thread(lane)[2]) },
	"%ntid.x":       func(w *warp, _ int) uint64 { return uint64(w.b.run.block[0]) },
	"%ntid.y":       func(w *warp, _ int) uint64 { return uint64(w.b.run.block[1]) },
	"%ntid.z":       func(w *warp, _ int) uint64 { return uint64(w.b.run.block[2]) },
	"%ctaid.x":      func(w *warp, _ int) uint64 { return uint64(w.b.at[0]) },
	"%ctaid.y":      func(w *warp, _ int) uint64 { return uint64(w.b.at[1]) },
	"%ctaid.z":      func(w *warp, _ int) uint64 { return uint64(w.b.at[2]) },
	"%nctaid.x":     func(w *warp, _ int) uint64 { return uint64(w.b.run.grid[0]) },
	"%nctaid.y":     func(w *warp, _ int) uint64 { return uint64(w.b.run.grid[1]) },
	"%nctaid.z":     func(w *warp, _ int) uint64 { return uint64(w.b.run.grid[2]) },
	"%clusterid.x":  func(w *warp, _ int) uint64 { return uint64(w.b.at[0] / w.b.run.cluster[0]) },
	"%clusterid.y":  func(w *warp, _ int) uint64 { return uint64(w.b.at[1] / w.b.run.cluster[1]) },
	"%clusterid.z":  func(w *warp, _ int) uint64 { return uint64(w.b.at[2] / w.b.run.cluster[2]) },
	"%nclusterid.x": func(w *warp, _ int) uint64 { return uint64(w.b.run.grid[0] / w.b.run.cluster[0]) },
	"%nclusterid.y": func(w *warp, _ int) uint64 { return uint64(w.b.run.grid[1] / w.b.run.cluster[1]) },
	"%nclusterid.z": func(w *warp, _ int) uint64 { return uint64(w.b.run.grid[2] / w.b.run.cluster[2]) },

	"%cluster_ctaid.x":  func(w *warp, _ int) uint64 { return uint64(w.b.at[0] % w.b.run.cluster[0]) },
	"%cluster_ctaid.y":  func(w *warp, _ int) uint64 { return uint64(w.b.at[1] % w.b.run.cluster[1]) },
	"%cluster_ctaid.z":  func(w *warp, _ int) uint64 { return uint64(w.b.at[2] % w.b.run.cluster[2]) },
	"%cluster_nctaid.x": func(w *warp, _ int) uint64 { return uint64(w.b.run.cluster[0]) },
	"%cluster_nctaid.y": func(w *warp, _ int) uint64 { return uint64(w.b.run.cluster[1]) },
	"%cluster_nctaid.z": func(w *warp, _ int) uint64 { return uint64(w.b.run.cluster[2]) },
	"%cluster_ctarank":  func(w *warp, _ int) uint64 { return uint64(w.b.rank) },
	"%cluster_nctarank": func(w *warp, _ int) uint64 { return uint64(w.b.run.cluster.count()) },
	"%is_explicit_cluster": func(w *warp, _ int) uint64 {
		return uint64(min(w.b.run.cluster.count()-1, 1))
	},

	"%dynamic_smem_size": func(w *warp, _ int) uint64 { return uint64(w.b.run.dynamic) },
	"%total_smem_size":   func(w *warp, _ int) uint64 { return uint64(len(w.b.shared) - sharedBase) },
}

// specialSlot returns the slot of a special register, as 32 or 64 bits.
func (c *compiler) specialSlot(name string, wide bool) (slot, bool) {
	fill, ok := specials[name]
	if !ok {
		return 0, false
	}
	for _, s := range c.k.specials {
		if s.wide == wide && s.name == name {
			return s.slot, true
		}
	}
	s := special{name: name, wide: wide, fill: fill}
	if wide {
		s.slot = c.k.fresh64()
	} else {
		s.slot = c.k.fresh32()
	}
	c.k.specials = append(c.k.specials, s)
	return s.slot, true
}

// moving maps the special registers that differ at each read.
var moving = map[string]func(w *warp) uint64{
	"%clock":          func(w *warp) uint64 { return uint64(w.steps) },
	"%clock64":        func(w *warp) uint64 { return uint64(w.steps) },
	"%clock_hi":       func(w *warp) uint64 { return uint64(w.steps) >> 32 },
	"%globaltimer":    func(*warp) uint64 { return uint64(time.Now().UnixNano()) },
	"%globaltimer_lo": func(*warp) uint64 { return uint64(time.Now().UnixNano()) & arith.AllLanes },
	"%globaltimer_hi": func(*warp) uint64 { return uint64(time.Now().UnixNano()) >> 32 },
}

// eachLane calls f for the lanes of mask.
func eachLane(mask uint32, f func(lane int)) {
	for ; mask != 0; mask &= mask - 1 {
		f(bits.TrailingZeros32(mask))
	}
}
