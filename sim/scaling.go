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
	spec  *PoolSpec
	rates []traffic.Rate
}

// ratesOf returns the rates of the traffic that a station answers.
func (s *simulation) ratesOf(t *station) (rates []traffic.Rate) {
	for _, c := range s.crowds {
		if c.station == t && c.talks.rate != nil {
			rates = append(rates, c.talks.rate)
		}
	}
	return rates
}

// Plan returns the most workers that are needed until one that starts now is ready.
func (c *clairvoyant) Plan(_ scale.State, now time.Time) scale.Sizing {
	from, most := now.Sub(epoch), 0.0
	until := from + c.spec.ColdStart + c.spec.Scale.Every
	for at := from; at <= until; at += c.spec.Scale.Every {
		rate := 0.0
		for _, r := range c.rates {
			rate += r.At(at)
		}
		most = max(most, rate)
	}
	workers := int(math.Ceil(most / c.spec.Scale.Clairvoyant))
	workers = min(max(workers, c.spec.Scale.Min), c.spec.Scale.Max)
	return scale.Sizing{Workers: workers, Why: "it is known", Expected: most}
}

// rescale asks the scaler how many workers there should be, and starts or drains some.
func (t *station) rescale() {
	plan := t.scaling.scaler.Plan(t.seen(), t.clock.time())
	for range plan.Workers - len(t.active()) {
		t.start(t.ColdStart)
	}
	active := t.active()
	for i := len(active) - 1; i >= plan.Workers; i-- {
		t.drain(active[i])
	}
	t.clock.after(t.Scale.Every, t.rescale)
}

// active lists the workers that take requests or will: those that are ready first.
func (t *station) active() (out []*worker) {
	for _, phase := range []phase{ready, starting} {
		for _, w := range t.workers {
			if w.phase == phase {
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

// seen returns what the scaler is shown.
func (t *station) seen() scale.State {
	c := &t.scaling
	state := scale.State{
		Arrived: c.arrived,
		Begun:   c.begun,
		Queued:  t.queue.Len() + len(t.parked),
		Wait:    t.queue.Load(t.clock.time()).Standing,
	}
	var blocks, used int
	for _, w := range t.workers {
		switch w.phase {
		case starting:
			state.Starting++
		case ready:
			state.Ready++
			use := w.plans.Use()
			blocks, used = blocks+use.Total, used+use.InUse
			state.Streams += len(w.guests.present)
		}
	}
	state.KV = ratio(float64(used), float64(blocks))
	state.Busy = ratio((t.arithmetic - c.arithmetic).Seconds(), t.Scale.Every.Seconds()*float64(state.Ready))
	c.arithmetic = t.arithmetic
	return state
}
