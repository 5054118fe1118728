package queue

import (
	"math"
	"time"

	"parley"
	"parley/internal/exactmath"
)

const (
	// outputUnknown is how long a continuation is taken to be before any has ended.
	outputUnknown = 256
	// learning is the weight of the latest answer in a mean, believing how many
	// of a tenant's answers it takes to count as much as all tenants'.
	learning  = 0.125
	believing = 4
	// paceWindow is how long work is counted before its pace is told from it,
	// paceMemory how long that is remembered.
	paceWindow = 250 * time.Millisecond
	paceMemory = 5 * time.Second
	// standstill is a gap between calls that only a stopped process has: queued
	// requests call every second. What workers did meanwhile is not known.
	standstill = 5 * time.Second
)

// A mean follows a number that changes slowly.
type mean struct {
	value float64
	seen  int
}

func (m *mean) learn(x float64) {
	m.seen++
	m.value += float64((x - m.value) * max(learning, 1/float64(m.seen+1)))
}

// blend returns the mean, drawn to a general one while little was seen.
func (m *mean) blend(general float64) float64 {
	n := float64(m.seen)
	return (float64(n*m.value) + float64(believing*general)) / (n + believing)
}

// A pace is how much work the workers get done in a second when they have
// enough of it. While nothing waits they may be idle, so what they do then is
// the least that they can, and only raises it.
type pace struct {
	perSecond float64 // 0 until it is known
	windows   int     // of those in which something waited
	sum       float64 // of what was measured in the first of them
	since     time.Time
	looked    time.Time // the latest observation
	done      int
	short     bool // something waited all the time since
}

// paceKnown is how many windows it takes to know a pace: the first ones, in
// which prompts are read and little is written, tell too little.
const paceKnown = 8

func (p *pace) add(work int) { p.done += work }

func (p *pace) observe(now time.Time, waiting bool) {
	window := now.Sub(p.since)
	if p.since.IsZero() || now.Sub(p.looked) > standstill {
		p.since, p.looked, p.done, p.short = now, now, 0, waiting
		return
	}
	p.looked = now
	p.short = p.short && waiting
	if window < paceWindow || !p.short && window < 4*paceWindow {
		return
	}
	p.learn(float64(p.done)/window.Seconds(), window)
	p.since, p.done, p.short = now, 0, waiting
}

func (p *pace) learn(measured float64, window time.Duration) {
	switch {
	case !p.short:
		if p.perSecond > 0 {
			p.perSecond = max(p.perSecond, measured)
		}
	case p.windows < paceKnown:
		p.windows++
		p.sum += measured
		if p.windows == paceKnown {
			p.perSecond = p.sum / paceKnown
		}
	default:
		p.perSecond += float64((measured - p.perSecond) * (1 - exactmath.Exp(-float64(window)/float64(paceMemory))))
	}
}

// longest bounds predictions, which else could be any.
const longest = 24 * time.Hour

// time returns how long work takes; 0 while that is not known.
func (p *pace) time(work float64) time.Duration {
	if p.perSecond <= 0 {
		return 0
	}
	return time.Duration(min(work/p.perSecond*float64(time.Second), float64(longest)))
}

// An intake bounds what workers hold that they have not begun. An entry counts
// there by its prompt, but for no more than a share of a pass: a long prompt is
// computed piece by piece, and those behind it are not to wait for its end. Nor
// does it count for much less: a worker whose places are all taken begins
// nothing, however short. Where places are free, what is begun in a pass raises
// the bound, pass by pass, up to what is begun in the time allowed. A pass that
// began little raises it little, however fast it was: a worker that began three
// short prompts in a millisecond has not shown that it begins three hundred in a
// tenth of a second.
type intake struct {
	most    time.Duration // that work may be held
	workers int           // that hold it
	held    int
	peak    int // the most that was held since the count began
	// entries is how many are held, by how many of each tier, and what they count.
	entries int
	by      [parley.Classes]struct{ held, entries int }
	limit   float64
	since   time.Time // of the count of what was begun
	begun   int
	rate    float64 // begun in a second while something was held
}

const (
	countMin  = 128
	countMax  = 256
	limitMin  = 512     // about what a pass of any worker begins
	limitMost = 1 << 20 // what no worker holds
)

func newIntake(hold time.Duration) intake {
	return intake{most: hold, limit: 2 * limitMin, workers: 1}
}

// count is what an entry counts for. One that writes nothing takes no place.
func (e *Entry) count() int {
	if e.MaxOutput == 1 {
		return min(e.prompt, countMax)
	}
	return min(max(e.prompt, countMin), countMax)
}

// takes reports whether one more may be held: by a worker that holds nothing, or
// beside others. What is held of lower tiers does not count: workers begin higher
// tiers first, so it is behind e wherever it lies.
func (i *intake) takes(e *Entry) bool {
	held, entries := i.above(e.Class)
	return entries < i.workers || i.workers > 0 && float64(held+e.count()) <= i.limit
}

// above returns what is held of a tier and those above it.
func (i *intake) above(class parley.Class) (held, entries int) {
	for _, of := range i.by[class:] {
		held, entries = held+of.held, entries+of.entries
	}
	return held, entries
}

func (i *intake) hold(e *Entry, now time.Time) {
	if i.held == 0 {
		i.since, i.begun, i.peak = now, 0, 0
	}
	i.count(e, 1)
	i.peak = max(i.peak, i.held)
}

// count takes in that an entry is held, or with -1 that it is no longer.
func (i *intake) count(e *Entry, sign int) {
	i.held, i.entries = i.held+sign*e.count(), i.entries+sign
	of := &i.by[e.Class]
	of.held, of.entries = of.held+sign*e.count(), of.entries+sign
}

// begin takes a begun entry out, and learns.
func (i *intake) begin(e *Entry, now time.Time) {
	i.begun += e.count()
	i.drop(e)
	window := now.Sub(i.since)
	if window < i.most && i.held > 0 || window <= 0 {
		return
	}
	measured := float64(i.begun) / window.Seconds()
	if i.rate == 0 {
		i.rate = measured
	}
	i.rate += float64((measured - i.rate) / 2)
	shown := max(i.limit, float64(2*i.peak))
	i.limit = min(max(min(i.rate*i.most.Seconds(), shown), float64(limitMin*max(i.workers, 1))), limitMost)
	i.since, i.begun, i.peak = now, 0, i.held
}

func (i *intake) drop(e *Entry) { i.count(e, -1) }

// A runningLimit bounds how many answers are written at once, so that the time between two tokens of one (TPOT)
// meets its target. While it does, the worker alone decides how many it takes.
type runningLimit struct {
	tpot float64 // now, in seconds
	// least is the shortest that it was, forgotten slowly.
	least float64
	// limit is how many may be written; 0 for any number. It is adjusted every
	// adjustEvery; since is when it last was.
	limit float64
	since time.Time
	// workers write side by side.
	workers int
}

const (
	// runningMin is how many a worker may write however slowly.
	runningMin = 4
	// slowest is how many times as slow as alone writing may get.
	slowest     = 2
	leastMemory = 10 * time.Minute
	adjustEvery = 250 * time.Millisecond
	// oddGap is what a single gap can tell at most, as a multiple of the others.
	oddGap = 4
	// gapsKnown is how many gaps the TPOT is known from: the weight of each is one over that, and the weight of gaps
	// that are learned together is about what they would have one by one.
	gapsKnown = 32
	// rises and falls bound how far the limit moves at a time.
	rises, falls = 1.05, 0.8
)

// learn takes in the time in which tokens of an entry came.
func (r *runningLimit) learn(took time.Duration, tokens int, now time.Time) {
	x := float64(took) / float64(time.Second)
	if tokens > 1 {
		x /= float64(tokens)
	}
	if r.tpot == 0 {
		r.tpot, r.least, r.since = x, x, now
		return
	}
	x = min(x, oddGap*r.tpot) // it may have been the reader who was slow
	r.tpot += float64((x - r.tpot) * min(float64(tokens)/gapsKnown, 0.5))
	r.least = min(r.least, r.tpot)
}

// due reports whether it is time to adjust the limit.
func (r *runningLimit) due(now time.Time) bool {
	return now.Sub(r.since) >= adjustEvery && r.tpot != 0
}

// adjust moves the limit to where the TPOT would be right, if it is proportional to the number that is
// written, as it is where that matters.
func (r *runningLimit) adjust(running, held int, most time.Duration, now time.Time) {
	r.least = min(r.least*exactmath.Exp(float64(now.Sub(r.since))/float64(leastMemory)), r.tpot)
	r.since = now
	right := float64(running) * max(most.Seconds(), slowest*r.least) / r.tpot
	switch {
	case r.limit == 0 && right < float64(running):
		r.limit = max(right, r.leastRunning())
	case r.limit == 0:
	case right < r.limit && right < float64(running):
		r.limit = max(right, falls*r.limit, r.leastRunning())
	case float64(running+held) >= math.Floor(r.limit): // it is what keeps others back
		r.limit = min(max(right, r.limit), max(rises*r.limit, r.limit+0.5))
	}
}

func (r *runningLimit) leastRunning() float64 { return float64(runningMin * max(r.workers, 1)) }

// bears reports whether another answer may run beside n.
func (r *runningLimit) bears(n int) bool { return r.limit == 0 || float64(n) < math.Floor(r.limit) }

// away is the work of those that were rejected and told when to come again.
type away struct {
	work float64
	at   time.Time
}

func (a *away) add(work int, perSecond float64, most time.Duration) {
	a.work = min(a.work+float64(work), perSecond*most.Seconds())
}

func (a *away) decay(now time.Time, perSecond float64) {
	if !a.at.IsZero() {
		a.work = max(0, a.work-float64(perSecond*now.Sub(a.at).Seconds()))
	}
	a.at = now
}

// gaps count the times between tokens that are promised to what is being written.
type gaps map[time.Duration]int

func (g *gaps) add(promised time.Duration) {
	if *g == nil {
		*g = gaps{}
	}
	(*g)[promised]++
}

func (g gaps) remove(promised time.Duration) {
	if g[promised]--; g[promised] <= 0 {
		delete(g, promised)
	}
}

// least returns the shortest of them, where nothing is promised usual.
func (g gaps) least(usual time.Duration) time.Duration {
	least := time.Duration(0)
	for promised := range g {
		if promised == 0 {
			promised = usual
		}
		if least == 0 || promised < least {
			least = promised
		}
	}
	if least == 0 {
		return usual
	}
	return least
}
