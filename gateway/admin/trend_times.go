package admin

import (
	"cmp"
	"slices"
)

// A Bucket counts times of more than Low and at most High seconds. A High of 0 has no
// upper bound.
type Bucket struct {
	Low   float64 `json:"low"`
	High  float64 `json:"high,omitempty"`
	Count uint64  `json:"count"`
}

// Latencies are counts of times in buckets, in ascending order, without empty ones.
type Latencies []Bucket

// plus returns the counts of both. Buckets of an older version with other bounds stay
// apart.
func (t Latencies) plus(other Latencies) Latencies {
	if len(other) == 0 {
		return t
	}
	sum := slices.Clone(t)
	for _, b := range other {
		i, found := slices.BinarySearchFunc(sum, b, byBounds)
		if found {
			sum[i].Count += b.Count
		} else {
			sum = slices.Insert(sum, i, b)
		}
	}
	return sum
}

func byBounds(a, b Bucket) int {
	if a.Low != b.Low || a.High == b.High {
		return cmp.Compare(a.Low, b.Low)
	}
	switch {
	case a.High == 0:
		return 1
	case b.High == 0:
		return -1
	}
	return cmp.Compare(a.High, b.High)
}

// Count returns how many times there are.
func (t Latencies) Count() (n uint64) {
	for _, b := range t {
		n += b.Count
	}
	return n
}

// Quantile returns the time that the share q of all did not exceed, spread evenly within
// its bucket. Beyond means that it is longer than seconds, and not known better.
func (t Latencies) Quantile(q float64) (seconds float64, beyond bool) {
	rank, below := q*float64(t.Count()), 0.
	for _, b := range t {
		if upTo := below + float64(b.Count); upTo >= rank {
			if b.High == 0 {
				return b.Low, true
			}
			return b.Low + (b.High-b.Low)*(rank-below)/float64(b.Count), false
		}
		below += float64(b.Count)
	}
	return 0, false
}

// Within returns how many times are in each of the buckets with these upper bounds, with
// those beyond all at the end.
func (t Latencies) Within(bounds []float64) []uint64 {
	counts := make([]uint64, len(bounds)+1)
	for _, b := range t {
		i := len(bounds)
		if b.High > 0 {
			i, _ = slices.BinarySearch(bounds, b.High)
		}
		counts[i] += b.Count
	}
	return counts
}
