package admin

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"
)

// A ScaleReport is what an autoscaler says of the workers that it scales.
type ScaleReport struct {
	// Target is what it changes, such as deployment/vllm.
	Target string `json:"target"`
	// Desired workers there should be, from Min to Max, because of Why. Ready ones take
	// requests, and Starting ones will.
	Desired  int    `json:"desired"`
	Ready    int    `json:"ready"`
	Starting int    `json:"starting"`
	Min      int    `json:"min"`
	Max      int    `json:"max"`
	Why      string `json:"why"`
	// Rate is how many requests came in a second lately, Expected how many are expected
	// at most within HorizonSeconds, which a worker takes to be ready.
	Rate           float64 `json:"rate"`
	Expected       float64 `json:"expected"`
	HorizonSeconds float64 `json:"horizon_seconds"`
	// Price is what a worker costs in an hour, Budget the most that all may; 0 is not known.
	Price  float64 `json:"price"`
	Budget float64 `json:"budget"`
	// Scaler names the process that reports. While it does, no other one acts on the same target, unless
	// it Ends. Empty leaves that to others, as to a lease of Kubernetes.
	Scaler string `json:"scaler,omitempty"`
	Ends   bool   `json:"ends,omitempty"`
	// StandsBy is which process scales, if it is not the one that reports.
	StandsBy string `json:"stands_by,omitempty"`
	// Problem is why it could not act.
	Problem string `json:"problem,omitempty"`
}

// scaleTextMax bounds each text of a report, in bytes.
const scaleTextMax = 2000

// Validate reports everything that is wrong with a report.
func (r *ScaleReport) Validate() error {
	var problems []error
	if r.Target == "" {
		problems = append(problems, errors.New("target is missing"))
	}
	if len(r.Target) > scaleTextMax/10 ||
		max(len(r.Why), len(r.Scaler), len(r.StandsBy), len(r.Problem)) > scaleTextMax {
		problems = append(problems, fmt.Errorf("a text is longer than %d bytes, or target longer than %d", scaleTextMax,
			scaleTextMax/10))
	}
	if min(r.Desired, r.Ready, r.Starting, r.Min, r.Max) < 0 {
		problems = append(problems, errors.New("desired, ready, starting, min and max may not be negative"))
	}
	for name, v := range map[string]float64{"rate": r.Rate, "expected": r.Expected, "price": r.Price,
		"budget": r.Budget, "horizon_seconds": r.HorizonSeconds} {
		if !(v >= 0) || v > math.MaxInt32 {
			problems = append(problems, fmt.Errorf("%s is %g: it must be from 0 to %d", name, v, math.MaxInt32))
		}
	}
	return errors.Join(problems...)
}

// A ScalePoint is what an autoscaler reported in one step of a [Resolution]: the most
// workers, and the mean of the rates. Expected is for that time, and was reported before
// it; null where nothing was.
type ScalePoint struct {
	At       int64    `json:"at"` // in seconds since 1970
	Desired  int      `json:"desired"`
	Ready    int      `json:"ready"`
	Rate     *float64 `json:"rate"`
	Expected *float64 `json:"expected"`
	Cost     float64  `json:"cost"` // of an hour

	rates, forecasts mean
}

// A mean adds values up.
type mean struct {
	sum float64
	n   int
}

func (m *mean) add(v float64) { m.sum, m.n = m.sum+v, m.n+1 }

func (m *mean) value() *float64 {
	if m.n == 0 {
		return nil
	}
	v := m.sum / float64(m.n)
	return &v
}

// A ScaleView is the latest report about a target, and those before.
type ScaleView struct {
	ScaleReport
	// At is when it came, in seconds since 1970. It is Stale if another one is overdue.
	At    int64 `json:"at"`
	Stale bool  `json:"stale"`
	// Cost is what the workers that there are cost in an hour, CostDesired those that
	// there should be.
	Cost        float64      `json:"cost"`
	CostDesired float64      `json:"cost_desired"`
	Points      []ScalePoint `json:"points"`
}

const (
	// scaleTargetsMax bounds the targets that are remembered.
	scaleTargetsMax = 16
	// scaleOverdue is after how long without a report an autoscaler is taken for gone.
	scaleOverdue = 30 * time.Second
)

// A ScaleBoard remembers what autoscalers report.
type ScaleBoard struct {
	targets map[string]*scaleTarget
}

// A scaleTarget is what is remembered of a target.
type scaleTarget struct {
	last ScaleReport
	at   time.Time
	// points are those of each of [Resolutions], oldest first.
	points [len(Resolutions)][]ScalePoint
}

// Leader returns which process scales the target of a report, if that is another one.
func (s *ScaleBoard) Leader(r *ScaleReport, now time.Time) string {
	t := s.targets[r.Target]
	if t == nil || r.Scaler == "" || t.last.Scaler == r.Scaler || t.last.Ends || now.Sub(t.at) >= scaleOverdue {
		return ""
	}
	return t.last.Scaler
}

// Take takes in a report. One of a process that stands by does not replace that of the
// process which scales.
func (s *ScaleBoard) Take(r *ScaleReport, now time.Time) error {
	if err := r.Validate(); err != nil {
		return err
	}
	t := s.targets[r.Target]
	if t == nil {
		if len(s.targets) >= scaleTargetsMax && !s.dropGone(now) {
			return fmt.Errorf("%d targets are reported already, and no more are remembered", scaleTargetsMax)
		}
		t = &scaleTarget{}
		if s.targets == nil {
			s.targets = map[string]*scaleTarget{}
		}
		s.targets[r.Target] = t
	}
	if r.StandsBy != "" && t.last.StandsBy == "" && now.Sub(t.at) < scaleOverdue {
		return nil
	}
	t.last, t.at = *r, now
	for i, resolution := range Resolutions {
		p := t.point(i, resolution.Begin(now))
		p.Desired, p.Ready = max(p.Desired, r.Desired), max(p.Ready, r.Ready)
		p.Cost = max(p.Cost, r.Price*float64(r.Ready+r.Starting))
		p.rates.add(r.Rate)
		// Beyond what is shown soon it is of no use.
		horizon := min(time.Duration(r.HorizonSeconds*float64(time.Second)), time.Hour)
		t.point(i, resolution.Begin(now.Add(horizon))).forecasts.add(r.Expected)
		oldest := resolution.Oldest(now).Unix()
		for t.points[i][0].At < oldest {
			t.points[i] = t.points[i][1:]
		}
	}
	return nil
}

// dropGone forgets the target that was silent for longest, if it is gone.
func (s *ScaleBoard) dropGone(now time.Time) bool {
	oldest := slices.MinFunc(slices.Collect(maps.Keys(s.targets)), func(a, b string) int {
		return s.targets[a].at.Compare(s.targets[b].at)
	})
	if now.Sub(s.targets[oldest].at) < scaleOverdue {
		return false
	}
	delete(s.targets, oldest)
	return true
}

// point returns the point of a resolution that begins at a time.
func (t *scaleTarget) point(resolution int, at time.Time) *ScalePoint {
	points := &t.points[resolution]
	i, found := slices.BinarySearchFunc(*points, at.Unix(),
		func(p ScalePoint, at int64) int { return cmp.Compare(p.At, at) })
	if !found {
		*points = slices.Insert(*points, i, ScalePoint{At: at.Unix()})
	}
	return &(*points)[i]
}

// View returns what is known of all targets, in the order of their names, with the points of
// some time until now.
func (s *ScaleBoard) View(length time.Duration, now time.Time) []ScaleView {
	views := []ScaleView{}
	for _, name := range slices.Sorted(maps.Keys(s.targets)) {
		t := s.targets[name]
		views = append(views, ScaleView{
			ScaleReport: t.last,
			At:          t.at.Unix(),
			Stale:       now.Sub(t.at) > scaleOverdue,
			Cost:        t.last.Price * float64(t.last.Ready+t.last.Starting),
			CostDesired: t.last.Price * float64(t.last.Desired),
			Points:      t.within(length, now),
		})
	}
	return views
}

// within returns the points of some time until now.
func (t *scaleTarget) within(length time.Duration, now time.Time) []ScalePoint {
	chosen := ResolutionFor(length)
	shown := []ScalePoint{}
	for _, p := range t.points[slices.Index(Resolutions[:], chosen)] {
		if p.At <= now.Unix() && p.At > now.Add(-length).Unix() {
			p.Rate, p.Expected = p.rates.value(), p.forecasts.value()
			shown = append(shown, p)
		}
	}
	return shown
}
