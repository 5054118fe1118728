package queue

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"parley"
	"parley/internal/fairshare"
)

// TestRandomLife lets random entries come, go and leave, and checks after every
// step that nothing is lost, that entries of a tenant go in the order they came,
// and that no request is rejected in favour of one of a lower tier. In the end every
// entry has ended exactly once.
func TestRandomLife(t *testing.T) {
	ends := map[State]int{}
	for seed := range uint64(300) {
		life := newLife(t, seed)
		for range 400 {
			life.step()
			checkQueue(t, life.q)
		}
		life.drain()
		for _, e := range life.all {
			if e.state != Refused && e.state != Displaced && e.state != Expired && e.state != Cancelled &&
				e.state != Finished {
				t.Fatalf("seed %d: an entry ended as %v", seed, e.state)
			}
			if life.ends[e] != 1 {
				t.Fatalf("seed %d: an entry that is %v ended %d times", seed, e.state, life.ends[e])
			}
			ends[e.state]++
		}
	}
	for _, s := range []State{Refused, Displaced, Expired, Cancelled, Finished} {
		if ends[s] == 0 {
			t.Errorf("no entry was %v: the test shows too little", s)
		}
	}
}

// A life is a queue with random entries.
type life struct {
	t    *testing.T
	rng  *rand.Rand
	q    *Queue
	now  time.Time
	all  []*Entry
	gone []*Entry // dispatched, not ended
	ends map[*Entry]int
	// last is the order of the last entry that each tenant had dispatched.
	last map[string]uint64
}

func newLife(t *testing.T, seed uint64) *life {
	rng := rand.New(rand.NewPCG(seed, 1))
	cfg := Config{DepthMax: 1 + rng.IntN(30), Shed: Shed{Start: time.Second, DepthMin: 4, Off: rng.IntN(3) == 0}}
	for class := range cfg.Tiers {
		cfg.Tiers[class] = Tier{Weight: 1 + float64(rng.IntN(20)), DepthMax: 1 + rng.IntN(cfg.DepthMax),
			WaitMax: time.Duration(1+rng.IntN(20)) * time.Second}
	}
	return &life{t: t, rng: rng, q: mustNew(t, cfg), now: time.Unix(1000, 0), ends: map[*Entry]int{},
		last: map[string]uint64{}}
}

func (l *life) step() {
	l.now = l.now.Add(time.Duration(l.rng.IntN(300)) * time.Millisecond)
	for e := l.q.Expire(l.now); e != nil; e = l.q.Expire(l.now) {
		if l.now.Before(e.deadline) {
			l.t.Fatal("an entry expired before its deadline")
		}
		l.ends[e]++
	}
	for e := l.q.Trim(l.now); e != nil; e = l.q.Trim(l.now) {
		for class := range e.Class {
			if l.q.tiers[class].waiting > 0 {
				l.t.Fatalf("%v was cut back while %v waits", e.Class, class)
			}
		}
		l.ends[e]++
	}
	switch l.rng.IntN(6) {
	case 0, 1, 2:
		l.push()
	case 3:
		l.dispatch()
	case 4:
		l.finish()
	case 5:
		if e := l.all; len(e) > 0 {
			l.cancel(e[l.rng.IntN(len(e))])
		}
	}
}

func (l *life) push() {
	e := &Entry{Tenant: string(rune('a' + l.rng.IntN(5))), Class: parley.Class(l.rng.IntN(parley.Classes)),
		Prompt: 1 + l.rng.IntN(3000), MaxOutput: l.rng.IntN(500), Choices: l.rng.IntN(3)}
	if l.rng.IntN(5) == 0 {
		e.Deadline = l.now.Add(time.Duration(l.rng.IntN(5000)) * time.Millisecond)
	}
	l.all = append(l.all, e)
	lower := 0
	for class := range e.Class {
		lower += l.q.tiers[class].waiting
	}
	v := l.q.Push(e, l.now)
	if v.Refused != "" {
		l.ends[e]++
		if v.Retry < retryMin || v.Retry > l.q.cfg.RetryMax {
			l.t.Fatalf("told to come again after %v", v.Retry)
		}
	}
	own := &l.q.tiers[e.Class]
	if v.Refused == Full && lower > 0 && own.waiting < own.DepthMax {
		l.t.Fatalf("%v is refused while %d of lower tiers wait", e.Class, lower)
	}
	if d := v.Displaced; d != nil {
		l.ends[d]++
		if d.Class > e.Class {
			l.t.Fatalf("%v displaced %v", e.Class, d.Class)
		}
		if d.Class == e.Class && d.tenant.waiting < e.tenant.waiting {
			l.t.Fatalf("a tenant with %d waiting made room for one with %d", d.tenant.waiting, e.tenant.waiting)
		}
	}
}

func (l *life) dispatch() {
	for e := l.q.Next(l.now); e != nil; e = l.q.Next(l.now) {
		key := fmt.Sprint(e.Class, e.Tenant)
		if e.order <= l.last[key] {
			l.t.Fatal("a tenant's entries went out of order")
		}
		l.last[key] = e.order
		l.gone = append(l.gone, e)
	}
}

func (l *life) finish() {
	if len(l.gone) == 0 {
		return
	}
	e := l.gone[l.rng.IntN(len(l.gone))]
	l.q.Started(e, l.now)
	l.q.Served(e, l.rng.IntN(100), l.now)
	if l.rng.IntN(4) == 0 {
		return
	}
	l.q.Finish(e, l.rng.IntN(e.Prompt+1), l.rng.IntN(400), l.now)
	l.end(e)
}

// end notes that a dispatched entry has ended.
func (l *life) end(e *Entry) {
	l.ends[e]++
	l.gone = slices.DeleteFunc(l.gone, func(x *Entry) bool { return x == e })
}

func (l *life) cancel(e *Entry) {
	was := e.state
	l.q.Cancel(e, l.now)
	if was == Waiting || was == Held || was == Running {
		l.end(e)
	}
}

// drain lets everything end.
func (l *life) drain() {
	for range 100000 {
		l.dispatch()
		if len(l.gone) == 0 {
			break
		}
		e := l.gone[0]
		l.q.Started(e, l.now)
		l.q.Finish(e, 1, 1, l.now)
		l.end(e)
	}
	checkQueue(l.t, l.q)
	if load := l.q.Load(l.now); load.Work != 0 || load.Held != 0 {
		l.t.Fatalf("left behind %+v", load)
	}
}

// TestFairnessBound keeps several tenants of each tier waiting all the time and
// checks the bound that [Queue.Next] states, for every pair at every dispatch.
func TestFairnessBound(t *testing.T) {
	for seed := range uint64(40) {
		rng := rand.New(rand.NewPCG(seed, 2))
		q := mustNew(t, Config{DepthMax: 1000, Shed: Shed{Off: true}})
		now := time.Unix(1000, 0)
		var served [parley.Classes][4]float64
		var largest [parley.Classes][4]float64
		push := func(class, tenant int) {
			// Tenant 0 asks for much at once, tenant 3 for little.
			e := &Entry{Class: parley.Class(class), Tenant: string(rune('a' + tenant)),
				Prompt: 1 + rng.IntN(2000>>tenant), MaxOutput: 1 + rng.IntN(1000>>tenant)}
			if v := q.Push(e, now); v.Refused != "" {
				t.Fatalf("refused: %v", v)
			}
			largest[class][tenant] = max(largest[class][tenant], float64(e.work))
		}
		for class := range parley.Classes {
			for tenant := range 4 {
				push(class, tenant)
				push(class, tenant)
			}
		}
		for range 3000 {
			now = now.Add(time.Millisecond)
			e := q.Next(now)
			if e == nil {
				t.Fatal("nothing goes although all wait")
			}
			class, tenant := int(e.Class), int(e.Tenant[0]-'a')
			served[class][tenant] += float64(e.work)
			push(class, tenant)
			q.Started(e, now)
			q.Finish(e, e.prompt, e.work-e.prompt, now)
			checkBound(t, q, &served, &largest)
		}
		checkShares(t, q, &served)
	}
}

func checkBound(t *testing.T, q *Queue, served, largest *[parley.Classes][4]float64) {
	t.Helper()
	var tiers, most [parley.Classes]float64
	for class := range served {
		for i := range served[class] {
			tiers[class] += served[class][i] / q.tiers[class].Weight
			most[class] = max(most[class], largest[class][i]/q.tiers[class].Weight)
			for j := range served[class] {
				if ahead := served[class][i] - served[class][j]; ahead > largest[class][i]+largest[class][j] {
					t.Fatalf("tenant %d of tier %d is %.0f ahead of %d, with entries of up to %.0f and %.0f", i, class,
						ahead, j, largest[class][i], largest[class][j])
				}
			}
		}
	}
	for i := range tiers {
		for j := range tiers {
			if ahead := tiers[i] - tiers[j]; ahead > most[i]+most[j]+1e-6 {
				t.Fatalf("tier %d is %.1f ahead of %d, with entries of up to %.1f and %.1f", i, ahead, j, most[i],
					most[j])
			}
		}
	}
}

// checkShares wants Jain's index of fairness close to 1: over the tenants of a
// tier by their work, and over tiers by their work and weight.
func checkShares(t *testing.T, q *Queue, served *[parley.Classes][4]float64) {
	t.Helper()
	var tiers []float64
	for class := range served {
		sum := 0.0
		for _, s := range served[class] {
			sum += s
		}
		tiers = append(tiers, sum/q.tiers[class].Weight)
		if class == int(parley.Free) {
			continue // of its twentieth part too little was dispatched to tell
		}
		if j := fairshare.Jain(served[class][:]...); j < 0.99 {
			t.Errorf("tier %d: Jain's index is %.4f over %.0f", class, j, served[class])
		}
	}
	if j := fairshare.Jain(tiers...); j < 0.99 {
		t.Errorf("between tiers: Jain's index is %.4f over %.0f", j, tiers)
	}
}

// TestEstimatesEvenOut: a tenant whose answers are ten times as long as expected
// gets no more than its share in the long run.
func TestEstimatesEvenOut(t *testing.T) {
	q := mustNew(t, Config{Shed: Shed{Off: true}})
	now := time.Unix(1000, 0)
	actual := map[string]int{"short": 50, "long": 2000}
	var done [2]float64
	for _, name := range []string{"short", "long"} {
		for range 3 {
			q.Push(&Entry{Tenant: name, Prompt: 10}, now)
		}
	}
	for range 2000 {
		now = now.Add(time.Millisecond)
		e := q.Next(now)
		q.Started(e, now)
		q.Finish(e, 10, actual[e.Tenant], now)
		if e.Tenant == "short" {
			done[0] += 10 + float64(actual[e.Tenant])
		} else {
			done[1] += 10 + float64(actual[e.Tenant])
		}
		q.Push(&Entry{Tenant: e.Tenant, Prompt: 10}, now)
	}
	if j := fairshare.Jain(done[:]...); j < 0.99 {
		t.Errorf("Jain's index is %.4f over %.0f", j, done)
	}
}

// TestAStandstillTellsNothingOfThePace: after a minute in which the whole process was
// stopped, waits are predicted as before. Workers that do nothing while others wait and
// look are another matter.
func TestAStandstillTellsNothingOfThePace(t *testing.T) {
	var p pace
	now := time.Unix(1000, 0)
	pass := func(by time.Duration, work int) {
		now = now.Add(by)
		p.add(work)
		p.observe(now, true)
	}
	for range 40 {
		pass(paceWindow, 250)
	}
	pass(time.Minute, 3)
	pass(paceWindow, 250)
	if p.perSecond < 990 || p.perSecond > 1010 {
		t.Errorf("%.1f tokens a second after a standstill, want 1000", p.perSecond)
	}
	for range 10 {
		pass(time.Second, 0)
	}
	if p.perSecond > 200 {
		t.Errorf("%.1f tokens a second of workers that have done nothing for ten", p.perSecond)
	}
}

// TestNobodyStarves floods every tier above and every other tenant, and wants a
// free entry to go after a bounded amount of work.
func TestNobodyStarves(t *testing.T) {
	for seed := range uint64(50) {
		rng := rand.New(rand.NewPCG(seed, 3))
		q := mustNew(t, Config{DepthMax: 500, Shed: Shed{Off: true}})
		now := time.Unix(1000, 0)
		const most = 400
		flood := func() {
			for class := range parley.Class(parley.Classes) {
				for tenant := range 3 {
					q.Push(&Entry{Class: class, Tenant: string(rune('a' + tenant)), Prompt: 1 + rng.IntN(most/2),
						MaxOutput: 1 + rng.IntN(most/2)}, now)
				}
			}
		}
		for range 20 {
			flood()
		}
		quiet := &Entry{Tenant: "quiet", Prompt: most / 2, MaxOutput: most / 2}
		if v := q.Push(quiet, now); v.Refused != "" {
			t.Fatalf("refused: %v", v)
		}
		// Three other tenants may go before it, with an entry each and one of lead;
		// each unit of free work comes with 20 of the others.
		before := 0
		for quiet.state == Waiting {
			now = now.Add(time.Millisecond)
			if rng.IntN(12) == 0 {
				flood()
			}
			e := q.Next(now)
			before += e.work
			q.Started(e, now)
			q.Finish(e, e.prompt, e.work-e.prompt, now)
		}
		if bound := (3*2*most + most) * 21; before > bound {
			t.Errorf("seed %d: %d work went before it, more than %d", seed, before, bound)
		}
	}
}

// TestOutlookComesTrue compares what waiting entries are told with what happens
// if nobody else comes: positions by the order in which they go, times at a
// constant pace. Between tenants that are level it may be wrong by one entry of
// each, as it does not look which of theirs came first.
func TestOutlookComesTrue(t *testing.T) {
	const tenants = 6
	asked, exact := 0, 0
	for seed := range uint64(100) {
		rng := rand.New(rand.NewPCG(seed, 4))
		q := mustNew(t, Config{DepthMax: 1000, Shed: Shed{Off: true}})
		now := time.Unix(1000, 0)
		var entries []*Entry
		for range 5 + rng.IntN(60) {
			e := &Entry{Class: parley.Class(rng.IntN(parley.Classes)), Tenant: string(rune('a' + rng.IntN(tenants))),
				Prompt: 100, MaxOutput: 100}
			q.Push(e, now)
			entries = append(entries, e)
			if rng.IntN(3) == 0 {
				if e := q.Next(now); e != nil {
					q.Started(e, now)
				}
			}
		}
		for _, e := range entries[:len(entries)/4] {
			q.Cancel(e, now)
		}
		q.pace.perSecond, q.pace.windows = 1000, paceKnown
		told := map[*Entry]Outlook{}
		for _, e := range entries {
			told[e] = q.Outlook(e, now)
		}
		position := 0
		for q.waiting > 0 {
			e := q.Next(now)
			if e == nil {
				t.Fatal("nothing goes")
			}
			q.Started(e, now)
			position++
			got := told[e]
			off := max(got.Position-position, position-got.Position)
			if off > tenants-1 || (got.Wait-time.Duration(got.Position)*200*time.Millisecond).Abs() > time.Microsecond {
				t.Fatalf("seed %d: entry %d was told position %d and %v", seed, position, got.Position, got.Wait)
			}
			if asked++; off == 0 {
				exact++
			}
		}
		if o := q.Outlook(entries[0], now); o != (Outlook{}) {
			t.Errorf("an entry that does not wait is told %+v", o)
		}
	}
	if 4*exact < 3*asked {
		t.Errorf("%d of %d positions came true exactly", exact, asked)
	}
}

// TestPaceIsLearned serves at a known rate, first with idle time, and wants the
// pace of busy times.
func TestPaceIsLearned(t *testing.T) {
	q := mustNew(t, Config{})
	now := time.Unix(1000, 0)
	writer := new(Entry)
	pass := func(seconds, perSecond int) {
		for range seconds * 100 {
			now = now.Add(10 * time.Millisecond)
			q.Served(writer, perSecond/100, now)
		}
	}
	pass(10, 500)
	if got := q.Load(now).PerSecond; got != 0 {
		t.Errorf("a pace of %.0f is known from idle times", got)
	}
	q.Push(&Entry{Prompt: 100, MaxOutput: 100}, now)
	for _, rate := range []int{2000, 8000, 1000} {
		pass(30, rate)
		if got := q.Load(now).PerSecond; math.Abs(got-float64(rate)) > 0.05*float64(rate) {
			t.Errorf("the pace is %.0f, want %d", got, rate)
		}
	}
	pass(60, 0)
	if wait := q.Load(now).Standing; wait < time.Minute {
		t.Errorf("the workers stand still, but the wait is %v", wait)
	}
}

func TestConfigSaysAllThatIsWrong(t *testing.T) {
	cfg := Config{DepthMax: -1, Shed: Shed{Start: time.Second, Stop: 2 * time.Second}}
	cfg.Tiers[1].Weight = math.NaN()
	cfg.Tiers[2].WaitMax = -1
	if _, err := New(cfg); err == nil || len(fmt.Sprint(err)) < 200 {
		t.Errorf("got %v", err)
	}
	if err := (&BreakerConfig{Trials: -1}).Validate(); err == nil {
		t.Error("a negative number of trials is fine")
	}
}

// TestTenantsAreForgotten lets more tenants come than are remembered.
func TestTenantsAreForgotten(t *testing.T) {
	q := mustNew(t, Config{})
	now := time.Unix(1000, 0)
	for i := range 3 * tenantsKept {
		e := &Entry{Tenant: fmt.Sprint(i), Prompt: 10, MaxOutput: 10}
		q.Push(e, now)
		q.Next(now)
		q.Started(e, now)
		q.Finish(e, 10, 10, now)
	}
	if n := q.tiers[0].tenants.Len(); n > tenantsKept+1 {
		t.Errorf("%d tenants are remembered", n)
	}
	checkQueue(t, q)
}

// TestSteadyStateTakesNoMemory lets entries come and go with 10,000 waiting.
func TestSteadyStateTakesNoMemory(t *testing.T) {
	cycle := steadyState(t, 10000)
	for range 20000 {
		cycle()
	}
	if n := testing.AllocsPerRun(20000, cycle); n != 0 {
		t.Errorf("%v allocations for each entry", n)
	}
}

// steadyState fills a queue and returns what pushes one entry, asks where it
// stands, and lets another go.
func steadyState(t testing.TB, waiting int) (cycle func()) {
	cfg := Config{DepthMax: 2 * waiting, Shed: Shed{Off: true}}
	for class := range cfg.Tiers {
		cfg.Tiers[class] = Tier{DepthMax: 2 * waiting, WaitMax: time.Hour}
	}
	q := mustNew(t, cfg)
	now := time.Unix(1000, 0)
	rng := rand.New(rand.NewPCG(1, 5))
	names := make([]string, 500)
	for i := range names {
		names[i] = fmt.Sprint("tenant ", i)
	}
	fill := func(e *Entry) {
		*e = Entry{Class: parley.Class(rng.IntN(parley.Classes)), Tenant: names[rng.IntN(len(names))],
			Prompt: 1 + rng.IntN(2000), MaxOutput: 1 + rng.IntN(500)}
		if v := q.Push(e, now); v.Refused != "" {
			t.Fatalf("refused: %v", v)
		}
	}
	for range waiting {
		fill(new(Entry))
	}
	q.pace.perSecond, q.pace.windows = 1e6, paceKnown
	spare := new(Entry)
	return func() {
		now = now.Add(time.Millisecond)
		fill(spare)
		q.Outlook(spare, now)
		e := q.Next(now)
		q.Started(e, now)
		q.Served(e, e.work-e.prompt, now)
		q.Finish(e, e.prompt, e.work-e.prompt, now)
		spare = e
	}
}

func BenchmarkPushPop10K(b *testing.B) {
	cycle := steadyState(b, 10000)
	b.ReportAllocs()
	for b.Loop() {
		cycle()
	}
}

// TestBegins: as many must have ended as go before one, and one more.
func TestBegins(t *testing.T) {
	q, err := New(Config{})
	if err != nil {
		t.Fatal(err)
	}
	if got := q.Begins(3); got != 0 {
		t.Errorf("nobody can tell, and it says %v", got)
	}
	q.output.value, q.runningLimit.tpot, q.running = 50, 0.02, 2
	if first, fourth := q.Begins(0), q.Begins(3); first != 500*time.Millisecond || fourth != 2*time.Second {
		t.Errorf("the first waits %v, the fourth %v", first, fourth)
	}
}

// TestGapsLearnedTogetherCountAll has the TPOT of a worker double: what is learned from ten tokens at a time is about
// as near to that after as many tokens as what is learned from each.
func TestGapsLearnedTogetherCountAll(t *testing.T) {
	after := func(together int) float64 {
		var r runningLimit
		for i := 0; i < 400; i += together {
			gap := 5 * time.Millisecond
			if i >= 360 {
				gap *= 2
			}
			r.learn(time.Duration(together)*gap, together, time.Unix(1, 0))
		}
		return r.tpot
	}
	if one, ten := after(1), after(10); one < 0.008 || math.Abs(ten/one-1) > 0.1 {
		t.Errorf("%.4f s from each token, %.4f s from ten at a time", one, ten)
	}
}
