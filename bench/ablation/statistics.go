package ablation

import (
	"slices"
	"time"

	"parley/internal/stat"
)

// percentile returns the smallest of the times that at least the share p of them
// does not exceed, in milliseconds; 0 if there are none.
func percentile(times []time.Duration, p float64) float64 {
	if len(times) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(times))
	return milliseconds(sorted[stat.Rank(p, len(sorted))])
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// A spell is the time from a beginning to an end.
type spell struct{ begin, end time.Time }

// mostAtOnce returns how many of the spells had a moment in common at most.
func mostAtOnce(spells []spell) (most int) {
	for _, at := range spells {
		n := 0
		for _, s := range spells {
			if !s.begin.After(at.begin) && s.end.After(at.begin) {
				n++
			}
		}
		most = max(most, n)
	}
	return most
}
