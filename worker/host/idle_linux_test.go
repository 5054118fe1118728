package host

import (
	"flag"
	"fmt"
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
func TestIdleTransfers(t *testing.T) {
	if *idleFor == 0 {
		t.Skip("NOT RUN: a measurement: make kv-idle")
	}
	model := Config{KVTokens: 1 << 16, ContextTokens: 2048, NoSpeculation: true, Threads: 1}
	pair := func(c fleet.Config) *fleet.Fleet {
		_, urlA := startWorker(t, ServerConfig{Key: transferKey}, model)
		_, urlB := startWorker(t, ServerConfig{Key: transferKey}, model)
		return startFleetOf(t, c, urlA, urlB)
	}
	fleets := [...]*fleet.Fleet{pair(fleet.Config{}), pair(fleet.Config{NoTransfers: true}),
		pair(fleet.Config{NoTransfers: true})}
	rng := rand.New(rand.NewPCG(24, 4))
	// Collections of garbage are made at the end of each load, in its time, not in the middle of any.
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	for _, f := range fleets {
		idleLoad(t, f, rng)
	}
	var cpu, wall, control idleRatios
	for began, next := time.Now(), idleRounds; ; {
		var took [len(fleets)]idleTimes
		order := rng.Perm(len(fleets))
		for i := range 2 * len(order) {
			k := order[min(i, 2*len(order)-1-i)]
			one := idleLoad(t, fleets[k], rng)
			took[k].cpu, took[k].wall = took[k].cpu+one.cpu, took[k].wall+one.wall
		}
		cpu = append(cpu, 2*took[0].cpu/(took[1].cpu+took[2].cpu))
		wall = append(wall, 2*took[0].wall/(took[1].wall+took[2].wall))
		control = append(control, took[1].cpu/took[2].cpu)
		late := time.Since(began) >= *idleFor
		if len(cpu) < next && !late {
			continue
		}
		next *= 2
		control.report("processor time without transfers against the same")
		wall.report("time with transfers against without")
		at := cpu.report("processor time with transfers against without")
		switch {
		case late && len(cpu) < idleRounds:
			t.Fatalf("undecided after %v: %d rounds are too few to judge by", *idleFor, len(cpu))
		case at.High <= idleBar:
			return
		case at.Low > idleBar:
			t.Fatalf("missed: at least %.4f, want at most %.2f", at.Low, idleBar)
		case late:
			t.Fatalf("undecided after %v: this machine is too busy to measure", *idleFor)
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
func idleLoad(t *testing.T, f *fleet.Fleet, rng *rand.Rand) idleTimes {
	t.Helper()
	requests := make([]*parley.Request, idleRequests)
	for i := range requests {
		r := &parley.Request{
			Model:     "polly-mini",
			Prompt:    make([]parley.Token, 256),
			MaxTokens: 16,
			Stop:      parley.Stop{IgnoreEnd: true},
		}
		for k := range r.Prompt {
			r.Prompt[k] = parley.Token(300 + rng.IntN(1000))
		}
		requests[i] = r
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

// processorTime returns how much of it this process has used.
func processorTime(t *testing.T) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
