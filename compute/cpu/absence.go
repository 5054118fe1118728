package cpu

import "time"

// When a worker counts as taken off its core: the caller has waited for it
// this long, and this many times as long as an item takes. It is less than the
// turn that another process gets.
const (
	stallTime  = 500 * time.Microsecond
	stallItems = 4
)

// How long a worker stays away that was taken off its core: at first, and at
// most if that happens again and again.
const (
	leastAway = 4 * time.Millisecond
	mostAway  = 128 * time.Millisecond
)

// An absence is how long a worker claims nothing, and until when. While
// another process keeps its core busy, each return costs the wait for one
// item, so absences double until they make that rare. Times are since any one
// moment.
type absence struct{ until, length time.Duration }

// extend begins an absence. It is longer than the last one if that has ended
// but a short time ago.
func (a *absence) extend(now time.Duration) {
	if a.length > 0 && now-a.until < 2*a.length {
		a.length = min(2*a.length, mostAway)
	} else {
		a.length = leastAway
	}
	a.until = now + a.length
}

// over reports whether the absence has ended.
func (a *absence) over(now time.Duration) bool { return now >= a.until }

// noteLate remembers who holds an item that the caller waits for.
func (p *pool) noteLate() {
	for i := 1; i < len(p.helpers); i++ {
		h := &p.helpers[i]
		h.late = h.holding.Load()
	}
}

// sendAway lets those stay away who were late.
func (p *pool) sendAway(now time.Duration) {
	for i := 1; i < len(p.helpers); i++ {
		if h := &p.helpers[i]; h.late && !h.away.Load() {
			h.absence.extend(now)
			h.away.Store(true)
			p.away++
		}
	}
}

// recallDue calls those back whose absence is over.
func (p *pool) recallDue() {
	if p.away == 0 {
		return
	}
	now := p.now()
	for i := 1; i < len(p.helpers); i++ {
		if h := &p.helpers[i]; h.away.Load() && h.absence.over(now) {
			p.recall(h)
			p.away--
		}
	}
}

// recall ends a worker's absence. It may not have begun to sleep yet.
func (p *pool) recall(h *helper) {
	h.away.Store(false)
	select {
	case h.back <- struct{}{}:
	default:
	}
}
