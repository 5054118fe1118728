package queue

import (
	"time"

	"parley"
	"parley/internal/exactmath"
)

// A Shed says when a share of arrivals is rejected, so that admitted requests wait for
// seconds and not for as long as they are allowed to.
//
// Shedding starts when the wait stands at Start and more comes than is served, for
// a while, or in waves, as it does from clients that leave and come again: a crowd
// that comes once is worked off, and would rather wait. What waits already is cut
// back to Start if it stands much longer. Shedding stops when the wait has fallen
// to Stop. In between the share follows the wait: it grows above the middle of the
// two and shrinks below. So it settles where as much is admitted as is served, and
// the workers never run dry.
//
// Free requests are shed before pro ones, those before enterprise ones; in a
// tier, requests of tenants that already wait before those of tenants that do
// not, so that a flood is paid for by who sends it.
type Shed struct {
	// Start and Stop are in time that the waiting work takes; default 3 s and
	// 1 s, as people leave when nothing comes for ten.
	Start, Stop time.Duration
	// DepthMin is how many entries must wait before any is shed; default 8. A
	// few long answers are not an overload.
	DepthMin int
	// Off sheds nothing.
	Off bool
}

const (
	shedStart    = 3 * time.Second
	shedStop     = time.Second
	shedDepthMin = 8
	// shedSlope is how fast the share grows, in steps of the ladder per second,
	// while the wait is at Start or beyond; shedMemory how fast the last share is
	// forgotten when the overload is over.
	shedSlope  = 0.5
	shedMemory = 2 * time.Second
	// shedAfter is how long more must come than is served. It is longer than what
	// came at once is remembered.
	shedAfter = 2 * time.Second
	// relapse is how long after an overload the next is believed at once: rejected
	// clients retry.
	relapse = 10 * time.Second
	// leaveTime is for how long it is remembered who left, and leaveShare which
	// part of what waits is more than few who changed their minds.
	leaveTime  = 8 * time.Second
	leaveShare = 0.25
	// Each tier has two rungs: tenants that wait, and others.
	rungs = 2 * parley.Classes
)

func (s Shed) withDefaults() Shed {
	setDefault(&s.Start, shedStart)
	setDefault(&s.Stop, min(shedStop, s.Start/3))
	setDefault(&s.DepthMin, shedDepthMin)
	return s
}

// promisedFor is for how long after its arrival the objective of an entry counts.
const promisedFor = 10 * time.Second

// promise notes what was promised of an entry that comes. While the shortest wait that
// was promised lately is shorter than Stop, Start is three times it and Stop as long as
// it: a queue that stands for seconds keeps no promise of 200 ms.
func (s *shedder) promise(ttft time.Duration, now time.Time) {
	if ttft <= s.shortest || now.Sub(s.promised) > promisedFor {
		s.shortest, s.promised = ttft, now
	}
	s.Start, s.Stop = s.configured.Start, s.configured.Stop
	if s.shortest < s.Stop {
		s.Start, s.Stop = min(s.Start, 3*s.shortest), s.shortest
	}
}

// A shedder is a [Shed] at work. Its level climbs a ladder: at 1.5 the first
// rung is shed whole and the second by half.
type shedder struct {
	Shed
	// configured is what Shed was at first, shortest the shortest wait for a first
	// token that was promised lately, and promised when it last was.
	configured Shed
	shortest   time.Duration
	promised   time.Time
	level      float64
	active     bool
	ended      time.Time // when it last was not active any more
	at         time.Time
	// coming is the work that comes, rejected or not, and pressed since when
	// it is too much, zero if it is not.
	coming  slidingSum
	pressed time.Time
	// left is the work of clients that hung up while queued or after too long a wait,
	// and came all work that arrived in the same time.
	left, came slidingSum
	// cutting is true while what waits is cut back.
	cutting bool
	// carry holds what is left of each rung's share after whole requests: so a
	// share of a third sheds exactly every third.
	carry [rungs]float64
	// seen is when a request of each rung came last.
	seen [rungs]time.Time
}

func newShedder(cfg Shed) shedder {
	return shedder{
		Shed:       cfg,
		configured: cfg,
		coming:     slidingSum{over: comingTime},
		left:       slidingSum{over: leaveTime},
		came:       slidingSum{over: leaveTime},
	}
}

// A slidingSum is the work of a window of time that ends now. It is counted in slots of time and forgotten slot by
// slot: nothing is left of a burst after that, however large it was.
type slidingSum struct {
	over  time.Duration
	slots [sumSlots]float64
	last  int64 // the slot of the last look, since any one moment
}

const (
	comingTime = 1500 * time.Millisecond
	sumSlots   = 12
)

// pass forgets what came longer ago.
func (r *slidingSum) pass(now time.Time) {
	slot := now.UnixNano() / int64(r.over/sumSlots)
	for passed := min(slot-r.last, sumSlots); passed > 0; passed-- {
		r.slots[(slot-passed+1)%sumSlots] = 0
	}
	r.last = max(r.last, slot)
}

func (r *slidingSum) add(work int) { r.slots[r.last%sumSlots] += float64(work) }

func (r *slidingSum) sum() (sum float64) {
	for _, work := range r.slots {
		sum += work
	}
	return sum
}

// beyond reports whether the rate exceeded perSecond.
func (r *slidingSum) beyond(perSecond float64) bool { return r.sum() > perSecond*r.over.Seconds() }

// comes counts work that arrives.
func (s *shedder) comes(work int) {
	s.coming.add(work)
	s.came.add(work)
}

// leaves counts queued work that was abandoned.
func (s *shedder) leaves(work int) { s.left.add(work) }

// presses reports whether there is too much queued work, which takes standing, and too
// much arriving.
func (s *shedder) presses(now time.Time, standing time.Duration, waiting int, perSecond float64) bool {
	if standing < s.Start || waiting < s.DepthMin {
		s.pressed = time.Time{}
		return false
	}
	return s.lasts(now, perSecond) || s.deserted(standing.Seconds()*perSecond, perSecond)
}

// lasts notes whether more comes than is served, and reports whether that has lasted.
func (s *shedder) lasts(now time.Time, perSecond float64) bool {
	switch {
	case !s.coming.beyond(perSecond):
		s.pressed = time.Time{}
		return false
	case s.pressed.IsZero():
		s.pressed = now
	}
	return now.Sub(s.pressed) >= shedAfter || now.Sub(s.ended) < relapse
}

// deserted reports whether many leave, compared with the work that waits, and more
// come than are served: such clients come in waves, as long apart as they are
// patient, and are answered for nothing when they leave soon after they are dispatched.
func (s *shedder) deserted(work, perSecond float64) bool {
	return s.left.sum() > leaveShare*work && s.came.beyond(perSecond)
}

func (s *shedder) observe(now time.Time, standing time.Duration, waiting int, perSecond float64) {
	passed := now.Sub(s.at)
	if s.at.IsZero() {
		passed = 0
	}
	s.at = now
	s.coming.pass(now)
	s.left.pass(now)
	s.came.pass(now)
	if s.Off {
		return
	}
	switch {
	case s.active && standing <= s.Stop:
		s.active, s.ended = false, now
	case !s.active && s.presses(now, standing, waiting, perSecond):
		s.active = true
	}
	if !s.active {
		if s.level == 0 {
			return
		}
		s.level *= exactmath.Exp(-float64(passed) / float64(shedMemory))
		return
	}
	middle := (s.Start + s.Stop) / 2
	deviation := float64(standing-middle) / float64(s.Start-middle)
	s.level += float64(min(max(deviation, -1), 1) * shedSlope * min(passed.Seconds(), 1))
	s.level = min(max(s.level, 0), s.highest(now))
}

// highest is the level at which all that comes lately is shed: to climb beyond
// it would only mean to come down later.
func (s *shedder) highest(now time.Time) float64 {
	for rung := rungs - 1; rung >= 0; rung-- {
		if seen := s.seen[rung]; !seen.IsZero() && now.Sub(seen) < shedMemory {
			return float64(rung + 1)
		}
	}
	return 0
}

// trimAt is how far beyond Start the wait may stand before what waits is cut
// back: shedding what comes holds it below.
// It is in halves.
const trimAt = 3

// trims reports whether one more entry must go.
func (s *shedder) trims(standing time.Duration, waiting int) bool {
	from := s.Start
	if !s.cutting {
		from = from * trimAt / 2
	}
	s.cutting = s.active && waiting > s.DepthMin && standing > from
	return s.cutting
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
	s.seen[rung] = s.at
	s.carry[rung] += s.part(rung)
	if s.carry[rung] < 1 {
		return false
	}
	s.carry[rung]--
	return true
}
