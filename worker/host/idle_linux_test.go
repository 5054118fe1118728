package host

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	"parley"
	"parley/fleet"
	"parley/internal/stat"
	"parley/route"
)

var idleRounds = flag.Int("idle", 0,
	"measure in `N` rounds what the transfer of blocks costs a fleet that never moves any")

const (
	// idleBar is how many times as much processor time a fleet may take that could move blocks
	// and never does.
	idleBar = 1.01
	// idleRequests are made in a round, on each side.
	idleRequests = 64
)

// TestIdleTransfers answers requests that share nothing, by two workers behind a gateway that
// moves blocks and behind one that does not, in turns. What is compared is processor time, of
// gateway and workers together: on a machine that is fully used it is what throughput depends on,
// and other programs change it little.
func TestIdleTransfers(t *testing.T) {
	if *idleRounds == 0 {
		t.Skip("NOT RUN: a measurement: make kv-idle")
	}
	model := Config{KVTokens: 1 << 16, ContextTokens: 2048, NoSpeculation: true}
	_, urlA := startWorker(t, ServerConfig{Key: transferKey}, model)
	_, urlB := startWorker(t, ServerConfig{Key: transferKey}, model)
	off := startFleetOf(t, fleet.Config{NoTransfers: true}, urlA, urlB)
	on := startFleetWith(t, route.Config{}, urlA, urlB)
	rng := rand.New(rand.NewPCG(24, 4))
	var with, without, wallWith, wallWithout []float64
	for round := range *idleRounds + 1 {
		sides := []*fleet.Fleet{off, on}
		if round%2 == 1 {
			sides = []*fleet.Fleet{on, off}
		}
		for _, f := range sides {
			cpu, wall := idleLoad(t, f, rng)
			switch {
			case round == 0: // which warms both up
			case f == on:
				with, wallWith = append(with, cpu), append(wallWith, wall)
			default:
				without, wallWithout = append(without, cpu), append(wallWithout, wall)
			}
		}
	}
	cost := ratioOf(t, "processor time", with, without)
	ratioOf(t, "time", wallWith, wallWithout)
	if cost > idleBar {
		t.Errorf("missed: %.4f, want at most %.2f", cost, idleBar)
	}
}

// ratioOf prints and returns how many times as much one side takes.
func ratioOf(t *testing.T, what string, with, without []float64) float64 {
	t.Helper()
	ratios, err := stat.Ratios(with, without)
	if err != nil {
		t.Fatal(err)
	}
	at := stat.MedianInterval(ratios, 0.95)
	fmt.Printf("%s of %d requests, median of %d rounds: %.1f ms with transfers, %.1f ms without; ratio %.4f, "+
		"95 %% interval %.4f to %.4f (bar %.2f of processor time)\n", what, idleRequests, len(ratios),
		stat.Median(with)*1e3, stat.Median(without)*1e3, stat.Median(ratios), at.Low, at.High, idleBar)
	return stat.Median(ratios)
}

// idleLoad has a fleet answer requests whose prompts share nothing, and returns how many seconds
// of processor time and of time that took.
func idleLoad(t *testing.T, f *fleet.Fleet, rng *rand.Rand) (cpu, wall float64) {
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
	return (processorTime(t) - before).Seconds(), time.Since(began).Seconds()
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
