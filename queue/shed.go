package queue

import (
	"math"
	"time"

	"parley"
)

// A Shed says when a share of what comes is turned away, so that those who are
// let in wait for seconds and not for as long as they are allowed to.
//
// Shedding starts when the wait stands at Start and stops when it has fallen to
// Stop. In between the share follows the wait: it grows above the middle of the
// two and shrinks below. So it settles where as much is let in as is served, and
// the workers never run dry.
//
// Free requests are shed before pro ones, those before enterprise ones; in a
// tier, requests of tenants that already wait before those of tenants that do
// not, so that a flood is paid for by who sends it.
type Shed struct {
	// Start and Stop are in time that the waiting work takes; default 10 s and 3 s.
	Start, Stop time.Duration
	// DepthMin is how many entries must wait before any is shed; default 16. A
	// few long answers are no overload.
	DepthMin int
	// Off sheds nothing.
	Off bool
}

const (
	shedStart    = 10 * time.Second
	shedStop     = 3 * time.Second
	shedDepthMin = 16
	// shedSlope is how fast the share grows, in steps of the ladder per second,
	// while the wait is at Start or beyond; shedMemory how fast the last share is
	// forgotten when the overload is over.
	shedSlope  = 0.5
	shedMemory = 2 * time.Second
	// Each tier has two rungs: tenants that wait, and others.
	rungs = 2 * parley.Classes
)

func (s Shed) withDefaults() Shed {
	setDefault(&s.Start, shedStart)
	setDefault(&s.Stop, min(shedStop, s.Start*3/10))
	setDefault(&s.DepthMin, shedDepthMin)
	return s
}

// A shedder is a [Shed] at work. Its level climbs a ladder: at 1.5 the first
// rung is shed whole and the second by half.
type shedder struct {
	Shed
	level  float64
	active bool
	at     time.Time
	// carry holds what is left of each rung's share after whole requests: so a
	// share of a third sheds exactly every third.
	carry [rungs]float64
}

func (s *shedder) observe(now time.Time, standing time.Duration, waiting int) {
	passed := now.Sub(s.at)
	if s.at.IsZero() {
		passed = 0
	}
	s.at = now
	if s.Off {
		return
	}
	switch {
	case s.active && standing <= s.Stop:
		s.active = false
	case !s.active && standing >= s.Start && waiting >= s.DepthMin:
		s.active = true
	}
	if !s.active {
		s.level *= math.Exp(-float64(passed) / float64(shedMemory))
		return
	}
	middle := (s.Start + s.Stop) / 2
	error := float64(standing-middle) / float64(s.Start-middle)
	s.level += min(max(error, -1), 1) * shedSlope * min(passed.Seconds(), 1)
	s.level = min(max(s.level, 0), rungs)
}

// rungOf returns the place of a request on the ladder.
func rungOf(class parley.Class, waits bool) int {
	if waits {
		return 2 * int(class)
	}
	return 2*int(class) + 1
}

// part returns how much of a rung is shed.
func (s *shedder) part(rung int) float64 {
	if !s.active {
		return 0
	}
	return min(max(s.level-float64(rung), 0), 1)
}

// share returns how much of a tier is shed, of both its rungs.
func (s *shedder) share(class parley.Class) float64 {
	return (s.part(rungOf(class, true)) + s.part(rungOf(class, false))) / 2
}

// drop reports whether a request is shed.
func (s *shedder) drop(class parley.Class, waits bool) bool {
	rung := rungOf(class, waits)
	s.carry[rung] += s.part(rung)
	if s.carry[rung] < 1 {
		return false
	}
	s.carry[rung]--
	return true
}
