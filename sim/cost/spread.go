package cost

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"
)

// A Run is how long successive passes of a worker took, each relative to the time of the model: a pass with a part of a
// prompt, and those after it in which sequences decoded and nothing else. In a file it is a text of numbers.
//
// Passes of one run belong together: the first ones after a prompt take longer than later ones, because they find other
// data in the processor's caches, and what else a machine does lasts for many passes.
type Run []float64

// Bounds of the runs that are kept, and of a number in them.
const (
	runsMax   = 512
	runLength = 64
	ratioMax  = 1000
	// runSettled is after how many passes without a prompt a run is the same as any other.
	runSettled = 8
	// runsAlike is the fewest runs that one is drawn from.
	runsAlike = 16
	// refits is how often a model is fitted anew, without what its runs explain.
	refits = 8
)

// MarshalText writes the numbers with three digits after the point.
func (r Run) MarshalText() (text []byte, _ error) {
	for i, ratio := range r {
		if i > 0 {
			text = append(text, ' ')
		}
		text = strconv.AppendFloat(text, ratio, 'f', 3, 64)
	}
	return text, nil
}

// UnmarshalText reads what MarshalText writes.
func (r *Run) UnmarshalText(text []byte) error {
	*r = nil
	for field := range strings.FieldsSeq(string(text)) {
		ratio, err := strconv.ParseFloat(field, 64)
		if err != nil {
			return fmt.Errorf("a pass of a run took %q times as long: want a number", field)
		}
		*r = append(*r, ratio)
	}
	return nil
}

func (r Run) validate() error {
	if len(r) == 0 {
		return errors.New("a run has no passes")
	}
	for _, ratio := range r {
		if !(ratio >= 0 && ratio <= ratioMax) {
			return fmt.Errorf("a pass of a run took %g times as long: want 0 to %d", ratio, ratioMax)
		}
	}
	return nil
}

// hasPrompt reports whether a pass computes a part of a prompt.
func (p Pass) hasPrompt() bool { return p.Rows > p.Sequences }

// keepRuns keeps the runs in the passes that workers served, in their order, at most runsMax of them, evenly chosen.
func (m *Model) keepRuns(samples []Sample) {
	var runs []Run
	var rows []int
	for i := range samples {
		took, _ := m.Time(samples[i].Pass)
		ratio := min(ratioMax, math.Round(1000*samples[i].Took.Seconds()/took.Seconds())/1000)
		switch last := len(runs) - 1; {
		case samples[i].hasPrompt():
			runs, rows = append(runs, Run{ratio}), append(rows, samples[i].Rows)
		case last >= 0 && len(runs[last]) < runLength:
			runs[last] = append(runs[last], ratio)
		}
	}
	n := min(len(runs), runsMax)
	m.Runs, m.RunRows = make([]Run, n), make([]int, n)
	for i := range n {
		from, to := i*len(runs)/n, i
		for ; to > 0 && m.RunRows[to-1] > rows[from]; to-- { // few enough to be put where they belong one by one
			m.Runs[to], m.RunRows[to] = m.Runs[to-1], m.RunRows[to-1]
		}
		m.Runs[to], m.RunRows[to] = runs[from], rows[from]
	}
}

// FitServed is Fit for the passes that workers served, in their order, with the runs that are in them. How long after
// a prompt a pass comes is a matter of the runs: passes with several sequences, which are more often among the first
// after one, must not have it in the time of the model as well.
func FitServed(samples []Sample) (*Model, error) {
	m, err := Fit(samples)
	for range refits {
		if err != nil {
			return nil, err
		}
		m, err = Fit(m.sincePrompt(samples))
	}
	if err != nil {
		return nil, err
	}
	var check []Sample
	for i := holdBack - 1; i < len(samples); i += holdBack {
		check = append(check, samples[i])
	}
	m.Error = m.ErrorOn(check)
	m.keepRuns(samples)
	return m, nil
}

// sincePrompt returns passes as long as they would have been at an average time after a prompt.
func (m *Model) sincePrompt(samples []Sample) []Sample {
	var expected, took [runSettled + 1]float64 // by how many passes ago the latest prompt was, of those without one
	var allExpected, allTook float64
	at := make([]int, len(samples))
	place := runSettled
	for i := range samples {
		if place = min(place+1, runSettled); samples[i].hasPrompt() {
			place, at[i] = -1, -1
			continue
		}
		at[i] = place
		t, _ := m.Time(samples[i].Pass)
		expected[place], took[place] = expected[place]+t.Seconds(), took[place]+samples[i].Took.Seconds()
		allExpected, allTook = allExpected+t.Seconds(), allTook+samples[i].Took.Seconds()
	}
	samples = slices.Clone(samples)
	for i, place := range at {
		if place >= 0 && took[place] > 0 {
			factor := took[place] / expected[place] * allExpected / allTook
			samples[i].Took = max(1, time.Duration(math.Round(float64(samples[i].Took)/factor)))
		}
	}
	return samples
}

// Draws are the times of the successive passes of one worker. They differ from those of the model as measured ones
// did: a run is drawn for each pass with a prompt, of those whose first pass had about as many rows, and followed until
// the next one. If it has ended, others are followed from where they have settled. Without runs the times are those of
// the model.
type Draws struct {
	model   *Model
	random  *rand.PCG
	run     Run
	settled []Run // those that are long enough to be continued with
}

// Draws returns the times of a worker. Equal seeds and passes have equal times.
func (m *Model) Draws(seed, worker uint64) *Draws {
	d := &Draws{model: m, random: rand.NewPCG(seed, worker)}
	for _, run := range m.Runs {
		if len(run) > runSettled {
			d.settled = append(d.settled, run[runSettled:])
		}
	}
	return d
}

// alike returns the runs whose first pass is most like one with a number of rows: a quarter of all, and more where they
// are few.
func (d *Draws) alike(rows int) []Run {
	n := len(d.model.RunRows)
	if n == 0 {
		return d.model.Runs
	}
	some := min(n, max(runsAlike, n/4))
	at, end := sort.SearchInts(d.model.RunRows, rows), sort.SearchInts(d.model.RunRows, rows+1)
	from := min(max(0, (at+end-some)/2), n-some)
	return d.model.Runs[from : from+some]
}

// Time returns how long the next pass takes, and what it waits for.
func (d *Draws) Time(p Pass) (time.Duration, Limit) {
	took, limit := d.model.Time(p)
	if len(d.model.Runs) == 0 {
		return took, limit
	}
	if p.hasPrompt() {
		d.run = d.pick(d.alike(p.Rows))
	} else if len(d.run) == 0 {
		d.run = d.pick(d.settled)
	}
	ratio := d.run[0]
	d.run = d.run[1:]
	return max(1, time.Duration(math.Round(float64(took)*ratio))), limit
}

func (d *Draws) pick(runs []Run) Run {
	if len(runs) == 0 {
		return Run{1}
	}
	return runs[d.random.Uint64()%uint64(len(runs))]
}
