package sim

import (
	"math/bits"
	"time"
)

// A histogram counts durations in buckets that are at most a thirty-second wide,
// relatively, so that a percentile is right to about 1.6 % and memory does not grow
// with what is counted.
type histogram struct {
	counts []uint32
	n      uint64
}

const bucketBits = 5

func bucketOf(d time.Duration) int {
	v := uint64(max(0, d)/time.Microsecond) + 1<<bucketBits
	shift := bits.Len64(v) - 1 - bucketBits
	return shift<<bucketBits + int(v>>shift) - 1<<bucketBits
}

// middleOf returns the duration in the middle of a bucket.
func middleOf(bucket int) time.Duration {
	shift := bucket >> bucketBits
	low := uint64(bucket&(1<<bucketBits-1)+1<<bucketBits) << shift
	return time.Duration(low+(uint64(1)<<shift-1)/2-1<<bucketBits) * time.Microsecond
}

func (h *histogram) add(d time.Duration) {
	b := bucketOf(d)
	h.reach(b)
	h.counts[b]++
	h.n++
}

func (h *histogram) reach(bucket int) {
	for bucket >= len(h.counts) {
		h.counts = append(h.counts, 0)
	}
}

func (h *histogram) merge(o *histogram) {
	for b, n := range o.counts {
		h.reach(b)
		h.counts[b] += n
	}
	h.n += o.n
}

// at returns the percentile p, 0 to 1; 0 of nothing.
func (h *histogram) at(p float64) time.Duration {
	rank := uint64(p * float64(h.n))
	var below uint64
	for b, n := range h.counts {
		if below += uint64(n); below > rank || below == h.n && n > 0 {
			return middleOf(b)
		}
	}
	return 0
}
