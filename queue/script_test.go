package queue

import (
	"slices"
	"testing"
	"time"

	"parley"
	"parley/internal/scripttest"
)

// TestScripts runs the scripts in testdata. A script lets entries come and go;
// the trace says what became of each. The lines are
//
//	config [depth=N] [free-depth=N] [pro-depth=N] [free-wait=MS] [start=MS] [stop=MS] [min=N]
//	pace N              the workers do so much work in a second
//	push NAME tenant=T [class=free|pro|enterprise] prompt=N [most=N] [choices=N] [deadline=MS] [person=1]
//	next                dispatch whatever may go
//	serve               the same, and the workers begin each at once
//	started NAME | cancel NAME
//	finish NAME computed=N output=N
//	served NAME N       so many tokens of it were written
//	look NAME           where it stands
//	load
//	wait MS             what expires meanwhile is told
//	trim                turn away what overload leaves no room for
//	breaker [failures=N] [trials=N]
//	ok | failed         a request ends that went through the breaker
func TestScripts(t *testing.T) {
	scripttest.Run(t, func(run *scripttest.Script) func(scripttest.Words) {
		s := &script{Script: run, now: time.Unix(1000, 0), entries: map[string]*Entry{}}
		return func(words scripttest.Words) {
			s.run(words)
			if s.q != nil {
				checkQueue(s.T, s.q)
			}
		}
	})
}

// A script is one under way.
type script struct {
	*scripttest.Script
	q       *Queue
	breaker *Breaker
	now     time.Time
	entries map[string]*Entry
}

func (s *script) run(words scripttest.Words) {
	switch words[0] {
	case "config":
		s.configure(words)
	case "pace":
		s.q.pace.perSecond, s.q.pace.windows = float64(scripttest.Number(words[1])), paceKnown
	case "push":
		s.push(words)
	case "next", "serve":
		for e := s.q.Next(s.now); e != nil; e = s.q.Next(s.now) {
			s.Say("%s goes, %d work", s.nameOf(e), e.work)
			if words[0] == "serve" {
				s.q.Started(e, s.now)
			}
		}
	case "started":
		s.q.Started(s.entries[words[1]], s.now)
	case "cancel":
		s.q.Cancel(s.entries[words[1]], s.now)
		s.Say("%s is %s", words[1], s.entries[words[1]].State())
	case "finish":
		s.q.Finish(s.entries[words[1]], words.Number("computed"), words.Number("output"), s.now)
	case "served":
		s.q.Served(s.entries[words[1]], scripttest.Number(words[2]), s.now)
	case "trim":
		for e := s.q.Trim(s.now); e != nil; e = s.q.Trim(s.now) {
			s.Say("%s is turned away", s.nameOf(e))
		}
	case "look":
		o := s.q.Outlook(s.entries[words[1]], s.now)
		s.Say("position %d, %v", o.Position, o.Wait.Round(time.Millisecond))
	case "load":
		l := s.q.Load(s.now)
		s.Say("waiting %v, work %d, held %d of %d, %.0f/s, standing %v, shedding %.2f", l.Waiting, l.Work, l.Held,
			l.Limit, l.PerSecond, l.Standing.Round(time.Millisecond), l.Shedding)
	case "wait":
		s.now = s.now.Add(time.Duration(scripttest.Number(words[1])) * time.Millisecond)
		s.expire()
	default:
		s.runBreaker(words)
	}
}

func (s *script) expire() {
	if s.q == nil {
		return
	}
	for e := s.q.Expire(s.now); e != nil; e = s.q.Expire(s.now) {
		s.Say("%s expired after %v", s.nameOf(e), e.Waited(s.now))
	}
}

func (s *script) configure(words scripttest.Words) {
	ms := func(key string) time.Duration { return time.Duration(words.Number(key)) * time.Millisecond }
	cfg := Config{DepthMax: words.Number("depth"),
		Shed: Shed{Start: ms("start"), Stop: ms("stop"), DepthMin: words.Number("min")}}
	cfg.Tiers[parley.Free] = Tier{DepthMax: words.Number("free-depth"), WaitMax: ms("free-wait")}
	cfg.Tiers[parley.Pro].DepthMax = words.Number("pro-depth")
	s.q = mustNew(s.T, cfg)
}

func (s *script) push(words scripttest.Words) {
	e := &Entry{Tenant: words.Value("tenant"), Prompt: words.Number("prompt"), MaxOutput: words.Number("most"),
		Choices: words.Number("choices"), Person: words.Number("person") == 1}
	for class := range parley.Class(parley.Classes) {
		if words.Value("class") == class.String() {
			e.Class = class
		}
	}
	if ms := words.Number("deadline"); ms > 0 {
		e.Deadline = s.now.Add(time.Duration(ms) * time.Millisecond)
	}
	s.entries[words[1]] = e
	v := s.q.Push(e, s.now)
	if v.Refused != "" {
		s.Say("refused: %s, wait %v, retry after %v", v.Refused, v.Wait.Round(time.Millisecond),
			v.Retry.Round(time.Millisecond))
	}
	if v.Displaced != nil {
		s.Say("displaced %s", s.nameOf(v.Displaced))
	}
}

func (s *script) runBreaker(words scripttest.Words) {
	switch words[0] {
	case "breaker":
		s.breaker = NewBreaker(BreakerConfig{Failures: words.Number("failures"), Trials: words.Number("trials")})
		return
	case "ok", "failed":
		if !s.breaker.Ready(s.now) {
			s.Say("may not go")
			break
		}
		s.breaker.Go(s.now)
		s.breaker.Done(words[0] == "ok", s.now)
	default:
		s.Fatalf("unknown command %q", words)
	}
	s.Say("%v, retry after %v", s.breaker.State(s.now), s.breaker.Retry(s.now))
}

func (s *script) nameOf(e *Entry) string {
	for name, x := range s.entries {
		if x == e {
			return name
		}
	}
	return "?"
}

func mustNew(t testing.TB, cfg Config) *Queue {
	t.Helper()
	q, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return q
}

// checkQueue counts everything anew and compares.
func checkQueue(t testing.TB, q *Queue) {
	t.Helper()
	waiting, work := 0, 0
	for class := range q.tiers {
		x := &q.tiers[class]
		inTier, tierWork, resting, present := 0, 0, 0, 0
		for name, tenant := range x.tenants.All() {
			n, w, ahead := 0, 0, tenant.left
			for e := tenant.head; e != nil; e = e.link.next {
				if e.state != Waiting || e.tenant != tenant || e.link.ahead != ahead ||
					q.deadlines.items[e.expires] != e {
					t.Fatalf("an entry of %s is out of order: %+v, wanted %d ahead", name, e, ahead)
				}
				n, w, ahead = n+1, w+e.work, ahead+e.work
			}
			if n != tenant.waiting || w != tenant.work || tenant.Present() < n ||
				(n > 0) != slices.Contains(x.present.items, tenant) {
				t.Fatalf("tenant %s has %d entries of %d work: %+v", name, n, w, tenant)
			}
			if tenant.Present() == 0 {
				resting++
			}
			inTier, tierWork, present = inTier+n, tierWork+w, present+tenant.Present()
		}
		if inTier != x.waiting || tierWork != x.work || resting != x.tenants.Absent() ||
			x.present.len() != x.longest.len() {
			t.Fatalf("tier %d has %d entries of %d work, says %d of %d", class, inTier, tierWork, x.waiting, x.work)
		}
		c := q.totals[class]
		live := c.Pushed - c.Refused - c.Displaced - c.Expired - c.Cancelled - c.Finished
		if live != uint64(present) || live < uint64(inTier) {
			t.Fatalf("tier %d lost entries: %+v, %d wait, tenants are present %d times", class, c, inTier, present)
		}
		waiting, work = waiting+inTier, work+tierWork
	}
	if waiting != q.waiting || work != q.work || waiting != q.deadlines.len() || q.intake.held < 0 {
		t.Fatalf("%d wait with %d work, the queue says %d with %d", waiting, work, q.waiting, q.work)
	}
}
