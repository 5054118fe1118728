package admin

import (
	"time"
)

const (
	// Step is the time between two stored readings.
	Step = 5 * time.Second
	// Kept is how long readings are stored.
	Kept = time.Hour

	// The windows of pictures.
	ratesOver  = 10 * time.Second
	spreadOver = time.Minute
)

// A History keeps the readings of the last hour, one for each step, in a ring.
type History struct {
	ring []*Reading
	next int
	// latest may be newer than what is in the ring.
	latest *Reading
}

// NewHistory returns an empty history.
func NewHistory() *History {
	return &History{ring: make([]*Reading, 0, int(Kept/Step)+1)}
}

// Add takes a reading. It is stored if a step has passed since the last stored one. Add
// returns what happened since the reading before, or since the start, when all counters
// were 0; ok is false if the clock was set back.
func (h *History) Add(r *Reading) (happened Sample, ok bool) {
	last := h.latest
	if last != nil && !r.At.After(last.At) {
		return happened, false
	}
	h.latest = r
	if last == nil {
		last = &Reading{}
	}
	if before := h.Before(ratesOver); before != nil {
		for i := range r.Workers {
			r.Workers[i].compare(before, r.At.Sub(before.At))
		}
	}
	if n := len(h.ring); n > 0 && r.At.Sub(h.at(n-1).At) < Step-Step/10 {
		return sampleBetween(last, r), true
	}
	if len(h.ring) < cap(h.ring) {
		h.ring = append(h.ring, r)
	} else {
		h.ring[h.next] = r
		h.next = (h.next + 1) % len(h.ring)
	}
	if n := len(h.ring); n > workersKept {
		h.at(n - workersKept - 1).forgetWorkers()
	}
	return sampleBetween(last, r), true
}

// workersKept is how many readings keep each worker separately: a fleet may have
// hundreds, and an hour of them is of no use.
const workersKept = int(2 * time.Minute / Step)

// at returns the i-th oldest stored reading.
func (h *History) at(i int) *Reading { return h.ring[(h.next+i)%len(h.ring)] }

// TTFTBounds are the upper bounds, in seconds, of the buckets of first tokens.
func (h *History) TTFTBounds() []float64 {
	if h.latest == nil {
		return []float64{}
	}
	return append([]float64{}, h.latest.TTFT.Bounds...)
}

// Latest returns the newest reading, nil if there is none.
func (h *History) Latest() *Reading { return h.latest }

// Before returns the newest reading that is at least age older than the latest one,
// else the oldest; nil if there is none before the latest.
func (h *History) Before(age time.Duration) *Reading {
	var found *Reading
	for i := range h.ring {
		r := h.at(i)
		if r == h.latest || found != nil && h.latest.At.Sub(r.At) < age {
			break
		}
		found = r
	}
	return found
}

// before is Before, or the latest reading itself if there is no other.
func (h *History) before(age time.Duration) *Reading {
	if r := h.Before(age); r != nil {
		return r
	}
	return h.latest
}
