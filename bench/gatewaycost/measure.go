package gatewaycost

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// A Bench is a gateway under test, and what it is compared with.
type Bench struct {
	// Gateway is measured against the bars. Direct is the upstream itself, Others
	// are proxies in front of it.
	Gateway, Direct Target
	// Roomy starts a gateway without a queue, which would not admit as many slow
	// streams at once, in front of an upstream that sends a token every 500 ms. It holds
	// the open streams of one endpoint.
	Roomy  func(context.Context) (t Target, stop func(), err error)
	Others []Target
	// Before is an older version of the gateway, nil for none.
	Before *Target
	// Requests and Streams are how many of each are sent; Open is how many streams
	// are held open at once; Whole is how many streams must arrive whole.
	Requests, Streams, Open, Whole int
	// Only names measurements to make, by a part of their names; empty makes all.
	Only string
	// Profiles is where profiles of the gateway are kept while its processor time
	// is measured; empty keeps none.
	Profiles string
	// Progress is told what is measured.
	Progress func(what string)
}

// A Result is one measurement.
type Result struct {
	Name string `json:"name"`
	Unit string `json:"unit"`
	// Value is the gateway's, Bar the most it may be.
	Value float64 `json:"value"`
	Bar   float64 `json:"bar"`
	// Rounds are those that Value is the median of, if it is one. Disturbed is how
	// many others there were, which do not count.
	Rounds    []float64 `json:"rounds,omitempty"`
	Disturbed int       `json:"disturbed,omitempty"`
	// Scaled is Value as it would be on the machine that the bar was set on, if that
	// can be told.
	Scaled float64 `json:"scaled,omitempty"`
	// Ratio is Value by what the older gateway took, the median over rounds; 0 if there
	// is none.
	Ratio float64 `json:"ratio,omitempty"`
	// Beside are the same of others.
	Beside map[string]float64 `json:"beside,omitempty"`
}

// ratioBar is the most that processor time may be of an older gateway's.
const ratioBar = 1.05

// Met reports whether the bar is.
func (r *Result) Met() bool {
	if r.Ratio > ratioBar {
		return false
	}
	if r.Scaled != 0 {
		return r.Scaled <= r.Bar
	}
	return r.Value <= r.Bar
}

// referenceNginx is the microseconds of processor time that nginx took for a request
// that is not streamed, 64 at once, on the machine that the bars of processor time were
// set on: they are bars for machines of its speed.
const referenceNginx = 21

// scale sets what processor times would be on that machine, if nginx was measured
// here.
func scale(results []Result) {
	nginx := 0.0
	for i := range results {
		if results[i].Name == perRequestName {
			nginx = results[i].Beside["nginx"]
		}
	}
	for i := range results {
		if r := &results[i]; nginx > 0 && r.Unit == "us" {
			r.Scaled = r.Value * referenceNginx / nginx
		}
	}
}

const perRequestName = "processor time for a request that is not streamed"

const (
	atOnce       = 64
	streamTokens = 500
	paced        = 20 * time.Millisecond
	pacedTokens  = 150
)

// Run measures everything, one after the other.
func (b *Bench) Run(ctx context.Context) (results []Result, err error) {
	for _, m := range b.measurements() {
		if !strings.Contains(m.name, b.Only) {
			continue
		}
		r, err := m.measure(ctx, Result{Name: m.name, Unit: m.unit, Bar: m.bar, Beside: map[string]float64{}})
		if err != nil {
			return results, err
		}
		results = append(results, r)
	}
	scale(results)
	return results, nil
}

// A measurement is one line of the report.
type measurement struct {
	name, unit string
	bar        float64
	measure    func(context.Context, Result) (Result, error)
}

// measurements are all there are, with the most that each may come to.
func (b *Bench) measurements() []measurement {
	list := []measurement{
		{perRequestName, "us", 200, b.perRequest},
		{"processor time for a chunk, as fast as they come", "us", 8, b.perChunk},
		{"processor time for a chunk, one every 20 ms", "us", 20, b.perPacedChunk},
		{"time to the first token added, p99 at 64 at once", "ms", 2, b.firstToken},
	}
	for _, e := range endpoints {
		name := fmt.Sprintf("memory of each of %d open streams, %s", b.Open, e.name)
		list = append(list, measurement{name, "KB", 40, func(ctx context.Context, r Result) (Result, error) {
			return b.openStreams(ctx, r, e)
		}})
	}
	return append(list, measurement{fmt.Sprintf("streams of %d that were cut off", b.Whole), "", 0, b.whole})
}

func (b *Bench) all() []Target { return append([]Target{b.Gateway}, b.Others...) }

const (
	// rounds is how often each target is measured. The speed of a machine changes with
	// what its neighbours do, so that all are measured in turns, and medians compared.
	rounds = 5
	// A virtual machine is stopped now and then, when the one below it has other
	// things to do. Where that takes more than stolenMax of a round, the slowest wait in
	// a hundred is the wait for that, whatever is measured: there are up to roundsMax
	// rounds, and the calmest count.
	stolenMax = .01
	roundsMax = 4 * rounds
)

// A round is what each target came to, and the part of the time that the machine
// below took meanwhile.
type round struct {
	values []float64
	stolen float64
}

// inTurns measures each target once in every round, and returns its rounds.
func (b *Bench) inTurns(ctx context.Context, r *Result, targets []Target,
	measure func(context.Context, Target) (float64, error)) ([][]float64, error) {
	var all []round
	for calm := 0; calm < rounds && len(all) < roundsMax; {
		var one round
		before := clockNow()
		for _, t := range targets {
			b.Progress(fmt.Sprintf("%s, %s, round %d of %d", r.Name, t.Name, calm+1, rounds))
			v, err := measure(ctx, t)
			if err != nil {
				return nil, err
			}
			one.values = append(one.values, v)
		}
		if one.stolen = clockNow().stolenSince(before); one.stolen <= stolenMax {
			calm++
		}
		all = append(all, one)
	}
	r.Disturbed = len(all) - rounds
	return calmest(all, len(targets)), nil
}

// calmest returns the values of each target in the rounds of which least was taken.
func calmest(all []round, targets int) [][]float64 {
	slices.SortStableFunc(all, func(a, b round) int { return cmp.Compare(a.stolen, b.stolen) })
	values := make([][]float64, targets)
	for _, one := range all[:rounds] {
		for i, v := range one.values {
			values[i] = append(values[i], v)
		}
	}
	return values
}

// A clock is how long the processors of this machine have run, and how long they would
// have but for the machine below it, both in the same unit.
type clock struct{ all, stolen float64 }

// stolenSince returns the part of the time that was taken since before.
func (c clock) stolenSince(before clock) float64 {
	return (c.stolen - before.stolen) / max(c.all-before.all, 1)
}

// take sets the result to the medians of rounds, the gateway's first.
func (r *Result) take(targets []Target, values [][]float64) {
	r.Rounds, r.Value = values[0], median(values[0])
	for i, t := range targets[1:] {
		r.Beside[t.Name] = median(values[i+1])
	}
}

// medianRatio returns the median of a by b over rounds: both were measured in each, so
// that what the machine did meanwhile is in both.
func medianRatio(a, b []float64) float64 {
	ratios := make([]float64, len(a))
	for i := range a {
		ratios[i] = a[i] / b[i]
	}
	return median(ratios)
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return (sorted[(len(sorted)-1)/2] + sorted[len(sorted)/2]) / 2
}

// cost measures the processor time of each target for a volley of n, divided by
// the units that each of them has.
func (b *Bench) cost(ctx context.Context, r Result, n, atOnce, units int, s shot) (Result, error) {
	targets := b.all()
	if b.Before != nil {
		targets = append(targets, *b.Before)
	}
	values, err := b.inTurns(ctx, &r, targets, func(ctx context.Context, t Target) (float64, error) {
		if _, err := t.volley(ctx, atOnce, atOnce, s.brief()); err != nil { // warm
			return 0, err
		}
		before, err := usageOf(t.PID)
		if err != nil {
			return 0, err
		}
		kept := t.profile(ctx, b.Profiles, r.Name)
		if _, err := t.volley(ctx, n, atOnce, s); err != nil {
			return 0, err
		}
		if err := kept(); err != nil {
			return 0, err
		}
		after, err := usageOf(t.PID)
		return float64((after.cpu - before.cpu).Microseconds()) / float64(n*units), err
	})
	if err != nil {
		return r, err
	}
	r.take(targets, values)
	if b.Before != nil {
		r.Ratio = medianRatio(values[0], values[len(values)-1])
	}
	return r, nil
}

func (b *Bench) perRequest(ctx context.Context, r Result) (Result, error) {
	return b.cost(ctx, r, b.Requests/rounds, atOnce, 1, shot{tokens: 1})
}

func (b *Bench) perChunk(ctx context.Context, r Result) (Result, error) {
	return b.cost(ctx, r, b.Streams/rounds, atOnce, streamTokens, shot{tokens: streamTokens, stream: true})
}

func (b *Bench) perPacedChunk(ctx context.Context, r Result) (Result, error) {
	const n = 4 * atOnce
	return b.cost(ctx, r, n, n, pacedTokens, shot{tokens: pacedTokens, pace: paced, stream: true})
}

// firstToken compares the time to the first token with and without a gateway.
func (b *Bench) firstToken(ctx context.Context, r Result) (Result, error) {
	targets := append([]Target{b.Direct}, b.all()...)
	s := shot{tokens: 25, pace: paced, stream: true}
	values, err := b.inTurns(ctx, &r, targets, func(ctx context.Context, t Target) (float64, error) {
		hits, err := t.spread(ctx, max(b.Requests/80, 2*atOnce), atOnce, time.Duration(s.tokens)*s.pace, s)
		firsts := make([]float64, len(hits))
		for i, h := range hits {
			firsts[i] = float64(h.first.Microseconds()) / 1000
		}
		return p99(firsts), err
	})
	if err != nil {
		return r, err
	}
	added := values[1:]
	for _, rounds := range added {
		for i := range rounds {
			rounds[i] -= values[0][i]
		}
	}
	r.take(targets[1:], added)
	return r, nil
}

func p99(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	slices.Sort(values)
	return values[(len(values)*99+99)/100-1]
}

// whole counts the streams that do not arrive whole.
func (b *Bench) whole(ctx context.Context, r Result) (Result, error) {
	b.Progress(r.Name)
	c := newClient()
	defer c.CloseIdleConnections()
	var next, cut atomic.Int64
	var first atomic.Pointer[error]
	var clients sync.WaitGroup
	for range atOnce {
		clients.Go(func() {
			for next.Add(1) <= int64(b.Whole) && ctx.Err() == nil {
				if h := b.Gateway.fire(ctx, c, shot{tokens: 20, stream: true}, func() {}); h.err != nil {
					cut.Add(1)
					first.CompareAndSwap(nil, &h.err)
				}
			}
		})
	}
	clients.Wait()
	r.Value = float64(cut.Load())
	if why := first.Load(); why != nil {
		r.Name += fmt.Sprintf(" (the first: %v)", *why)
	}
	return r, context.Cause(ctx)
}
