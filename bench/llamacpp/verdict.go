package llamacpp

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"time"

	"parley/internal/stat"
)

// coverageWanted is how sure an interval should be.
const coverageWanted = 0.95

// A Verdict says in a word how a check went.
type Verdict string

// The verdicts. A check is unclear if its interval has the bar in it.
const (
	Met     Verdict = "met"
	Unclear Verdict = "unclear"
	Missed  Verdict = "MISSED"
)

// A Sample is what the rounds of a check measured.
type Sample struct {
	Ours, Theirs []float64
	// Fault says what went wrong on our side, such as a request that failed. It
	// makes the check missed, whatever the numbers.
	Fault string
	// Notes say what a reader should know beside the numbers.
	Notes []string
}

// A Result is a check with what was measured of it.
type Result struct {
	Check
	// OurRounds and TheirRounds are the numbers of each round, OurMedian and
	// TheirMedian the middle ones.
	OurRounds   []float64 `json:"our_rounds"`
	TheirRounds []float64 `json:"their_rounds"`
	OurMedian   float64   `json:"our_median"`
	TheirMedian float64   `json:"their_median"`
	// Score is what the bar is compared with: the median over the rounds of how
	// many times as good we were, or of our own number; Interval is where the
	// true one lies.
	Score    float64       `json:"score"`
	Interval stat.Interval `json:"interval"`
	Verdict  Verdict       `json:"verdict"`
	Fault    string        `json:"fault,omitempty"`
	Notes    []string      `json:"notes,omitempty"`
}

// judge makes a result of what was measured.
func judge(c Check, s Sample) (Result, error) {
	r := Result{
		Check:       c,
		OurRounds:   s.Ours,
		TheirRounds: s.Theirs,
		Fault:       s.Fault,
		Notes:       s.Notes,
	}
	ratios, err := stat.Ratios(s.Ours, s.Theirs)
	if c.LessIsBetter {
		ratios, err = stat.Ratios(s.Theirs, s.Ours)
	}
	if err != nil {
		return r, fmt.Errorf("%s: %w", c.Name, err)
	}
	scores := s.Ours
	if c.Rule == Times {
		scores = ratios
	}
	r.OurMedian, r.TheirMedian, r.Score = stat.Median(s.Ours), stat.Median(s.Theirs), stat.Median(scores)
	r.Interval = stat.MedianInterval(scores, coverageWanted)
	r.Verdict = verdict(c, r.Interval)
	if s.Fault != "" {
		r.Verdict = Missed
	}
	return r, nil
}

// verdict compares both ends of the interval with the bar.
func verdict(c Check, i stat.Interval) Verdict {
	low, high := i.Low >= c.Bar, i.High >= c.Bar
	if c.Rule == AtMost {
		low, high = i.High <= c.Bar, i.Low <= c.Bar
	}
	switch {
	case low:
		return Met
	case high:
		return Unclear
	}
	return Missed
}

// Schema names the shape of the JSON document.
const Schema = "parley-peer/1"

// A Report is the whole of a run. New members may be added; Schema changes if
// one changes its meaning.
type Report struct {
	Schema  string `json:"schema"`
	Program string `json:"program"`
	// Peer is what it was compared with, as that calls itself.
	Peer    string    `json:"peer"`
	Machine string    `json:"machine"`
	Threads int       `json:"threads"`
	Fast    bool      `json:"fast_numerics"`
	Started time.Time `json:"started"`
	Seconds float64   `json:"seconds"`
	// BandwidthGB is the most that all threads together read from memory in a
	// second, measured beside the network in every round, in 10^9 bytes.
	BandwidthGB []float64 `json:"bandwidth_gb,omitempty"`
	Results     []Result  `json:"results"`
}

// Missed lists the names of the checks that were missed.
func (r *Report) Missed() (names []string) {
	for i := range r.Results {
		if r.Results[i].Verdict == Missed {
			names = append(names, r.Results[i].Name)
		}
	}
	return names
}

// reportBytesMax bounds the documents that ReadReport takes.
const reportBytesMax = 16 << 20

// ReadReport reads a report that was written as JSON.
func ReadReport(from io.Reader) (*Report, error) {
	data, err := io.ReadAll(io.LimitReader(from, reportBytesMax+1))
	if err != nil {
		return nil, err
	}
	if len(data) > reportBytesMax {
		return nil, fmt.Errorf("the report has more than %d bytes", reportBytesMax)
	}
	var r Report
	if err := json.Unmarshal(data, &r); err != nil {
		return nil, fmt.Errorf("no report of parley-bench cpu: %w", err)
	}
	if r.Schema != Schema {
		return nil, fmt.Errorf("a document of schema %.40q: expected %q, as parley-bench cpu --json writes it",
			r.Schema, Schema)
	}
	if len(r.Results) == 0 {
		return nil, errors.New("the report has no results")
	}
	for i := range r.Results {
		if s := r.Results[i].Score; !(s > 0) || math.IsInf(s, 0) {
			return nil, fmt.Errorf("result %.60q has the score %g: expected a positive number", r.Results[i].Name, s)
		}
	}
	return &r, nil
}
