package admin

import (
	"slices"
	"testing"
	"time"
)

var start = time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)

// busy is a second in which one request was answered.
func busy() *Sample {
	return &Sample{
		Running:  1,
		Requests: 1,
		Prompt:   40,
		Cached:   10,
		Output:   20,
		TTFT:     Latencies{{Low: 0.1, High: 0.2, Count: 1}},
	}
}

func TestSizeIsBounded(t *testing.T) {
	var tr Trend
	for at := start; at.Before(start.Add(70 * day)); at = at.Add(7 * time.Minute) {
		tr.Add(at, busy())
	}
	most := 0
	for _, s := range Resolutions {
		most += int(s.Kept/s.Step) + 1
	}
	if n := len(tr.Take()); n > most || most > 1700 {
		t.Errorf("%d periods are kept, want at most %d", n, most)
	}
}

// TestRangesHaveTheirPoints runs for 40 days, of which the server was down for one.
func TestRangesHaveTheirPoints(t *testing.T) {
	var tr Trend
	now := start.Add(40 * day)
	downFrom, downUntil := now.Add(-5*day), now.Add(-4*day)
	for at := start; at.Before(now); at = at.Add(15 * time.Second) {
		if at.Before(downFrom) || !at.Before(downUntil) {
			tr.Add(at, busy())
		}
	}
	for length, want := range map[time.Duration]struct {
		step   time.Duration
		points int
	}{
		15 * time.Minute: {15 * time.Second, 60},
		time.Hour:        {15 * time.Second, 240},
		6 * time.Hour:    {time.Minute, 360},
		day:              {5 * time.Minute, 288},
		7 * day:          {30 * time.Minute, 6 * 48},
		30 * day:         {2 * time.Hour, 29 * 12},
	} {
		resolution := ResolutionFor(length)
		points := Points(tr.Since(resolution, resolution.Begin(now.Add(-length))), now, nil)
		if resolution.Step != want.step || len(points) != want.points {
			t.Errorf("%v: %d points of %v, want %d of %v", length, len(points), resolution.Step, want.points, want.step)
			continue
		}
		for _, p := range points {
			if p.Requests != round(1./15) || p.Decode != round(20./15) || p.Prefill != 2 || *p.Hits != 0.25 {
				t.Errorf("%v: point %+v", length, p)
				break
			}
		}
	}
}

func TestNothingMeasuredIsNull(t *testing.T) {
	var tr Trend
	tr.Add(start, &Sample{})
	p := Points(tr.Since(Resolutions[0], start), start.Add(time.Minute), []float64{1})
	if len(p) != 1 || p[0].TTFT95 != nil || p[0].Gap50 != nil || p[0].Hits != nil || p[0].Requests != 0 ||
		!slices.Equal(p[0].TTFTCounts, []uint64{0, 0}) {
		t.Errorf("points %+v", p)
	}
}

func TestUnfinishedSlots(t *testing.T) {
	var tr Trend
	tr.Add(start, busy())
	if p := Points(tr.Since(Resolutions[1], start), start.Add(4*time.Second), nil); len(p) != 0 {
		t.Errorf("a period of 4 s is drawn: %+v", p)
	}
	p := Points(tr.Since(Resolutions[1], start), start.Add(10*time.Second), nil)
	if len(p) != 1 || p[0].Requests != 0.1 {
		t.Errorf("one request in 10 s: %+v", p)
	}
}

func TestTimesAddUp(t *testing.T) {
	a := Latencies{{High: 1, Count: 3}, {Low: 1, High: 2, Count: 1}}
	b := Latencies{{Low: 1, High: 2, Count: 5}, {Low: 2, Count: 1}}
	sum := a.plus(b)
	want := Latencies{{High: 1, Count: 3}, {Low: 1, High: 2, Count: 6}, {Low: 2, Count: 1}}
	if !slices.Equal(sum, want) {
		t.Errorf("sum %v, want %v", sum, want)
	}
	if len(a) != 2 || a[1].Count != 1 || !slices.Equal(sum, b.plus(a)) {
		t.Errorf("adding changed its operands, or depends on their order: %v", a)
	}
	if x, beyond := sum.Quantile(0.5); x != 1+2./6 || beyond {
		t.Errorf("median %v, beyond %v", x, beyond)
	}
	if x, beyond := sum.Quantile(0.95); x != 2 || !beyond {
		t.Errorf("p95 %v, beyond %v: want more than 2", x, beyond)
	}
	if got := sum.Within([]float64{1, 1.5, 2}); !slices.Equal(got, []uint64{3, 0, 6, 1}) {
		t.Errorf("within %v", got)
	}
}
