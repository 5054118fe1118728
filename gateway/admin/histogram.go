package admin

import (
	"slices"

	dto "github.com/prometheus/client_model/go"
)

// A Histogram holds times as counts in buckets. Counts grow; what happened
// between two moments is the difference of two.
type Histogram struct {
	// Bounds are the upper bounds of the buckets in seconds, ascending. Counts[i]
	// is how many were at most Bounds[i]; Count is all of them, Sum their sum.
	Bounds []float64
	Counts []uint64
	Count  uint64
	Sum    float64
}

// add counts what another histogram of the same kind counted. One with other
// buckets is a mistake in the metric, and left out.
func (h *Histogram) add(m *dto.Histogram) {
	if h.Bounds == nil {
		for _, b := range m.GetBucket() {
			h.Bounds = append(h.Bounds, b.GetUpperBound())
		}
		h.Counts = make([]uint64, len(h.Bounds))
	}
	if len(m.GetBucket()) != len(h.Bounds) {
		return
	}
	for i, b := range m.GetBucket() {
		h.Counts[i] += b.GetCumulativeCount()
	}
	h.Count += m.GetSampleCount()
	h.Sum += m.GetSampleSum()
}

// since returns what was counted after an earlier reading of the same histogram.
// A server that was started again counts from 0: then it is all of it.
func (h *Histogram) since(before *Histogram) Histogram {
	if before.Count > h.Count || !slices.Equal(before.Bounds, h.Bounds) {
		return *h
	}
	d := Histogram{Bounds: h.Bounds, Counts: make([]uint64, len(h.Counts)), Count: h.Count - before.Count,
		Sum: h.Sum - before.Sum}
	for i := range d.Counts {
		d.Counts[i] = h.Counts[i] - min(before.Counts[i], h.Counts[i])
	}
	return d
}

// within returns the times that were counted after an earlier reading.
func (h *Histogram) within(before *Histogram) (times Latencies) {
	d := h.since(before)
	below, low := uint64(0), 0.
	for i, high := range d.Bounds {
		if n := d.Counts[i] - min(below, d.Counts[i]); n > 0 {
			times = append(times, Bucket{Low: low, High: high, Count: n})
		}
		below, low = d.Counts[i], high
	}
	if d.Count > below {
		times = append(times, Bucket{Low: low, Count: d.Count - below})
	}
	return times
}

// Quantile returns the time that the share q of all did not exceed, spread evenly
// within its bucket; 0 if there were none. A time beyond the last bound is not known: it
// is returned as that bound, and [Histogram.Beyond] reports it.
func (h *Histogram) Quantile(q float64) float64 {
	if h.Count == 0 || len(h.Bounds) == 0 {
		return 0
	}
	rank := q * float64(h.Count)
	below, low := 0., 0.
	for i, bound := range h.Bounds {
		upTo := float64(h.Counts[i])
		if upTo >= rank && upTo > below {
			return low + (bound-low)*(rank-below)/(upTo-below)
		}
		below, low = upTo, bound
	}
	return h.Bounds[len(h.Bounds)-1]
}

// Beyond reports whether the quantile q lies beyond the last bound.
func (h *Histogram) Beyond(q float64) bool {
	n := len(h.Bounds)
	return n > 0 && float64(h.Counts[n-1]) < q*float64(h.Count)
}

// Over returns how many took longer than a limit, spread evenly within its bucket.
func (h *Histogram) Over(limit float64) float64 {
	below, low := 0., 0.
	for i, bound := range h.Bounds {
		upTo := float64(h.Counts[i])
		if limit < bound {
			return float64(h.Count) - below - (upTo-below)*(limit-low)/(bound-low)
		}
		below, low = upTo, bound
	}
	return float64(h.Count) - below
}
