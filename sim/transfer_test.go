package sim

import (
	"encoding/json"
	"os"
	"testing"
	"time"
)

// roles is the small scenario with workers for prompts, of which one is lost, too.
const roles = `
name: roles
duration: 60s
window: 5s
pools:
  - workers: 3
    prefill: {workers: 2}
    replica: {model: 70b, device: h100, tp: 4}
    blocks: 1500
    cold_start: 10s
traffic:
  - name: talk
    class: pro
    tenants: 5
    workload: conversation
    shared_tokens: 500
    groups: 3
    prompt: lognormal:100:1
    output: lognormal:150:0.7:600
    turns: 1-5
    think: 3s
    rate: [{at: 0s, per_second: 4}]
  - name: rush
    class: free
    prompt: 200-3000
    output: 1-300
    rate: [{at: 0s, per_second: 2}, {at: 20s, per_second: 20}, {at: 30s, per_second: 2}]
    patience: 3s
    retries: 2
events:
  - {at: 22s, lose: 4, after: 5s}
`

// TestRolesLoseNothing runs a scenario in which workers of both roles are lost in the middle of
// transfers and clients hang up: every attempt ends once, and no worker keeps anything.
func TestRolesLoseNothing(t *testing.T) {
	s, err := newSimulation(read(t, roles))
	if err != nil {
		t.Fatal(err)
	}
	r, err := s.run()
	if err != nil {
		t.Fatal(err)
	}
	if o := r.Total; o.Moved == 0 || o.HungUp == 0 || o.Retried == 0 {
		t.Errorf("the scenario is too easy to say something: %+v %+v", o, r.Fleet)
	}
	for _, c := range s.crowds {
		n := &c.tally
		attempts := n.arrived - n.failed + n.retried
		if c.live != 0 || attempts != n.finished+n.rejected+n.hungUp {
			t.Errorf("%s: %d users are left; %d attempts, %d answered, %d rejected, %d given up", c.TrafficSpec.Name,
				c.live, attempts, n.finished, n.rejected, n.hungUp)
		}
	}
	prompts := 0
	for _, w := range s.stations[0].workers {
		if w.pass.plan != nil {
			w.endPass()
		}
		w.round()
		if err := w.plans.Check(); err != nil {
			t.Error(err)
		}
		if n := w.plans.Use().InUse; n != 0 || len(w.requests.present) != 0 ||
			w.requests.unbegun+w.requests.promptAttempts != 0 {
			t.Errorf("worker %d has %d blocks in use, %d requests, %d tokens to begin, %d prompts for others", w.number,
				n, len(w.requests.present), w.requests.unbegun, w.requests.promptAttempts)
		}
		if w.kind == &s.stations[0].prompts {
			prompts++
		}
	}
	if prompts == 0 {
		t.Error("no worker for prompts is left")
	}
}

// TestRolesGiveTheSameBytes runs the scenario twice.
func TestRolesGiveTheSameBytes(t *testing.T) {
	run := func() string {
		r, err := Run(read(t, roles))
		if err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	if a, b := run(), run(); a != b {
		t.Error("two runs of one scenario and seed differ")
	}
}

// TestApartHasShorterGaps compares workers with roles and without. Where a worker does both, a
// long prompt lengthens the passes in which others write, up to the target of a pass; a
// worker that decodes alone has none of that. Prompts wait for fewer workers.
func TestApartHasShorterGaps(t *testing.T) {
	apart, mixed := minuteOf(t, "apart", 25e9), minuteOf(t, "mixed", 25e9)
	if apart.Fleet.Gap.P99 > mixed.Fleet.Gap.P99/2 {
		t.Errorf("gaps p99 %.4f s apart, %.4f s together", apart.Fleet.Gap.P99, mixed.Fleet.Gap.P99)
	}
	if long, all := apart.Traffic[1].TTFT.P50, mixed.Traffic[1].TTFT.P50; long < all {
		t.Errorf("long prompts take %.3f s apart, %.3f s together: fewer workers compute them", long, all)
	}
}

// minuteOf runs a minute of an example on a network.
func minuteOf(t *testing.T, name string, network float64) *Result {
	t.Helper()
	text, err := os.ReadFile("../examples/sim/" + name + ".yaml")
	if err != nil {
		t.Fatal(err)
	}
	s := read(t, string(text))
	s.Duration, s.Pools[0].Network = time.Minute, network
	r, err := Run(s)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestSlowNetworkIsNotUsed gives the workers a network on which blocks come more slowly than they
// are computed: the router has the workers that decode compute the prompts.
func TestSlowNetworkIsNotUsed(t *testing.T) {
	fast, slow := minuteOf(t, "apart", 25e9), minuteOf(t, "apart", 1e8)
	if fast.Fleet.Gap.P99*2 > slow.Fleet.Gap.P99 {
		t.Errorf("gaps p99 %.4f s with 200 Gb/s, %.4f s with 0.8 Gb/s: blocks seem to come over the slow one",
			fast.Fleet.Gap.P99, slow.Fleet.Gap.P99)
	}
}

// TestRolesScaleApart has long prompts, and long answers. The workers of the role that has more
// to do become more than the others, although both scalers see the same queue.
func TestRolesScaleApart(t *testing.T) {
	run := func(traffic string) (prompts, answers int) {
		s, err := newSimulation(read(t, `
name: roles-scaled
duration: 8m
ttft: 2s
pools:
  - workers: 1
    prefill: {workers: 1, scale: {min: 1, max: 8, steady: 1m, rate: 20}}
    scale: {min: 1, max: 8, steady: 1m, rate: 20}
    replica: {model: 70b, device: h100, tp: 8}
    blocks: 2000
    cold_start: 10s
traffic: [`+traffic+`]
`))
		if err != nil {
			t.Fatal(err)
		}
		at := s.stations[0]
		s.clock.after(8*time.Minute-time.Second, func() {
			prompts, answers = len(at.active(&at.prompts)), len(at.active(&at.kind))
		})
		if _, err := s.run(); err != nil {
			t.Fatal(err)
		}
		return prompts, answers
	}
	prompts, answers := run(`{name: chat, workload: conversation, turns: 3, prompt: 40, output: 5, think: 1s,
		rate: [{at: 0s, per_second: 0.5}]}, {name: documents, prompt: 6000-8000, output: 5,
		rate: [{at: 0s, per_second: 0.2}, {at: 2m, per_second: 9}]}`)
	if prompts <= answers {
		t.Errorf("%d workers compute prompts and %d decode beside long prompts", prompts, answers)
	}
	prompts, answers = run(`{name: stories, prompt: 300, output: 1000,
		rate: [{at: 0s, per_second: 0.1}, {at: 2m, per_second: 8}]}`)
	if prompts >= answers {
		t.Errorf("%d workers compute prompts and %d decode beside long answers", prompts, answers)
	}
}
