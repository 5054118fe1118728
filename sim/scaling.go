package sim

import (
	"math"
	"time"

	"parley/fleet/scale"
	"parley/sim/traffic"
)

// A clairvoyant knows every rate to come. It starts workers so that they are ready when they
// are needed, and keeps those that would have to be started again before they are ready.
type clairvoyant struct {
	spec      *ScaleSpec
	coldStart time.Duration
	rates     []traffic.Rate
}

// Plan returns the most workers that are needed until one that starts now is ready.
func (c *clairvoyant) Plan(_ scale.State, now time.Time) scale.Sizing {
	from, most := now.Sub(epoch), 0.0
	until := from + c.coldStart + c.spec.Every
	for at := from; at <= until; at += c.spec.Every {
		rate := 0.0
		for _, r := range c.rates {
			rate += r.At(at)
		}
		most = max(most, rate)
	}
	workers := int(math.Ceil(most / c.spec.Clairvoyant))
	workers = min(max(workers, c.spec.Min), c.spec.Max)
	return scale.Sizing{Workers: workers, Why: "it is known", Expected: most}
}

// rescale asks the scaler how many workers there should be, and starts or drains some.
func (t *station) rescale(c *crew) {
	plan := c.scaler.Plan(t.seen(c), t.clock.time())
	for range plan.Workers - len(t.active(c.kind)) {
		t.start(c.kind, t.ColdStart)
	}
	active := t.active(c.kind)
	for i := len(active) - 1; i >= plan.Workers; i-- {
		t.drain(active[i])
	}
	t.clock.after(c.spec.Every, func() { t.rescale(c) })
}

// active lists the workers of a kind that take requests or will: those that are ready first.
func (t *station) active(k *kind) (out []*worker) {
	for _, phase := range []phase{ready, starting} {
		for _, w := range t.workers {
			if w.kind == k && w.phase == phase {
				out = append(out, w)
			}
		}
	}
	return out
}

// drain lets a worker finish what it has, and leave.
func (t *station) drain(w *worker) {
	idle := w.pass.plan == nil && len(w.guests.present) == 0
	if w.phase == starting || idle {
		t.remove(w)
		return
	}
	w.phase = draining
	w.report()
}

// seen returns what the scaler of a crew is shown.
func (t *station) seen(c *crew) scale.State {
	state := scale.State{
		Arrived: t.arrived,
		Begun:   t.begun,
		Queued:  t.queue.Len() + len(t.parked),
		Wait:    t.queue.Load(t.clock.time()).Standing,
	}
	for _, w := range t.workers {
		switch {
		case w.kind != c.kind:
		case w.phase == starting:
			state.Starting++
		case w.phase == ready:
			state.Ready++
			state.Streams += len(w.guests.present)
		}
	}
	state.KV = t.memoryUsed(c.kind)
	state.Busy = ratio((c.kind.arithmetic - c.arithmetic).Seconds(), c.spec.Every.Seconds()*float64(state.Ready))
	c.arithmetic = c.kind.arithmetic
	return scale.PoolPart{Name: c.role, DecodeKV: t.memoryUsed(&t.kind)}.See(state)
}

// memoryUsed returns the share of their blocks that the ready workers of a kind use.
func (t *station) memoryUsed(k *kind) float64 {
	var blocks, used int
	for _, w := range t.workers {
		if w.kind == k && w.phase == ready {
			use := w.plans.Use()
			blocks, used = blocks+use.Total, used+use.InUse
		}
	}
	return ratio(float64(used), float64(blocks))
}
