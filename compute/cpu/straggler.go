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
// most, and by how much longer each time that it comes back to a crowd.
const (
	leastAway  = 4 * time.Millisecond
	mostAway   = 2 * time.Second
	awayGrowth = 4
)

// A worker that comes back is on trial for this long. The cores are crowded if
// the system has preempted threads this often meanwhile, for each core:
// beside another process it does that some twenty times, else two or three times.
const (
	trialTime     = 20 * time.Millisecond
	crowdSwitches = 8
)

// A straggler is how long a worker claims no items for which the caller would
// have to wait, and until when. What takes
// cores away is another process, for seconds or hours, or a moment's delay of
// the machine beneath, and only the former makes it worth to do without a core.
// So absences are short at first. If threads had to share cores when the
// worker was back, they become so long that trying costs little.
// Times are since any one moment.
type straggler struct {
	until, length time.Duration
	trial         bool  // it is back, and may have to leave again
	before        int64 // how often threads were taken off cores before the trial
}

// extend begins an absence.
func (a *straggler) extend(now time.Duration, crowded bool) {
	switch {
	case !a.trial:
		a.length = leastAway
	case crowded:
		a.length = min(awayGrowth*a.length, mostAway)
	}
	a.trial, a.until = false, now+a.length
}

// over reports whether the absence has ended.
func (a *straggler) over(now time.Duration) bool { return now >= a.until }

// tried reports whether a trial has come to its end.
func (a *straggler) tried(now time.Duration) bool { return a.trial && now >= a.until+trialTime }

// crowded reports whether threads had to share cores since the worker is back.
func (p *pool) crowded(a *straggler) bool {
	return a.trial && p.switches()-a.before >= int64(crowdSwitches*len(p.helpers))
}

// noteLate remembers who holds an item that the caller waits for.
func (p *pool) noteLate() {
	for i := 1; i < len(p.helpers); i++ {
		h := &p.helpers[i]
		h.late = h.stage.Load() != idle
	}
}

// sendLateAway lets those stay away who were late.
func (p *pool) sendLateAway(now time.Duration) {
	for i := 1; i < len(p.helpers); i++ {
		if h := &p.helpers[i]; h.late && !h.away.Load() {
			p.sendAway(h, now)
		}
	}
}

func (p *pool) sendAway(h *helper, now time.Duration) {
	if h.absence.trial {
		p.trials--
	}
	h.absence.extend(now, p.crowded(&h.absence))
	h.away.Store(true)
	p.away++
}

// review calls those back whose absence is over, and ends trials.
func (p *pool) review() {
	if p.away+p.trials == 0 {
		return
	}
	now := p.now()
	for i := 1; i < len(p.helpers); i++ {
		h := &p.helpers[i]
		a := &h.absence
		switch {
		case h.away.Load():
			if a.over(now) {
				a.trial, a.until, a.before = true, now, p.switches()
				h.away.Store(false)
				p.away--
				p.trials++
			}
		case a.tried(now) && p.crowded(a):
			p.sendAway(h, now)
		case a.tried(now):
			a.trial = false
			p.trials--
		}
	}
}
