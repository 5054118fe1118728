package admin

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"
)

// TestScaling remembers what autoscalers report: what is wanted, why, what was expected of a
// time and what came then.
func TestScaling(t *testing.T) {
	now := time.Unix(1_000_000_000, 0)
	s := &ScaleBoard{}
	report := func(desired int, rate, expected float64) {
		t.Helper()
		if err := s.Take(&ScaleReport{
			Target:         "deployment/w",
			Desired:        desired,
			Ready:          2,
			Starting:       1,
			Why:            "it is noon",
			Rate:           rate,
			Expected:       expected,
			HorizonSeconds: 60,
			Price:          2.5,
		}, now); err != nil {
			t.Fatal(err)
		}
	}
	step := Resolutions[0].Step
	now = now.Truncate(step)
	for i := range 10 {
		report(3+i%2, float64(i), float64(i+4))
		now = now.Add(step / 2)
		report(3, float64(i)+1, float64(i+4))
		now = now.Add(step / 2)
	}
	now = now.Add(-step / 2)
	views := s.View(15*time.Minute, now)
	if len(views) != 1 || views[0].Desired != 3 || views[0].Cost != 7.5 || views[0].CostDesired != 7.5 ||
		views[0].Stale || views[0].Why != "it is noon" {
		t.Fatalf("it shows %+v", views)
	}
	points := views[0].Points
	if len(points) != 10 {
		t.Fatalf("%d points, want 10: those up to now", len(points))
	}
	for i, p := range points {
		if p.Desired != 3+i%2 || p.Ready != 2 || p.Cost != 7.5 || p.Rate == nil || *p.Rate != float64(i)+0.5 {
			t.Errorf("point %d is %+v", i, p)
		}
		// What was expected of this time was said 60 s before.
		switch {
		case i < 4 && p.Expected != nil:
			t.Errorf("%g was expected of point %d", *p.Expected, i)
		case i >= 4 && (p.Expected == nil || *p.Expected != float64(i)):
			t.Errorf("of point %d %v was expected, want %d", i, p.Expected, i)
		}
	}

	if err := s.Take(&ScaleReport{Target: "deployment/w", Desired: 9, StandsBy: "a"}, now); err != nil {
		t.Fatal(err)
	}
	if v := s.View(0, now)[0]; v.Desired != 3 {
		t.Error("one that stands by replaced what the other one said")
	}
	now = now.Add(scaleOverdue + time.Second)
	if v := s.View(0, now)[0]; !v.Stale {
		t.Error("an autoscaler that is silent is not seen to be")
	}
	if err := s.Take(&ScaleReport{Target: "deployment/w", Desired: 9, StandsBy: "a"}, now); err != nil {
		t.Fatal(err)
	}
	if v := s.View(0, now)[0]; v.Desired != 9 || v.StandsBy != "a" {
		t.Errorf("after the end of the one that scales it shows %+v", v)
	}
}

// TestScalingIsBounded refuses what is wrong, and more targets than it remembers.
func TestScalingIsBounded(t *testing.T) {
	now := time.Unix(1_000_000_000, 0)
	s := &ScaleBoard{}
	for _, r := range []ScaleReport{{}, {Target: "a", Desired: -1}, {Target: "a", Rate: math.NaN()},
		{Target: "a", Price: math.Inf(1)}, {Target: "a", HorizonSeconds: -1},
		{Target: "a", Why: strings.Repeat("x", scaleTextMax+1)}} {
		if err := s.Take(&r, now); err == nil {
			t.Errorf("%+v is taken", r)
		}
	}
	for i := range scaleTargetsMax {
		if err := s.Take(&ScaleReport{Target: fmt.Sprint("target-", i)}, now); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Take(&ScaleReport{Target: "more"}, now); err == nil {
		t.Error("more targets than are remembered are taken")
	}
	now = now.Add(scaleOverdue)
	if err := s.Take(&ScaleReport{Target: "more"}, now); err != nil || len(s.View(0, now)) != scaleTargetsMax {
		t.Errorf("in place of one that is gone: %v", err)
	}
	for range 10_000 { // points are bounded, too
		now = now.Add(10 * time.Minute)
		if err := s.Take(&ScaleReport{Target: "more", HorizonSeconds: 1e6}, now); err != nil {
			t.Fatal(err)
		}
	}
	for i, points := range s.targets["more"].points {
		kept := Resolutions[i].Kept + time.Hour // some are of the next hour
		if most := int(kept/Resolutions[i].Step) + 2; len(points) > most {
			t.Errorf("there are %d points of %v, more than %d", len(points), Resolutions[i].Step, most)
		}
	}
}

// TestLeader: one process scales a target, until it ends or is not heard of.
func TestLeader(t *testing.T) {
	var board ScaleBoard
	now := time.Date(2026, 11, 18, 12, 0, 0, 0, time.UTC)
	report := func(scaler, target string, ends bool) string {
		r := &ScaleReport{Target: target, Scaler: scaler, Ends: ends}
		other := board.Leader(r, now)
		if other == "" {
			if err := board.Take(r, now); err != nil {
				t.Fatal(err)
			}
		}
		return other
	}
	for _, c := range []struct {
		after          time.Duration
		scaler, target string
		ends           bool
		want           string
	}{
		{0, "a", "x", false, ""},
		{time.Second, "b", "x", false, "a"},
		{time.Second, "b", "y", false, ""},
		{20 * time.Second, "a", "x", false, ""},
		{29 * time.Second, "b", "x", false, "a"},
		{time.Second, "b", "x", false, ""}, // a was not heard of
		{time.Second, "a", "x", false, "b"},
		{time.Second, "b", "x", true, ""},
		{time.Second, "a", "x", false, ""},
		{time.Second, "", "x", false, ""}, // of an older version, or with a lease elsewhere
		{time.Second, "b", "x", false, ""},
	} {
		now = now.Add(c.after)
		if got := report(c.scaler, c.target, c.ends); got != c.want {
			t.Errorf("at %v %q scales %s: %q does, want %q", now.Format(time.TimeOnly), c.scaler, c.target, got, c.want)
		}
	}
}
