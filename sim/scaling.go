package sim

import (
	"math"
	"math/rand/v2"
	"time"

	"parley/fleet/scale"
	"parley/internal/exactmath"
)

// A clairvoyant knows every rate to come. It starts workers so that they are ready when they
// are needed, and keeps those that would have to be started again before they are ready.
type clairvoyant struct {
	spec      *ScaleSpec
	coldStart time.Duration
	rate      func(at time.Duration) float64
}

// Plan returns the most workers that are needed until one that starts now is ready.
func (c *clairvoyant) Plan(_ scale.State, now time.Time) scale.Sizing {
	from, most := now.Sub(epoch), 0.0
	until := from + c.coldStart + c.spec.Every
	for at := from; at <= until; at += c.spec.Every {
		most = max(most, c.rate(at))
	}
	workers := int(math.Ceil(most / c.spec.Clairvoyant))
	workers = min(max(workers, c.spec.Min), c.spec.Max)
	return scale.Sizing{Workers: workers, Why: "it is known", Expected: most}
}

// recall shows the scalers of a station the requests of the days before the scenario begins.
func (s *simulation) recall(t *station) {
	random := rand.New(rand.NewPCG(s.Seed, historyStream))
	for _, c := range t.scaled {
		arrived := uint64(0)
		for at := -c.spec.History; at < 0; at += c.spec.Every {
			mean := float64(s.requestRate(t, at) * c.spec.Every.Seconds())
			arrived += uint64(max(0, math.Round(mean+float64(math.Sqrt(mean)*exactmath.Normal(random)))))
			c.scaler.Plan(scale.State{Arrived: arrived}, epoch.Add(at))
		}
		c.before = arrived
	}
}

// historyStream numbers the random numbers of what came before a scenario began.
const historyStream = 1

// requestRate returns how many requests come to a station in a second at a time. The turns of a conversation come
// later than it begins. Before the scenario begins, as many come as at the same time of one of its days.
func (s *simulation) requestRate(t *station, at time.Duration) (rate float64) {
	for _, c := range s.crowds {
		if c.station != t || c.talks.rate == nil {
			continue
		}
		turns := c.talks.workload.Turns.Average()
		when := at - time.Duration((turns-1)/2*float64(c.Think))
		if c.Day != nil && when < 0 {
			when = when%c.Day.Length + c.Day.Length
		}
		rate += float64(turns * c.talks.rate.At(when))
	}
	return rate
}

// rescale asks the scaler how many workers there should be, and starts or drains some.
func (t *station) rescale(c *scaledKind) {
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
	idle := w.pass.plan == nil && len(w.requests.present) == 0
	if w.phase == starting || idle {
		t.remove(w)
		return
	}
	w.phase = draining
	w.report()
}

// seen returns what the scaler of a kind is shown.
func (t *station) seen(c *scaledKind) scale.State {
	state := scale.State{
		Arrived: c.before + t.arrived,
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
			state.Streams += len(w.requests.present)
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
