package admin

import (
	"slices"
	"time"
)

// A Resolution has periods of Step each, which are kept for Kept.
type Resolution struct{ Step, Kept time.Duration }

const day = 24 * time.Hour

// Resolutions are the resolutions, the finest first. Together they have at most some 1,600
// periods.
var Resolutions = [5]Resolution{
	{15 * time.Second, time.Hour},
	{time.Minute, 6 * time.Hour},
	{5 * time.Minute, day},
	{30 * time.Minute, 7 * day},
	{2 * time.Hour, 30 * day},
}

// ResolutionFor returns the finest resolution that covers a range, else the coarsest.
func ResolutionFor(wanted time.Duration) Resolution {
	for _, s := range Resolutions {
		if s.Kept >= wanted {
			return s
		}
	}
	return Resolutions[len(Resolutions)-1]
}

// Begin returns the time at which the period of t begins.
func (s Resolution) Begin(t time.Time) time.Time { return t.Truncate(s.Step) }

// Oldest returns the begin of the oldest period that is kept at a time.
func (s Resolution) Oldest(now time.Time) time.Time { return s.Begin(now.Add(-s.Kept)) }

// A Period is what happened in one step of a resolution from a time on.
type Period struct {
	Step time.Duration
	At   time.Time
	Sample
}

// A Trend has periods of all resolutions. Its zero value is empty.
type Trend struct {
	// periods are those of each of [Resolutions], oldest first.
	periods [len(Resolutions)][]Period
}

// Add adds a sample that ended at a time, and drops periods that are too old.
func (t *Trend) Add(now time.Time, s *Sample) {
	for i, resolution := range Resolutions {
		t.Put(Period{Step: resolution.Step, At: resolution.Begin(now), Sample: *s})
		for t.periods[i][0].At.Before(resolution.Oldest(now)) {
			t.periods[i] = t.periods[i][1:]
		}
	}
}

// Put adds periods to those that t has.
func (t *Trend) Put(periods ...Period) {
	for _, s := range periods {
		of := t.of(s.Step)
		at, found := slices.BinarySearchFunc(*of, s.At, byTime)
		if found {
			(*of)[at].Add(&s.Sample)
		} else {
			*of = slices.Insert(*of, at, s)
		}
	}
}

func byTime(p Period, at time.Time) int { return p.At.Compare(at) }

// of returns the periods of a resolution.
func (t *Trend) of(step time.Duration) *[]Period {
	return &t.periods[slices.IndexFunc(Resolutions[:], func(s Resolution) bool { return s.Step == step })]
}

// Take returns all periods, and forgets them.
func (t *Trend) Take() []Period {
	periods := slices.Concat(t.periods[:]...)
	*t = Trend{}
	return periods
}

// Since returns the periods of a resolution that begin at a time or later, oldest first.
func (t *Trend) Since(resolution Resolution, since time.Time) []Period {
	var found []Period
	for _, s := range *t.of(resolution.Step) {
		if !s.At.Before(since) {
			found = append(found, s)
		}
	}
	return found
}
