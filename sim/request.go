package sim

import (
	"time"

	"parley"
	"parley/engine/sched"
	"parley/queue"
	"parley/route"
)

// A script is the prompt of a request and the answer that will be written, and the names of
// their blocks.
type script struct {
	tokens []parley.Token
	names  []parley.BlockHash
	// prompt is how many of them are the prompt, most how long an answer the client
	// allows.
	prompt, most int
	keys         []parley.BlockKey // of the prompt
}

// output returns how long the answer will be.
func (t *script) output() int { return len(t.tokens) - t.prompt }

// times are when things happened to a request: when its first attempt came, when this
// one did, when it was sent to a worker, its first token and its latest.
type times struct{ born, came, sent, first, last time.Duration }

// An ending is how an attempt ends for its client.
type ending uint8

const (
	rejected ending = iota
	finished
)

// A request is one attempt to have something answered. What every token needs comes
// first, so that it lies in few lines of the processor's cache.
type request struct {
	seat    seat
	times   times
	written int
	length  int // of the answer
	seq     sched.Seq
	entry   queue.Entry
	*script
	query    route.Request
	prompts  [1]route.Prompt // of the query
	decision route.Decision
	tally    *tally
	// transfer is what the request waits for at its worker, or what it computes a prompt for;
	// nil if it does neither.
	transfer *transfer
	// promptCached is how much of the prompt was cached where it was computed, if that was
	// elsewhere.
	promptCached    int
	promptElsewhere bool
	// told is called when the attempt has ended.
	told func(r *request, what ending, retry time.Duration)
}

// A seat is a request's place with a worker.
type seat struct {
	worker *worker // nil if it has none
	place  int     // among the worker's requests
	// reading is set until the worker has written something.
	reading bool
}

// prepare makes the sequence that a worker gets: the prompt, and what was written
// before, if the request had another worker.
func (r *request) prepare(objective time.Duration, now time.Duration) {
	known := r.prompt + r.written
	r.length = r.output()
	if r.seq.Owner != nil {
		r.seq = sched.Seq{}
	}
	r.seq.Tokens, r.seq.Prompt, r.seq.Most = r.tokens[:known], known, r.prompt+r.most
	r.seq.Class, r.seq.Tenant, r.seq.Owner = r.entry.Class, r.entry.Tenant, r
	r.seq.SetNames(r.names)
	r.seq.Objective, r.seq.Waited = objective, now-r.times.came
}

// write makes the next token known and returns whether it is the last.
func (r *request) write(now time.Duration) (last bool) {
	r.written++
	r.seq.Tokens = r.seq.Tokens[:len(r.seq.Tokens)+1] // those of the script
	if r.times.first == 0 {
		r.times.first = now
	}
	r.times.last = now
	return r.written >= r.length
}
