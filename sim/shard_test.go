package sim

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"
)

// inOrder returns a runner that does one thing after the other, in the order of several at a time.
func inOrder(width int) Runner {
	return Runner{width, func(n int, do func(i int)) {
		for i := range n {
			do(i)
		}
	}}
}

// TestConsumerDay takes a part of the large day and a half of it, which say the same about the
// whole, within what is stated.
func TestConsumerDay(t *testing.T) {
	t.Parallel()
	s := readExample(t, "consumer-day")
	part, err := Shard{Share: 0.001, Pace: 240}.Of(s)
	if err != nil {
		t.Fatal(err)
	}
	p, d := &part.Pools[0], part.Traffic[0].Day
	if p.Workers != 1 || p.Scale.Max != 20 || p.Scale.Day != 6*time.Minute || d.Length != 6*time.Minute ||
		math.Abs(d.Peak-8.3333) > 1e-3 || part.Duration != 6*time.Minute || s.Traffic[0].Day.Length != 24*time.Hour {
		t.Errorf("a thousandth has %+v with %+v and %+v", p, p.Scale, d)
	}
	rows, err := Estimated(s, Sampling{Shard{0.0002, 60}, 2}, inOrder(1))
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range rows {
		if !(row.Value > 0) || !(row.Off() >= row.Chance) || math.IsNaN(row.Off()) {
			t.Errorf("%+v", row)
		}
		if turns := 6 * 2894 * 86400.0; row.Name == "requests" && math.Abs(row.Value-turns) > 0.1*turns+row.Off() {
			t.Errorf("a day has %g requests ± %g; want about %g", row.Value, row.Off(), turns)
		}
	}
}

func TestNoShard(t *testing.T) {
	s := readExample(t, "consumer-day")
	for _, p := range []Shard{{0, 1}, {2, 1}, {0.5, 0}, {math.NaN(), 1}, {0.5, math.Inf(1)}} {
		if _, err := p.Of(s); err == nil {
			t.Errorf("%+v is taken", p)
		}
	}
	if _, err := Estimated(s, Sampling{Shard{0.001, 100}, 1}, inOrder(1)); err == nil {
		t.Error("an interval from one shard")
	}
	s.Pools[0].Workers = 5000
	if _, err := Run(s); err == nil || !strings.Contains(err.Error(), "one router takes 4096") {
		t.Errorf("5000 workers: %v", err)
	}
	s.Traffic[0].Replay = &Replay{}
	if _, err := (Shard{0.5, 1}).Of(s); err == nil || !strings.Contains(err.Error(), "replays a trace") {
		t.Errorf("of a replay: %v", err)
	}
}

// TestHistory shows a scaler the days before a scenario begins: it expects the rise that a worker which starts now
// would come too late for, and without them it does not.
func TestHistory(t *testing.T) {
	s := readExample(t, "consumer-day")
	s.Pools[0].ColdStart = time.Hour
	expected := func(history time.Duration) float64 {
		s.Pools[0].Scale.History = history
		part, err := Shard{Share: 0.001, Pace: 1}.Of(s)
		if err != nil {
			t.Fatal(err)
		}
		part.Traffic[0].Day.PeakAt = time.Hour
		r, err := newSimulation(part)
		if err != nil {
			t.Fatal(err)
		}
		pool := r.stations[0]
		r.recall(pool)
		return pool.scaled[0].scaler.Plan(pool.seen(pool.scaled[0]), epoch).Expected
	}
	if without, with := expected(0), expected(48*time.Hour); without != 0 || with < 48 || with > 52 {
		t.Errorf("%.2f requests/s are expected without history, and %.2f with: want 0, and about 50", without, with)
	}
}

// TestNoClairvoyant has objectives that no number of workers meets: the search says so, and ends.
func TestNoClairvoyant(t *testing.T) {
	t.Parallel()
	s := readExample(t, "consumer-day")
	s.TTFT = time.Nanosecond
	by := Sampling{Shard{0.0001, 1000}, 1}
	if _, _, err := by.knowing(s, 2, nil, inOrder(1)); !errors.Is(err, errUnmet) {
		t.Errorf("%v, want %v", err, errUnmet)
	}
}
