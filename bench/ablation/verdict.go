package ablation

import (
	"errors"
	"time"

	"parley/internal/stat"
)

// confidenceWanted is how sure an interval should be.
const confidenceWanted = 0.95

// A Sample is what the rounds of one mechanism measured: one number for each
// side and round. Off is empty where there is only one side.
type Sample struct {
	Off, On []float64
	// Note says what a reader should know beside the numbers.
	Note string
}

// A Result is a mechanism with what was measured of it.
type Result struct {
	Mechanism
	// OffRounds and OnRounds are the numbers of each round, OffMedian and
	// OnMedian the middle ones.
	OffRounds []float64 `json:"off_rounds,omitempty"`
	OnRounds  []float64 `json:"on_rounds"`
	OffMedian float64   `json:"off_median,omitempty"`
	OnMedian  float64   `json:"on_median"`
	// Gain is the median over the rounds of how many times better the mechanism
	// was, and Interval where the true one lies. Where there is only one side,
	// there is no gain, and the interval is of the number itself.
	Gain     float64       `json:"gain,omitempty"`
	Interval stat.Interval `json:"interval"`
	// Met says whether the floor was reached.
	Met  bool   `json:"met"`
	Note string `json:"note,omitempty"`
	// Seconds is how long it took to measure.
	Seconds float64 `json:"seconds"`
}

// judge makes a result of what was measured.
func judge(m Mechanism, s Sample, took time.Duration) (Result, error) {
	r := Result{
		Mechanism: m,
		OffRounds: s.Off,
		OnRounds:  s.On,
		Note:      s.Note,
		Seconds:   took.Round(100 * time.Millisecond).Seconds(),
	}
	if len(s.On) == 0 {
		return r, errors.New("no round was measured")
	}
	r.OnMedian = stat.Median(s.On)
	if m.Rule == Within {
		r.Interval = stat.MedianInterval(s.On, confidenceWanted)
		r.Met = r.OnMedian <= m.Floor
		return r, nil
	}
	better, worse := s.On, s.Off
	if m.LessIsBetter {
		better, worse = worse, better
	}
	gains, err := stat.Ratios(better, worse)
	if err != nil {
		return r, err
	}
	r.OffMedian, r.Gain = stat.Median(s.Off), stat.Median(gains)
	r.Interval = stat.MedianInterval(gains, confidenceWanted)
	judged := r.Gain
	if m.Rule == SurelyGains {
		judged = r.Interval.Low
	}
	r.Met = judged >= m.Floor
	return r, nil
}

// Schema names the shape of the JSON document.
const Schema = "parley-mechanisms/1"

// A Report is the whole of a run.
type Report struct {
	Schema  string    `json:"schema"`
	Program string    `json:"program"`
	Machine string    `json:"machine"`
	Started time.Time `json:"started"`
	Seconds float64   `json:"seconds"`
	// Quick is set for a run with fewer and shorter rounds.
	Quick   bool     `json:"quick"`
	Results []Result `json:"results"`
}

// Missed lists the names of the mechanisms below their floors.
func (r *Report) Missed() (names []string) {
	for i := range r.Results {
		if !r.Results[i].Met {
			names = append(names, r.Results[i].Name)
		}
	}
	return names
}
