package host

import (
	"context"
	"flag"
	"fmt"
	"iter"
	"math/rand/v2"
	"runtime"
	"runtime/debug"
	"syscall"
	"testing"
	"time"

	"parley"
	"parley/fleet"
	"parley/internal/stat"
)

var idleFor = flag.Duration("idle", 0,
	"measure for `DURATION` at most what the transfer of blocks costs a fleet that never moves any")

const (
	// idleBar is how many times as much processor time a fleet may take that could move blocks
	// and never does.
	idleBar = 1.01
	// idleRequests are made in a round, six times: twice by each fleet.
	idleRequests = 16
	// idleRounds are made before the first judgement; the next one is made after twice as many.
	idleRounds = 100
	// idleCoverage is how sure each judgement is. A measurement makes at most ten.
	idleCoverage = 0.995
	// idleTrim is which share of the rounds is left out on either side.
	idleTrim = 0.1
)

// TestIdleTransfers answers requests that share nothing, by two workers behind a gateway that
// moves blocks and by two others behind one that does not, in turns. What is compared is processor
// time, of gateway and workers together: on a machine that is fully used it is what throughput
// depends on, and other programs change it little. A round goes from one fleet to the next and
// back, so that what becomes slower or faster meanwhile meets all. It ends when the interval of
// the ratio lies on one side of the bar.
//
// A third fleet is a control: it is as the second one. What their ratio differs from 1 is what the measurement
// itself is wrong by, such as for where memory lies. The first one is compared with the mean of both.
//
// If the machine is too busy for that, what is measured directly decides: the processor time that a gateway takes
// for a request more than one that moves nothing, and what gateway and worker take to exchange how soon blocks are
// used again. Nothing else is done for blocks that never move.
func TestIdleTransfers(t *testing.T) {
	if *idleFor == 0 {
		t.Skip("NOT RUN: a measurement: make kv-idle")
	}
	model := Config{KVTokens: 1 << 16, ContextTokens: 2048, NoSpeculation: true, Threads: 1}
	var urls []string
	pair := func(c fleet.Config) *fleet.Fleet {
		_, urlA := startWorker(t, ServerConfig{Key: transferKey}, model)
		_, urlB := startWorker(t, ServerConfig{Key: transferKey}, model)
		urls = []string{urlA, urlB}
		return startFleetOf(t, c, urls...)
	}
	fleets := [...]*fleet.Fleet{pair(fleet.Config{}), pair(fleet.Config{NoTransfers: true}),
		pair(fleet.Config{NoTransfers: true})}
	rng := rand.New(rand.NewPCG(24, 4))
	// Collections of garbage are made at the end of each load, in its time, not in the middle of any.
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	for _, f := range fleets {
		idleLoad(t, f, rng, idleRequests)
	}
	var cpu, wall, control idleRatios
	request := 0.0 // seconds of processor time of all without transfers
	for began, next := time.Now(), idleRounds; ; {
		var took [len(fleets)]idleTimes
		order := rng.Perm(len(fleets))
		for i := range 2 * len(order) {
			k := order[min(i, 2*len(order)-1-i)]
			one := idleLoad(t, fleets[k], rng, idleRequests)
			took[k].cpu, took[k].wall = took[k].cpu+one.cpu, took[k].wall+one.wall
		}
		cpu = append(cpu, 2*took[0].cpu/(took[1].cpu+took[2].cpu))
		wall = append(wall, 2*took[0].wall/(took[1].wall+took[2].wall))
		control = append(control, took[1].cpu/took[2].cpu)
		request += took[1].cpu + took[2].cpu
		late := time.Since(began) >= *idleFor
		if len(cpu) < next && !late {
			continue
		}
		next *= 2
		control.report("processor time without transfers against the same")
		wall.report("time with transfers against without")
		at := cpu.report("processor time with transfers against without")
		switch {
		case len(cpu) >= idleRounds && at.High <= idleBar:
			return
		case len(cpu) >= idleRounds && at.Low > idleBar:
			t.Fatalf("missed: at least %.4f, want at most %.2f", at.Low, idleBar)
		case late:
			idleDirect(t, urls, request/float64(len(cpu)*4*idleRequests))
			return
		}
	}
}

// Idle times are how many seconds requests take.
type idleTimes struct{ cpu, wall float64 }

// Idle ratios are how many times as much one side took, in each round.
type idleRatios []float64

// report prints the mean of the ratios, and how sure it is.
func (r idleRatios) report(what string) stat.Interval {
	mean, at := stat.TrimmedInterval(r, idleTrim, idleCoverage)
	fmt.Printf("%s, %d requests, mean of the middle %.0f %% of %d rounds: %.4f, "+
		"%.1f %% interval %.4f to %.4f (bar %.2f of processor time with transfers)\n", what, 2*idleRequests,
		100*(1-2*idleTrim), len(r), mean, 100*idleCoverage, at.Low, at.High, idleBar)
	return at
}

// idleLoad has a fleet answer requests whose prompts share nothing, and returns how long that took.
func idleLoad(t *testing.T, f *fleet.Fleet, rng *rand.Rand, n int) idleTimes {
	t.Helper()
	requests := make([]*parley.Request, n)
	for i := range requests {
		requests[i] = gapRequest(rng, 256, 16)
	}
	before, began := processorTime(t), time.Now()
	each(requests, func(r *parley.Request) {
		attempts := &parley.AttemptLog{}
		for _, err := range f.Generate(parley.WithAttemptLog(t.Context(), attempts), r) {
			if err != nil {
				t.Error(err)
				return
			}
		}
		if all, _ := attempts.Attempts(); len(all) != 1 || all[0].Transfer != nil {
			t.Errorf("a request moved, or its blocks did: %+v", all)
		}
	})
	runtime.GC()
	return idleTimes{cpu: (processorTime(t) - before).Seconds(), wall: time.Since(began).Seconds()}
}

// An instantWorker answers at once, so that what a gateway does for a request is all that takes time.
type instantWorker struct{ parley.Worker }

func (w instantWorker) Generate(_ context.Context, r *parley.Request) iter.Seq2[parley.Delta, error] {
	return func(yield func(parley.Delta, error) bool) {
		tokens := make([]parley.Token, r.MaxTokens)
		yield(parley.Delta{Tokens: tokens, Finish: parley.FinishLength, Usage: &parley.Usage{
			PromptTokens: len(r.Prompt),
			OutputTokens: len(tokens),
			Prefill:      time.Millisecond,
		}}, nil)
	}
}

// idleDirect measures what a gateway that could move blocks does more for a request than one that does not, both
// before workers that answer at once, and what workers do beside requests. It fails if that is more than the bar
// allows of the processor time that a request takes in all, in seconds.
func idleDirect(t *testing.T, urls []string, request float64) {
	t.Helper()
	var learn func(context.Context, [][]byte) ([]byte, error)
	change := func(m *fleet.Member) {
		m.Worker, learn = instantWorker{m.Worker}, m.LearnFrom
	}
	fleets := [...]*fleet.Fleet{startFleetChanged(t, fleet.Config{}, change, urls...),
		startFleetChanged(t, fleet.Config{NoTransfers: true}, change, urls...)}
	rng := rand.New(rand.NewPCG(24, 6))
	const many = 500 // requests of one measurement
	var more []float64
	for range 2 * idleRounds {
		var took [len(fleets)]float64
		first := rng.IntN(2)
		for i := range 4 { // one, the other, the other, the one
			k := first ^ (i+1)/2%2
			took[k] += idleLoad(t, fleets[k], rng, many).cpu
		}
		more = append(more, (took[0]-took[1])/(2*many))
	}
	mean, at := stat.TrimmedInterval(more, idleTrim, idleCoverage)
	const learns = 100
	own, err := learn(t.Context(), nil)
	began := processorTime(t)
	for range learns {
		if err == nil {
			own, err = learn(t.Context(), [][]byte{own})
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	beside := (processorTime(t) - began).Seconds() / learns / reuseEvery.Seconds()
	share := at.High/request + beside
	fmt.Printf("measured directly: a gateway takes %.2f us more for a request (%.1f %% interval %.2f to %.2f), of "+
		"%.0f us in all; what workers exchange every %v takes %.4f %% of a processor: at most %.4f %% together "+
		"(bar %.1f %%)\n",
		mean*1e6, 100*idleCoverage, at.Low*1e6, at.High*1e6, request*1e6, reuseEvery, 100*beside, 100*share,
		100*(idleBar-1))
	if !(share <= idleBar-1) {
		t.Errorf("missed: %.4f %%", 100*share)
	}
}

// reuseEvery is how often a gateway has workers exchange how soon blocks are used again.
const reuseEvery = 10 * time.Second

// processorTime returns how much of it this process has used.
func processorTime(t *testing.T) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
