package sim

import (
	"math"
	"strings"
	"testing"
	"time"
)

func inOrder(n int, do func(i int)) {
	for i := range n {
		do(i)
	}
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
	if p.Workers != 1 || p.Scale.Max != 10 || p.Scale.Day != 0 || d.Length != 6*time.Minute ||
		math.Abs(d.Peak-8.3333) > 1e-3 || part.Duration != 6*time.Minute || s.Traffic[0].Day.Length != 24*time.Hour {
		t.Errorf("a thousandth has %+v with %+v and %+v", p, p.Scale, d)
	}
	rows, err := Estimated(s, Shard{Share: 0.0002, Pace: 60}, 2, inOrder)
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
	if _, err := Estimated(s, Shard{0.001, 100}, 1, inOrder); err == nil {
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
