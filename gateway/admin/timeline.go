package admin

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"parley"
)

// A Timeline is what was measured about a request that has ended; Stages derives its
// timeline from it.
type Timeline struct {
	Came    time.Time
	Elapsed time.Duration
	// Handed is when it was ready for a worker, 0 if it never was; Waited is how long it
	// was then queued; First is when its first token came.
	Handed, Waited, First time.Duration
	// Shared means that the answer was computed for another request.
	Shared bool
	// Attempts are the attempts, one per worker; More counts further attempts.
	Attempts []parley.Attempt
	More     int
	// Fallbacks are the models that did not answer, in order.
	Fallbacks []Fallback
	// With a single engine in this process there are no attempts: Usage is what it
	// measured, Reason why there was no choice.
	Usage  parley.Usage
	Reason string
}

// A Stage is one part of a request's timeline.
type Stage struct {
	// Where is gateway, queue, router, worker or engine.
	Where string `json:"where"`
	Name  string `json:"name"`
	// StartMs is counted from the request's arrival.
	StartMs float64 `json:"start_ms"`
	Ms      float64 `json:"ms"`
	Note    string  `json:"note,omitempty"`
	// Worker is the worker of the stage, Attempt the number of the attempt from 1, and
	// Fault why the attempt failed, in its last stage.
	Worker  string `json:"worker,omitempty"`
	Attempt int    `json:"attempt,omitempty"`
	Fault   string `json:"fault,omitempty"`
}

// InProcess is the worker kind of engines in this process.
const InProcess = "in-process"

// Stages returns where the time of the request went, in order. What workers measured
// by their clocks is placed where it must have been by ours.
func (c *Timeline) Stages() []Stage {
	t := &teller{came: c.Came, until: c.Elapsed, stages: []Stage{}}
	if c.Handed == 0 {
		t.rest("gateway", "read", "")
		return t.stages
	}
	for _, f := range c.Fallbacks {
		t.fallback(&f)
	}
	t.add("gateway", "read and render", "", c.Handed-t.at)
	t.add("queue", "wait for a turn", "", c.Waited)
	u := &c.Usage
	switch {
	case c.Shared:
		t.rest("gateway", "follow another's answer", "computed for an equal request")
	case len(c.Attempts) > 0:
		for i := range c.Attempts {
			t.attempt(i+1, &c.Attempts[i], c.Elapsed)
		}
		t.number, t.worker, t.until = 0, "", c.Elapsed
		t.rest("gateway", "write", moreNote(c.More))
	case u.Queued+u.Prefill+u.Decode > 0:
		t.add("router", "choose a worker", c.Reason, 0)
		t.inProcess(u, c.First)
		t.rest("gateway", "write", "")
	default:
		t.rest("worker", "until it ended", "no measures came: it did not end well")
	}
	return t.stages
}

func moreNote(more int) string {
	if more == 0 {
		return ""
	}
	return fmt.Sprintf("%d more requests of this call went to workers than are shown", more)
}

// A teller appends stages one after the other.
type teller struct {
	came time.Time
	// at is where the next stage begins, until the latest time it may end, both
	// counted from came.
	at, until time.Duration
	// number and worker are those of the attempt.
	number int
	worker string
	// written is how many tokens earlier attempts generated.
	written int
	stages  []Stage
}

// add appends a stage. Stages that took no time are kept only for the router and
// workers: that they took part is worth showing.
func (t *teller) add(where, name, note string, took time.Duration) {
	took = max(min(took, t.until-t.at), 0)
	if took == 0 && where != "router" && where != "worker" {
		return
	}
	t.stages = append(t.stages, Stage{
		Where:   where,
		Name:    name,
		StartMs: millis(t.at),
		Ms:      millis(took),
		Note:    note,
		Worker:  t.worker,
		Attempt: t.number,
	})
	t.at += took
}

// rest appends a stage that took the remaining time.
func (t *teller) rest(where, name, note string) {
	if left := t.until - t.at; left > 0 {
		t.add(where, name, note, left)
	}
}

// fallback appends the time until a model was given up.
func (t *teller) fallback(f *Fallback) {
	took := max(time.Duration(f.AtMs*float64(time.Millisecond))-t.at, 0)
	t.stages = append(t.stages, Stage{
		Where:   "router",
		Name:    "fall back from " + f.From + " to " + f.To,
		StartMs: millis(t.at),
		Ms:      millis(took),
		Note:    "on " + f.Cause,
		Fault:   f.Error,
	})
	t.at += took
}

func millis(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// attempt appends the stages of one attempt.
func (t *teller) attempt(number int, l *parley.Attempt, elapsed time.Duration) {
	t.number, t.worker = number, l.Worker
	t.at, t.until = l.Terms.Sub(t.came), elapsed
	if !l.Ended.IsZero() {
		t.until = min(l.Ended.Sub(t.came), elapsed)
	}
	t.add("router", "choose a worker", l.Reason, l.Sent.Sub(l.Terms))
	switch {
	case l.Kind == InProcess && l.Usage != nil:
		t.inProcess(l.Usage, l.First.Sub(t.came))
	case l.Kind == InProcess:
		t.silent(l, "in this process: no hop")
	case l.Timings != nil:
		t.timings(l)
	case l.Kind == "parley":
		t.silent(l, "it did not tell its own times")
	case l.Usage == nil || l.Usage.Outside:
		t.silent(l, "a "+l.Kind+" worker does not tell its own times: the hop, its wait and its prefill are one")
	default:
		t.add("worker", "hop, wait and hand over", "a "+l.Kind+" worker reports only prefill and decode",
			l.First.Sub(l.Sent)-l.Usage.Prefill)
		t.engine(l.Usage, nil, 0)
	}
	t.end(l)
	t.written += l.Tokens
}

// inProcess appends the stages of an engine in this process.
func (t *teller) inProcess(u *parley.Usage, first time.Duration) {
	t.fetch(u.Transfer)
	t.add("worker", "hand to the engine", "in this process: no hop", first-t.at-u.Queued-u.Prefill)
	t.engine(u, nil, 0)
}

// silent appends the stages of a worker that reports no timings, as the gateway saw
// them.
func (t *teller) silent(l *parley.Attempt, note string) {
	if l.First.IsZero() {
		t.add("worker", untilEnd(l), note, t.until)
		return
	}
	t.add("worker", "until its first token", note, l.First.Sub(l.Sent))
	t.add("worker", "until its last token", "", t.until)
}

// timings appends the stages that a worker measured. The hop is the time that the
// gateway measured and the worker did not: up to the first token, or to the end if
// none came.
func (t *teller) timings(l *parley.Attempt) {
	s, here, there := l.Timings, l.First.Sub(l.Sent), l.Timings.First
	if l.First.IsZero() || s.First == 0 {
		here, there = l.Ended.Sub(l.Sent), s.Whole
	}
	t.add("worker", "hop, there and back", fmt.Sprintf("%s passed here, %s there", short(here), short(there)),
		here-there)
	t.add("worker", "receive and admit", "", s.Admitted)
	fetched := t.fetch(l.Transfer)
	u := l.Usage
	switch {
	case u != nil:
		hand := there - s.Admitted - fetched - u.Queued - u.Prefill
		if s.First == 0 {
			hand -= u.Decode
		}
		if t.written == 0 {
			t.add("worker", "hand to the engine", "", hand)
			hand = 0
		}
		t.engine(u, s, hand)
		if s.First > 0 {
			t.add("worker", "send the end", "", s.Whole-s.First-u.Decode)
		}
	case s.First > 0:
		t.add("engine", "wait and prefill", "", there-s.Admitted-fetched)
		t.add("engine", "decode", pausedNote(s), t.until)
	default:
		t.add("worker", untilEnd(l), "", t.until)
	}
}

// fetch appends the time that a worker waited for blocks of another one or of a store, and
// returns it.
func (t *teller) fetch(m *parley.Transfer) time.Duration {
	if m == nil {
		return 0
	}
	note := fmt.Sprintf("%d of %d tokens came, %.1f MB", m.CameTokens, m.AskedTokens, float64(m.Bytes)/1e6)
	if m.Shared {
		note += " through shared memory"
	}
	if m.Miss != "" {
		note += "; the others were computed: " + m.Miss
	}
	t.add("worker", "fetch blocks from "+m.From, note, m.Took)
	return m.Took
}

// untilEnd names the time of an attempt that had no token.
func untilEnd(l *parley.Attempt) string {
	if l.End == "withdrawn" {
		return "wait to begin"
	}
	return "until it ended"
}

// engine appends what an engine measured. An engine that resumes an answer has to
// compute its tokens, too, before its own first token.
func (t *teller) engine(u *parley.Usage, s *parley.WorkerTimings, again time.Duration) {
	t.add("engine", "wait for a seat", "as many answers ran as the worker computes at once (--seqs)", u.SeatWait)
	t.add("engine", "wait for memory", "the key/value blocks of the prompt were in use", u.MemoryWait)
	t.add("engine", "wait for compute", "", u.TurnWait())
	t.add("engine", "prefill", missNote(u), u.Prefill)
	t.add("engine", "recompute the answer so far", fmt.Sprintf("%d tokens of earlier workers", t.written), again)
	t.add("engine", "decode", joined(preemptedNote(u), pausedNote(s)), u.Decode)
}

// misses describes the reasons for cache misses.
var misses = map[string]string{
	"short": "it is shorter than a block", "new": "not seen before", "diverged": "it differs from what was sent before",
	"evicted": "it was, and had to make room", "other-salt": "only another organisation has sent it",
}

// missNote describes why a prompt missed the cache.
func missNote(u *parley.Usage) string {
	if u.Miss == "" || u.Miss == "none" {
		return ""
	}
	if why := misses[u.Miss]; why != "" {
		return "not cached (" + u.Miss + "): " + why
	}
	return "not cached: " + u.Miss
}

// preemptedNote describes how long an answer was preempted.
func preemptedNote(u *parley.Usage) string {
	switch u.Preemptions {
	case 0:
		return ""
	case 1:
		return "preempted once for " + short(u.Preempted)
	}
	return fmt.Sprintf("preempted %d times for %s", u.Preemptions, short(u.Preempted))
}

// joined joins the notes that are not empty.
func joined(notes ...string) string {
	return strings.Join(slices.DeleteFunc(notes, func(n string) bool { return n == "" }), "; ")
}

func pausedNote(s *parley.WorkerTimings) string {
	if s == nil || s.Paused == 0 {
		return ""
	}
	return "paused for " + short(s.Paused) + ": what it had written was not taken"
}

// short formats a time with three digits.
func short(d time.Duration) string {
	switch {
	case d >= 10*time.Second:
		d = d.Round(100 * time.Millisecond)
	case d >= 10*time.Millisecond:
		d = d.Round(100 * time.Microsecond)
	default:
		d = d.Round(time.Microsecond)
	}
	return d.String()
}

// ends describes how attempts fail.
var ends = map[string]string{
	"refused": "it was too busy", "failed": "it failed", "lost": "it was lost", "final": "it refused the request",
	"moved": "moved to another worker", "withdrawn": "withdrawn before it had begun",
	"outrun": "another worker was faster", "left": "cancelled",
}

// end notes in the last stage of an attempt why it failed.
func (t *teller) end(l *parley.Attempt) {
	last := &t.stages[len(t.stages)-1]
	last.Fault = ends[l.End]
	if last.Fault == "" {
		return
	}
	if l.Tokens > 0 {
		last.Fault += fmt.Sprintf(" after %d tokens", l.Tokens)
	}
	if l.Why != "" {
		last.Fault += ": " + l.Why
	}
}
