package queue

import (
	"testing"
	"time"

	"parley"
)

// TestTheEntryThatIsDueFirstGoesFirst has a tenant that waits for answers to a
// conversation and types meanwhile.
func TestTheEntryThatIsDueFirstGoesFirst(t *testing.T) {
	q, err := New(Config{})
	if err != nil {
		t.Fatal(err)
	}
	now := time.Unix(1000, 0)
	push := func(name string, ttft time.Duration) *Entry {
		e := &Entry{Tenant: "a", Prompt: 100, MaxOutput: 10, Owner: name, Objective: parley.SLO{TTFT: ttft}}
		if v := q.Push(e, now); v.Refused != "" {
			t.Fatal(v)
		}
		now = now.Add(10 * time.Millisecond)
		return e
	}
	first := push("chat 1", time.Second)
	push("chat 2", time.Second)
	push("typing 1", 200*time.Millisecond)
	push("typing 2", 200*time.Millisecond)
	last := push("unpromised", 0)
	for _, want := range []struct {
		e        *Entry
		position int
	}{{first, 3}, {last, 5}} {
		if o := q.Outlook(want.e, now); o.Position != want.position {
			t.Errorf("%v stands at %d, want %d", want.e.Owner, o.Position, want.position)
		}
	}
	for _, want := range []string{"typing 1", "typing 2", "chat 1", "chat 2", "unpromised"} {
		q.Workers(8)
		if e := q.Next(now); e == nil || e.Owner != want {
			t.Errorf("%v goes, want %s", e, want)
		}
	}
}

// TestAShortPromiseShedsEarly overloads two queues alike: what is promised within 200 ms
// never waits for as long as what is promised within a second.
func TestAShortPromiseShedsEarly(t *testing.T) {
	stands := func(ttft time.Duration) (longest time.Duration) {
		q, err := New(Config{})
		if err != nil {
			t.Fatal(err)
		}
		now := time.Unix(1000, 0)
		for i := range 6000 { // a minute, twice as much as is served
			now = now.Add(10 * time.Millisecond)
			e := &Entry{Tenant: string(rune('a' + i%20)), Prompt: 100, MaxOutput: 100,
				Objective: parley.SLO{TTFT: ttft}}
			q.Push(e, now)
			for q.Expire(now) != nil || q.Trim(now) != nil {
			}
			if i%2 == 0 {
				if e := q.Next(now); e != nil {
					q.Started(e, now)
					q.Served(e, 100, now)
					q.Finish(e, 100, 100, now)
				}
			}
			if i > 3000 {
				longest = max(longest, q.standing())
			}
		}
		return longest
	}
	long, short := stands(time.Second), stands(200*time.Millisecond)
	t.Logf("the queue stands at %v and %v", long, short)
	if short < 100*time.Millisecond || short > 900*time.Millisecond || long < 2*short {
		t.Errorf("with a second promised the queue stands at %v, with 200 ms at %v", long, short)
	}
}

// TestTheShortestGapBinds writes answers that were promised different times.
func TestTheShortestGapBinds(t *testing.T) {
	var g gaps
	const ms = time.Millisecond
	for _, step := range []struct {
		add, remove, want time.Duration
	}{{0, 0, 50 * ms}, {100 * ms, 0, 50 * ms}, {20 * ms, 0, 20 * ms}, {0, 20 * ms, 50 * ms}} {
		if step.remove > 0 {
			g.remove(step.remove)
		} else {
			g.add(step.add)
		}
		if got := g.least(50 * ms); got != step.want {
			t.Errorf("%+v: %v", step, got)
		}
	}
	if got := (gaps)(nil).least(7); got != 7 {
		t.Errorf("with nothing running %v", got)
	}
}
