package sim

import (
	"time"

	"parley"
	"parley/engine/sched"
	"parley/engine/spec"
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
// one did, when it was sent to a worker, its first token and its latest. outside is how long it takes besides, for its
// client: as long for all requests, so it is enough to add it in the end.
type times struct{ born, came, sent, first, last, outside time.Duration }

// An ending is how an attempt ends for its client.
type ending uint8

const (
	rejected ending = iota
	finished
)

// A request is one attempt to have something answered. What every token needs lies in five lines of the
// processor's cache: the first three, and the first two of the sequence.
type request struct {
	writing
	placement placement
	blocks    blocks
	times     times
	*script
	entry queue.Entry
	caller
	seq      sched.Seq
	query    route.Request
	prompts  [1]route.Prompt // of the query
	decision route.Decision
	_        [2]uint64 // so that each of several begins with a line
}

// A caller is who sent a request, and hears how it ends.
type caller struct {
	tally *tally
	// told is called when the attempt has ended.
	told func(r *request, what ending, retry time.Duration)
}

// settle books what an attempt used of its organisation's limits, if there are any: nothing of a prompt that no
// worker began with.
func (r *request) settle(what ending) {
	p := r.payment
	if p == nil {
		return
	}
	r.payment = nil
	if what == rejected || r.times.sent == 0 {
		p.settle(0, 0, 0, what == rejected)
		return
	}
	p.settle(int64(r.prompt), int64(r.hitTokens()), int64(r.written), false)
}

// writing is how much of an answer is written, its length, who pays for it, nil without limits, and how guesses at it
// went at its present worker.
type writing struct {
	written, length int
	payment         *payment
	acceptance      spec.Acceptance
}

// blocks are about what of the prompt another worker computes.
type blocks struct {
	// transfer is what the request waits for at its worker, or what it computes a prompt for;
	// nil if it does neither.
	transfer *transfer
	// cached is how much of the prompt was cached where it was computed, if that was elsewhere.
	cached    int
	elsewhere bool
}

// A placement is where a request is among those of a worker.
type placement struct {
	worker *worker // nil if it has none
	index  int     // among the worker's requests
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

// promptAttempt returns a request that computes the prompt of r at another worker and nothing else.
func (r *request) promptAttempt(x *transfer, d route.Decision) *request {
	a := &request{script: r.script, times: r.times, decision: d, blocks: blocks{transfer: x}}
	a.entry.Class, a.entry.Tenant = r.entry.Class, r.entry.Tenant
	a.prepare(r.seq.Objective, r.times.came+r.seq.Waited)
	a.length, a.seq.Most = 1, r.prompt+1
	return a
}

// isPromptAttempt reports whether the request computes the prompt of another one.
func (r *request) isPromptAttempt() bool {
	return r.blocks.transfer != nil && r.blocks.transfer.attempt == r
}

// hitTokens returns how much of the prompt was cached when the request came, by whichever
// worker computed it.
func (r *request) hitTokens() int {
	if r.blocks.elsewhere {
		return min(r.blocks.cached, r.seq.Cached.HitTokens)
	}
	return r.seq.Cached.HitTokens
}
