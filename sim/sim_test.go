package sim

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// small is a scenario with a bit of everything: conversations, impatient users who retry,
// a lost worker, and less memory than all of it needs.
const small = `
name: small
duration: 60s
window: 5s
pools:
  - workers: 3
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
    patience: 5s
    retries: 2
events:
  - {at: 25s, lose: 1, after: 5s}
`

func read(t *testing.T, text string) *Scenario {
	t.Helper()
	s, err := Read([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestNothingIsLost runs a scenario to its end: every request has ended in one way, and
// no queue, router or cache holds anything for one.
func TestNothingIsLost(t *testing.T) {
	s, err := newSimulation(read(t, small))
	if err != nil {
		t.Fatal(err)
	}
	r, err := s.run()
	if err != nil {
		t.Fatal(err)
	}
	o := r.Total
	if o.Moved == 0 || o.HungUp == 0 || o.Retried == 0 || r.Fleet.Preempted == 0 || o.HitRate < 0.2 {
		t.Errorf("the scenario is too easy to say something: %+v %+v", o, r.Fleet)
	}
	for _, c := range s.crowds {
		n := &c.tally
		// An attempt ends answered, rejected or given up; a request fails before any.
		attempts := n.arrived - n.failed + n.retried
		if c.live != 0 || attempts != n.finished+n.rejected+n.hungUp {
			t.Errorf("%s: %d users are left; %d attempts, %d answered, %d rejected, %d given up", c.TrafficSpec.Name,
				c.live, attempts, n.finished, n.rejected, n.hungUp)
		}
	}
	st := s.stations[0]
	if st.queue.Len() != 0 || len(st.parked) != 0 {
		t.Errorf("%d requests wait, %d are parked", st.queue.Len(), len(st.parked))
	}
	for _, w := range st.workers {
		if w.pass.plan != nil {
			w.endPass() // one that no request is in any more
		}
		w.round()
		if err := w.plans.Check(); err != nil {
			t.Error(err)
		}
		if n := w.plans.Use().InUse; n != 0 || len(w.requests.present) != 0 || w.requests.unbegun != 0 {
			t.Errorf("worker %d has %d blocks in use, %d requests, %d tokens to begin", w.number, n,
				len(w.requests.present), w.requests.unbegun)
		}
	}
}

// TestSameBytes runs a scenario twice, and with another seed.
func TestSameBytes(t *testing.T) {
	run := func(seed uint64) string {
		s := read(t, small)
		s.Seed = seed
		r, err := Run(s)
		if err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	a, b := run(1), run(1)
	if a != b {
		t.Error("two runs of one scenario and seed differ")
	}
	if c := run(2); c == a {
		t.Error("another seed gives the same run")
	}
}

// TestOneRequest works out what a single request takes by hand.
func TestOneRequest(t *testing.T) {
	s := read(t, `
name: one
duration: 10s
pools:
  - workers: 1
    blocks: 1000
    cost: {rows: [{rows: 1, seconds: 0.001}], overhead: 0.010}
traffic:
  - name: x
    prompt: "100"
    output: "5"
    cv: 0
    rate: [{at: 0s, per_second: 0.11}]
`)
	r, err := Run(s)
	if err != nil {
		t.Fatal(err)
	}
	// A pass of 100 rows, then four of one row each.
	near := func(what string, got float64, want time.Duration) {
		if got < want.Seconds()*0.98 || got > want.Seconds()*1.02 {
			t.Errorf("%s is %g s, want %v", what, got, want)
		}
	}
	near("TTFT", r.Total.TTFT.P50, 110*time.Millisecond)
	near("TPOT", r.Total.TPOT.P50, 11*time.Millisecond)
	if r.Total.Arrived != 1 || r.Total.Finished != 1 || r.Fleet.Passes != 5 || r.Total.Attainment != 1 {
		t.Errorf("the run gives %+v %+v", r.Total, r.Fleet)
	}
}

func TestHistogram(t *testing.T) {
	var h histogram
	var all []time.Duration
	for i := range 5000 {
		d := time.Duration(i*i*i) * time.Microsecond / 7
		all = append(all, d)
		h.add(d)
	}
	slices.Sort(all)
	for _, p := range []float64{0, .01, .5, .95, .99, 1} {
		got, want := h.at(p), all[min(int(p*5000), 4999)]
		if diff := (got - want).Abs(); diff > want/50+2*time.Microsecond {
			t.Errorf("percentile %g is %v, want %v", p, got, want)
		}
	}
	if (&histogram{}).at(0.5) != 0 {
		t.Error("the median of nothing is not 0")
	}
}

func TestBadScenarios(t *testing.T) {
	for _, row := range [][3]string{
		{"duration: 60s", "duration: -1s", "duration is -1s"},
		{"workers: 3", "workers: 300000", "300000 workers"},
		{"model: 70b", "model: 71b", `no model "71b"`},
		{"blocks: 1500", "price: -1", "a negative number"},
		{"class: pro", "class: gold", `class "gold"`},
		{"turns: 1-5", "turns: five", `"five" is not a length`},
		{"think: 3s", "thinks: 3s", "unknown field"},
		{"retries: 2", "retries: -2", "retries -2"},
		{"{at: 25s, lose: 1, after: 5s}", "{at: 25s}", "one worker at least"},
		{"name: rush", "pool: other", `no pool is named "other"`},
		{"per_second: 4}", "per_second: -4}", "a rate of -4"},
		{"rate: [{at: 0s, per_second: 4}]", "rate_file: {scale: 2}", `file "" from 0s on with scale 2`},
		{"rate: [{at: 0s, per_second: 4}]", "rate_file: {file: x.csv, speed: -1}", "speed -1"},
		{"rate: [{at: 0s, per_second: 4}]", "rate_file: {file: x.csv}\n    day: {peak: 1}", "want one of rate, rate_f"},
		{"per_second: 4}]", "per_second: 4}]\n    rate_file: {file: x.csv}", "want one of rate, rate_file"},
		{"blocks: 1500", "blocks: 1500\n    reserve: {free: 0.5, pro: 0.6}", "reserve 1.1"},
	} {
		if !strings.Contains(small, row[0]) {
			t.Fatalf("the scenario has no %q", row[0])
		}
		_, err := Read([]byte(strings.Replace(small, row[0], row[1], 1)))
		if err == nil || !strings.Contains(err.Error(), row[2]) {
			t.Errorf("%s: %v, want %q", row[1], err, row[2])
		}
	}
	if _, err := Read([]byte("x: [")); err == nil || !strings.Contains(fmt.Sprint(err), "not a scenario") {
		t.Errorf("no YAML gives %v", err)
	}
}

// TestBarsWithErrors has figures that reach their bars, whose errors may not.
func TestBarsWithErrors(t *testing.T) {
	bars := Bars{Attained: 0.99, Clairvoyant: 1.15, Peak: 0.5}
	good := Ablations{Attained: Estimate{Value: 0.995}, Times: Estimate{Value: 1.1}, OfPeak: Estimate{Value: 0.4}}
	if !good.Met(bars) {
		t.Error("a scaler that is good enough is not")
	}
	for i, change := range []func(a *Ablations){
		func(a *Ablations) { a.Attained.Chance = 0.01 },
		func(a *Ablations) { a.Times.Size = 0.06 },
		func(a *Ablations) { a.OfPeak.Pace = 0.2 },
		func(a *Ablations) { a.OfPeak.Value = 0.6 },
	} {
		a := good
		if change(&a); a.Met(bars) {
			t.Errorf("change %d is within the bars", i)
		}
	}
}

// TestAblate judges the scaler of a small scenario: the one that knows the future meets the
// objectives, and the peak's workers are as many all the time.
func TestAblate(t *testing.T) {
	s, err := Read([]byte(`
name: short
duration: 2m
ttft: 3s
tpot: 100ms
pools:
  - workers: 1
    replica: {model: 7b, device: h100}
    cold_start: 10s
    scale: {min: 1, max: 6, day: 1m, steady: 10s, every: 5s, rate: 2}
traffic:
  - name: chat
    prompt: lognormal:2000:0.6:6000
    output: lognormal:80:0.5:300
    day: {trough: 1, peak: 8, peak_at: 30s, length: 1m}
`))
	if err != nil {
		t.Fatal(err)
	}
	a, err := Ablate(s, Whole, inOrder(1))
	if err != nil {
		t.Fatal(err)
	}
	for _, width := range []int{2, 9} {
		if other, err := Ablate(s, Whole, inOrder(width)); err != nil || !reflect.DeepEqual(other, a) {
			t.Errorf("with %d runs at a time the scaler is judged by %+v (%v), with one by %+v", width, other, err, a)
		}
	}
	if a.Clairvoyant.Attainment < attained || a.Clairvoyant.Dollars <= 0 || len(a.Parts) != 4 ||
		a.Peak.Replicas != math.Trunc(a.Peak.Replicas) || a.Peak.Dollars < a.Clairvoyant.Dollars {
		t.Errorf("the scaler is judged by %+v", a)
	}
	if s.Pools[0].Scale.NoForecast || s.Pools[0].Scale.Clairvoyant != 0 {
		t.Error("the scenario was changed")
	}
	if math.Abs(a.OfPeak.Value-a.Scaler.Dollars/a.Peak.Dollars) > 1e-9 || a.OfPeak.Off() != 0 {
		t.Errorf("the bill is %+v of the peak's, of %+v", a.OfPeak, a)
	}
	s.Pools[0].Scale = nil
	if _, err := Ablate(s, Whole, inOrder(1)); err == nil {
		t.Error("a scenario without a scaler was judged")
	}
}
