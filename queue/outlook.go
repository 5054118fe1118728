package queue

import (
	"math"
	"time"

	"parley"
)

// An Outlook is the position and expected wait of a queued entry.
type Outlook struct {
	// Position is how many entries go before it, and it itself: 1 is next. It is
	// 0 for one that does not wait.
	Position int
	// Wait is how long it is still expected to wait, if no entry arrives that
	// goes first.
	Wait time.Duration
}

// Outlook returns the position of an entry. It costs a look at each tenant of the
// entry's tier that waits, however many entries they have.
//
// The work ahead of an entry follows from the accounts: when it is dispatched, its
// tenant will have been served what stands before it, and every other tenant
// as much as brings it level, or all that it waits for. The same holds for tiers.
func (q *Queue) Outlook(e *Entry, now time.Time) Outlook {
	if e.state != Waiting {
		return Outlook{}
	}
	q.observe(now)
	before := q.before(e, e.link.ahead-e.tenant.left)
	return Outlook{Position: 1 + int(math.Round(before.entries)), Wait: q.pace.time(before.work + q.typical())}
}

// Begins estimates how long an entry that was dispatched and not begun will wait with
// ahead others before it: until as many running answers have ended. 0 means unknown.
func (q *Queue) Begins(ahead int) time.Duration {
	each := q.output.value * q.runningLimit.tpot / float64(max(1, q.running))
	return time.Duration(min(float64(ahead+1)*each*float64(time.Second), float64(longest)))
}

// standing returns how long all that waits will take.
func (q *Queue) standing() time.Duration { return q.pace.time(float64(q.work)) }

// typical is the work after which a place is free: that of one entry like those
// that wait.
func (q *Queue) typical() float64 {
	if q.waiting == 0 {
		return 0
	}
	return float64(q.work) / float64(q.waiting)
}

// waitIfPushed returns how long e would wait if it were admitted.
func (q *Queue) waitIfPushed(e *Entry) time.Duration {
	all := q.pace.time(float64(q.work) + q.typical())
	if all <= e.deadline.Sub(e.arrived) {
		return all // it need not be known exactly
	}
	before := q.before(e, e.tenant.work)
	return q.pace.time(before.work + q.typical())
}

// An amount is work, and the entries it is for.
type amount struct{ work, entries float64 }

func (a *amount) add(work, share float64, entries int) {
	a.work += float64(work)
	a.entries += float64(share * float64(entries))
}

// before returns what will be dispatched before an entry whose tenant has own
// work to be served before it.
func (q *Queue) before(e *Entry, own int) (sum amount) {
	t := &q.tiers[e.Class]
	x := e.tenant
	level := x.Served() + float64(own)
	if x.waiting == 0 {
		level = max(x.Served(), t.floor)
	}
	for _, other := range t.present.items {
		if other == x {
			sum.add(float64(own), fraction(float64(own), x.work), x.waiting)
			continue
		}
		sum.reach(other.Served(), level, other.head.order < e.order, other.work, other.waiting)
	}
	level = t.Served() + sum.work/t.Weight
	if t.waiting == 0 {
		level = max(t.Served(), q.floor)
	}
	for class := range q.tiers {
		if other := &q.tiers[class]; parley.Class(class) != e.Class {
			sum.reach(other.Served()*other.Weight, level*other.Weight, parley.Class(class) > e.Class, other.work,
				other.waiting)
		}
	}
	return sum
}

// reach adds what it takes to bring an account from what it was served to a
// level, or all that waits for it if that is less. An entry that begins below
// the level is dispatched whole, and also one that begins at it, if the account
// goes first then.
func (a *amount) reach(served, level float64, first bool, work, waiting int) {
	if waiting == 0 || level < served {
		return
	}
	mean := float64(work) / float64(waiting)
	const hair = 1e-9 // what dividing by weights may lose
	n := math.Ceil((float64(level)-float64(served))/mean - hair)
	if first {
		n = math.Floor((float64(level)-float64(served))/mean+hair) + 1
	}
	n = min(n, float64(waiting))
	a.add(n*mean, n/float64(waiting), waiting)
}

func fraction(part float64, of int) float64 {
	if of == 0 {
		return 0
	}
	return part / float64(of)
}

// A Load is what a queue holds and has done.
type Load struct {
	// Waiting counts entries by tier, Work the tokens expected of all of them.
	Waiting [parley.Classes]int
	Work    int
	// Tenants counts those that wait, by tier.
	Tenants [parley.Classes]int
	// Held is what workers hold that they have not begun, Limit the most they
	// may, in counted prompt tokens.
	Held, Limit int
	// PerSecond is the pace of the workers in tokens, 0 as long as it is unknown,
	// Standing how long all that waits will take at that pace.
	PerSecond float64
	Standing  time.Duration
	// Shedding is the share of what comes that is rejected, by tier.
	Shedding [parley.Classes]float64
	// Totals count how entries ended.
	Totals [parley.Classes]Totals
}

// Load returns the present numbers.
func (q *Queue) Load(now time.Time) Load {
	q.observe(now)
	l := Load{
		Work:      q.work,
		Held:      q.intake.held,
		Limit:     int(q.intake.limit),
		PerSecond: q.pace.perSecond,
		Standing:  q.standing(),
		Totals:    q.totals,
	}
	for class := range q.tiers {
		l.Waiting[class] = q.tiers[class].waiting
		l.Tenants[class] = q.tiers[class].present.len()
		l.Shedding[class] = q.shed.share(parley.Class(class))
	}
	return l
}

// expect returns how many prompt tokens an entry is expected to have computed,
// and its whole work.
func (q *Queue) expect(e *Entry) (prompt, work int) {
	cached := float64(e.Cached)
	if !e.CachedKnown {
		cached = max(cached, e.tenant.cached.blend(0)*float64(e.Prompt))
	}
	prompt = max(1, e.Prompt-int(cached))
	output := e.tenant.output.blend(q.output.value)
	if e.MaxOutput > 0 {
		output = min(output, float64(e.MaxOutput))
	}
	return prompt, prompt + max(1, int(output))*max(1, e.Choices)
}
