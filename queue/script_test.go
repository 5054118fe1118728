package queue

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"parley"
)

var rewrite = flag.Bool("rewrite", false, "write the traces that the scripts give now; review the difference")

// TestScripts runs the scripts in testdata. A script lets entries come and go;
// the trace says what became of each. The lines are
//
//	config [depth=N] [free-depth=N] [pro-depth=N] [free-wait=MS] [start=MS] [stop=MS] [min=N]
//	pace N              the workers do so much work in a second
//	push NAME tenant=T [class=free|pro|enterprise] prompt=N [most=N] [choices=N] [deadline=MS]
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
	files, err := os.ReadDir("testdata")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	for _, f := range files {
		if f.IsDir() {
			continue
		}
		path := "testdata/" + f.Name()
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		got := runScript(t, string(text))
		if *rewrite {
			if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		} else if got != string(text) {
			t.Errorf("%s: the trace is now\n%s\nwant\n%s", path, got, text)
		}
	}
}

// A script is one under way.
type script struct {
	t       *testing.T
	out     strings.Builder
	q       *Queue
	breaker *Breaker
	now     time.Time
	entries map[string]*Entry
}

// runScript repeats the script's commands, each followed by its trace.
func runScript(t *testing.T, text string) string {
	s := &script{t: t, now: time.Unix(1000, 0), entries: map[string]*Entry{}}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "|") {
			continue
		}
		fmt.Fprintln(&s.out, line)
		if words := strings.Fields(line); len(words) > 0 && words[0] != "#" {
			s.run(words)
		}
		if s.q != nil {
			checkQueue(t, s.q)
		}
	}
	return s.out.String()
}

func (s *script) tell(format string, args ...any) { fmt.Fprintf(&s.out, "| "+format+"\n", args...) }

func (s *script) run(words []string) {
	switch words[0] {
	case "config":
		s.configure(words)
	case "pace":
		s.q.pace.perSecond, s.q.pace.windows = float64(atoi(words[1])), paceKnown
	case "push":
		s.push(words)
	case "next", "serve":
		for e := s.q.Next(s.now); e != nil; e = s.q.Next(s.now) {
			s.tell("%s goes, %d work", s.name(e), e.work)
			if words[0] == "serve" {
				s.q.Started(e, s.now)
			}
		}
	case "started":
		s.q.Started(s.entries[words[1]], s.now)
	case "cancel":
		s.q.Cancel(s.entries[words[1]], s.now)
		s.tell("%s is %s", words[1], s.entries[words[1]].State())
	case "finish":
		s.q.Finish(s.entries[words[1]], number(words, "computed"), number(words, "output"), s.now)
	case "served":
		s.q.Served(s.entries[words[1]], atoi(words[2]), s.now)
	case "trim":
		for e := s.q.Trim(s.now); e != nil; e = s.q.Trim(s.now) {
			s.tell("%s is turned away", s.name(e))
		}
	case "look":
		o := s.q.Outlook(s.entries[words[1]], s.now)
		s.tell("position %d, %v", o.Position, o.Wait.Round(time.Millisecond))
	case "load":
		l := s.q.Load(s.now)
		s.tell("waiting %v, work %d, held %d of %d, %.0f/s, standing %v, shedding %.2f", l.Waiting, l.Work, l.Held,
			l.Limit, l.PerSecond, l.Standing.Round(time.Millisecond), l.Shedding)
	case "wait":
		s.now = s.now.Add(time.Duration(atoi(words[1])) * time.Millisecond)
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
		s.tell("%s expired after %v", s.name(e), e.Waited(s.now))
	}
}

func (s *script) configure(words []string) {
	ms := func(key string) time.Duration { return time.Duration(number(words, key)) * time.Millisecond }
	cfg := Config{DepthMax: number(words, "depth"),
		Shed: Shed{Start: ms("start"), Stop: ms("stop"), DepthMin: number(words, "min")}}
	cfg.Tiers[parley.Free] = Tier{DepthMax: number(words, "free-depth"), WaitMax: ms("free-wait")}
	cfg.Tiers[parley.Pro].DepthMax = number(words, "pro-depth")
	s.q = mustNew(s.t, cfg)
}

func (s *script) push(words []string) {
	e := &Entry{Tenant: word(words, "tenant"), Prompt: number(words, "prompt"), MaxOutput: number(words, "most"),
		Choices: number(words, "choices")}
	for class := range parley.Class(parley.Classes) {
		if word(words, "class") == class.String() {
			e.Class = class
		}
	}
	if ms := number(words, "deadline"); ms > 0 {
		e.Deadline = s.now.Add(time.Duration(ms) * time.Millisecond)
	}
	s.entries[words[1]] = e
	v := s.q.Push(e, s.now)
	if v.Refused != "" {
		s.tell("refused: %s, wait %v, retry after %v", v.Refused, v.Wait.Round(time.Millisecond),
			v.Retry.Round(time.Millisecond))
	}
	if v.Displaced != nil {
		s.tell("displaced %s", s.name(v.Displaced))
	}
}

func (s *script) runBreaker(words []string) {
	switch words[0] {
	case "breaker":
		s.breaker = NewBreaker(BreakerConfig{Failures: number(words, "failures"), Trials: number(words, "trials")})
		return
	case "ok", "failed":
		if !s.breaker.Ready(s.now) {
			s.tell("may not go")
			break
		}
		s.breaker.Go(s.now)
		s.breaker.Done(words[0] == "ok", s.now)
	default:
		s.t.Fatalf("unknown command %q", words)
	}
	s.tell("%v, retry after %v", s.breaker.State(s.now), s.breaker.Retry(s.now))
}

func (s *script) name(e *Entry) string {
	for name, x := range s.entries {
		if x == e {
			return name
		}
	}
	return "?"
}

func word(words []string, key string) string {
	for _, w := range words {
		if v, ok := strings.CutPrefix(w, key+"="); ok {
			return v
		}
	}
	return ""
}

func number(words []string, key string) int { return atoi(word(words, key)) }

func atoi(text string) (n int) {
	fmt.Sscan(text, &n)
	return n
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
