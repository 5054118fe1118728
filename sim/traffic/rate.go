package traffic

import (
	"errors"
	"fmt"
	"math"
	"sort"
	"time"

	"parley/internal/exactmath"
)

// A RatePoint says how many events there are in a second at a time.
type RatePoint struct {
	At        time.Duration
	PerSecond float64
}

// A Rate is how many events there are in a second, over time: straight lines between
// its points, and level before the first and after the last.
type Rate []RatePoint

const rateMax = 1e9

// Validate reports everything that is wrong with the points.
func (r Rate) Validate() error {
	var problems []error
	if len(r) == 0 {
		problems = append(problems, errors.New("a rate without points: expected at least one"))
	}
	for i, p := range r {
		if !(p.PerSecond >= 0 && p.PerSecond <= rateMax) {
			problems = append(problems, fmt.Errorf("a rate of %g per second: expected 0 to %g", p.PerSecond, rateMax))
		}
		if p.At < 0 || i > 0 && p.At <= r[i-1].At {
			problems = append(problems,
				fmt.Errorf("a rate at %v: expected times from 0 on, each after the one before", p.At))
		}
	}
	return errors.Join(problems...)
}

// next returns which point is the first one after a time.
func (r Rate) next(at time.Duration) int {
	return sort.Search(len(r), func(i int) bool { return r[i].At > at })
}

// At returns the rate at a time.
func (r Rate) At(at time.Duration) float64 {
	i := r.next(at)
	switch i {
	case 0:
		return r[0].PerSecond
	case len(r):
		return r[i-1].PerSecond
	}
	a, b := r[i-1], r[i]
	part := float64(at-a.At) / float64(b.At-a.At)
	return a.PerSecond + float64(part*(b.PerSecond-a.PerSecond))
}

// After returns when events more have come after from; ok is false if that is never.
// The gaps of a steady flow, drawn with a mean of one event, become those of this one.
func (r Rate) After(from time.Duration, events float64) (at time.Duration, ok bool) {
	for _, p := range r[r.next(from):] {
		a, b := r.At(from), p.PerSecond
		span := (p.At - from).Seconds()
		if area := float64(span * (a + b) / 2); area < events {
			events -= area
			from = p.At
			continue
		}
		return from + seconds(timeOfArea(a, (b-a)/span, events)), true
	}
	last := r[len(r)-1].PerSecond
	if last == 0 {
		return 0, false
	}
	return from + seconds(events/last), true
}

// timeOfArea solves area = a*t + slope*t*t/2 for the first t, in the form that loses
// nothing where the slope is small.
func timeOfArea(a, slope, area float64) float64 {
	root := math.Sqrt(max(0, float64(a*a)+float64(2*slope*area)))
	if a+root == 0 {
		return 0
	}
	return 2 * area / (a + root)
}

func seconds(s float64) time.Duration {
	return time.Duration(min(math.Round(s*1e9), math.MaxInt64/4))
}

// dayPoints is how many points stand for the curve of a day.
const dayPoints = 48

// Days returns the rate of days that swing between a trough and a peak, which is at
// the given time of each day, as a power of a cosine does. With a power of 1 half of the
// swing is the mean; more of it makes the peak narrower.
func Days(trough, peak, power float64, peakAt time.Duration, days int) (r Rate) {
	const day = 24 * time.Hour
	for i := range days*dayPoints + 1 {
		at := day / dayPoints * time.Duration(i)
		angle := 2 * math.Pi * float64((at-peakAt)%day) / float64(day)
		wave := exactmath.Pow((1+exactmath.Cos(angle))/2, power)
		r = append(r, RatePoint{at, trough + float64((peak-trough)*wave)})
	}
	return r
}

// DayPower returns the power with which days have a mean that is this share of the swing,
// from the mean of cos²ᵖ over a turn. It is 1 for a half, and at most 1000.
func DayPower(share float64) float64 {
	low, high := 0.0, 1000.0
	for range 60 {
		p := float64((low + high) / 2)
		if dayMean(p) > share {
			low = p
		} else {
			high = p
		}
	}
	return (low + high) / 2
}

// dayMean returns the mean of cos²ᵖ over a turn, which is Γ(p+½)/(√π Γ(p+1)): that of a larger p has an expansion by
// its inverse, and that of p follows from the one of p+1.
func dayMean(p float64) float64 {
	factor := 1.0
	for ; p < 32; p++ {
		factor *= (p + 1) / (p + 0.5)
	}
	square := p + 0.25 + 1/(32*p) - 1/(128*p*p) - 5/(2048*p*p*p) + 23/(8192*p*p*p*p)
	return factor / math.Sqrt(math.Pi*square)
}
