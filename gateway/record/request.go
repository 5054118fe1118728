package record

import (
	"cmp"
	"context"
	"sync/atomic"
	"time"

	"parley"
	"parley/gateway/admin"
	"parley/gateway/infer"
	"parley/gateway/ledger"
	"parley/gateway/openai"
	"parley/gateway/tenant"
	"parley/limit"
)

// An About is what is known of a request before it is worked on.
type About struct {
	// ID names the request everywhere; ClientID is the client's own name for it.
	ID, ClientID string
	Route        string
	Started      time.Time
	// The caller's identity.
	Who *tenant.Identity
	// Background requests have no client that waits: their times are not counted
	// against objectives.
	Background bool
	// Internal: the server asks, for another request.
	Internal bool
	// Person is set if it came from a page, before which a person waits.
	Person bool
	// Tags are what the client says that the request is for.
	Tags ledger.Tags
}

// A Request is the record of one request. What is written to it while an answer is
// generated is written by the goroutine that generates it.
type Request struct {
	About
	metrics *Metrics
	now     func() time.Time
	// inference is set for requests that reach a worker.
	inference bool
	err       error
	trace     trace
	// attempts has the attempts, waiter the position in the queue, once there are any.
	attempts *parley.AttemptLog
	waiter   *infer.Waiter
	model    string
	answer   answerRecord
	stages   ledger.Stages
	// wrote is how long the first write took, in nanoseconds; a keep-alive may be that write.
	wrote atomic.Int64
}

// An answerRecord is what is known of the answer to a request.
type answerRecord struct {
	// limit is the limit of the caller that refused one, if it did.
	limit string
	// format and tools are what the answer is constrained to.
	format string
	tools  int

	promptTokens, outputTokens int
	// promptOnly: the client wants no tokens, so the one that a worker generates all the same is not counted.
	promptOnly bool
	// counted and charged are the prompts in the metrics, and those that the caller paid for.
	counted, charged promptTally
	// cachedAtFirst is what the first deltas of answers said that the cache had of their prompts.
	cachedAtFirst int
	usage         parley.Usage
	// handed is when, after its arrival, the request was ready for a worker.
	handed, firstToken time.Duration
	// lastTokenAt is when the newest token of each choice came.
	lastTokenAt []time.Time
	finish      parley.Finish
	// shared answers were computed for another request. A keep-alive reads it.
	shared atomic.Bool
	// objective is the index of the one that holds for the request.
	objective int
	// routing is the worker that computed the answer last; nil where there is one worker.
	routing *parley.Routing
	// fallbacks are the models that did not answer, in order.
	fallbacks []admin.Fallback
	// cost is what was charged for the newest generation, in millionths.
	cost atomic.Int64
}

// A promptTally adds up the tokens of prompts, and how many of them were cached.
type promptTally struct{ tokens, cached int }

func (t *promptTally) add(u *parley.Usage) {
	t.tokens, t.cached = t.tokens+u.PromptTokens, t.cached+u.CachedTokens
}

// LimitedBy notes which limit of the caller refused the request.
func (q *Request) LimitedBy(limit string) { q.answer.limit = limit }

// Continue returns a record for work that continues when the request has ended, in the
// background: with its names and its place in the trace, and no answer yet.
func (q *Request) Continue() *Request {
	continued := &Request{
		About:     q.About,
		metrics:   q.metrics,
		now:       q.now,
		inference: q.inference,
		trace:     q.trace,
		attempts:  q.attempts,
		waiter:    q.waiter,
		stages:    q.stages,
	}
	continued.wrote.Store(q.wrote.Load())
	return continued
}

// Beside returns a record for a question of the server's own that is asked for the
// request, such as for a title: it begins now, and its id ends with what.
func (q *Request) Beside(what string) *Request {
	b := q.Continue()
	b.ID += "-" + what
	b.Internal, b.Started, b.stages = true, q.now(), ledger.Stages{}
	b.wrote.Store(0)
	return b
}

// Infer notes that the request reaches a worker: it is in flight until it is finished.
func (q *Request) Infer() {
	q.inference = true
	q.metrics.inFlight.Inc()
}

// Fail notes why the request failed.
func (q *Request) Fail(err error) { q.err = err }

// SetModel notes the model that is asked.
func (q *Request) SetModel(id string) { q.model = id }

// FallBack notes that another model is asked, instead of one that did not answer for a cause.
func (q *Request) FallBack(from, to, cause string, failure error) {
	q.answer.fallbacks = append(q.answer.fallbacks, admin.Fallback{
		From:  from,
		To:    to,
		Cause: cause,
		Error: shortened(failure.Error(), errorBytesMax),
		AtMs:  millis(q.now().Sub(q.Started)),
	})
	q.answer.promptTokens, q.answer.routing = 0, nil
	q.metrics.fallbacks.WithLabelValues(from, to, cause).Inc()
}

// Model returns the model that was asked last.
func (q *Request) Model() string { return q.model }

// SetObjective notes by its index which objective holds for the request.
func (q *Request) SetObjective(index int) { q.answer.objective = index }

// SetFinish notes why the answer ended, where that is not what the worker said.
func (q *Request) SetFinish(f parley.Finish) { q.answer.finish = f }

// Finish returns why the answer ended.
func (q *Request) Finish() parley.Finish { return q.answer.finish }

// Constrain notes that the answer is constrained to a format, or to the given number of
// callable tools.
func (q *Request) Constrain(format string, tools int) {
	q.answer.format, q.answer.tools = format, tools
	if format != "" {
		q.metrics.constrained.WithLabelValues(format).Inc()
	}
	if tools > 0 {
		q.metrics.constrained.WithLabelValues("tools").Inc()
	}
}

// AddPrompt counts the tokens of a prompt.
func (q *Request) AddPrompt(tokens int) { q.answer.promptTokens += tokens }

// WantsNoOutput notes that the client asked for no tokens: what a worker generates all the same is not counted.
func (q *Request) WantsNoOutput() { q.answer.promptOnly = true }

// Recount replaces estimates by what was charged in the end.
func (q *Request) Recount(u *parley.Usage) {
	if q.answer.promptTokens > 0 && u.PromptTokens > 0 {
		q.answer.promptTokens = u.PromptTokens
	}
	q.answer.outputTokens = u.OutputTokens
	q.answer.usage.Estimated = u.Estimated
}

// PromptTokens returns how many tokens the prompts have.
func (q *Request) PromptTokens() int { return q.answer.promptTokens }

// OutputTokens returns how many tokens were generated so far.
func (q *Request) OutputTokens() int { return q.answer.outputTokens }

// CachedTokens returns how much of the prompts was found in the cache, as far as workers have said.
func (q *Request) CachedTokens() int { return max(q.answer.usage.CachedTokens, q.answer.cachedAtFirst) }

// Usage returns what the worker reported so far.
func (q *Request) Usage() parley.Usage { return q.answer.usage }

// Shared reports whether the answer was computed for another request.
func (q *Request) Shared() bool { return q.answer.shared.Load() }

// Handed notes that the request is ready for a worker.
func (q *Request) Handed() { q.answer.handed = max(q.now().Sub(q.Started), 1) }

// SetWaiter notes where the request stands in the queue.
func (q *Request) SetWaiter(w *infer.Waiter) { q.waiter = w }

// Waiter returns where the request stands in the queue; nil if it never was in it.
func (q *Request) Waiter() *infer.Waiter { return q.waiter }

// Travel returns a context in which the attempts of the request are recorded.
func (q *Request) Travel(ctx context.Context) context.Context {
	if q.attempts == nil {
		q.attempts = &parley.AttemptLog{Traced: q.trace.sends && q.trace.here.Sampled}
	}
	return parley.WithAttemptLog(ctx, q.attempts)
}

// WithTrace returns a context that has the request's place in its trace, if it is in one.
func (q *Request) WithTrace(ctx context.Context) context.Context {
	if q.trace == (trace{}) {
		return ctx
	}
	return parley.WithTrace(ctx, q.trace.here)
}

// Charge notes what the newest generation costs; 0 while that is not known.
func (q *Request) Charge(cost limit.Micros) { q.answer.cost.Store(int64(cost)) }

// Charged notes the usage that the caller pays for. The metrics count its prompts here if no worker reported them,
// because the answer was broken off.
func (q *Request) Charged(u *parley.Usage) {
	a := &q.answer
	a.charged.add(u)
	q.countPrompts(&parley.Usage{
		PromptTokens: max(a.charged.tokens-a.counted.tokens, 0),
		CachedTokens: max(a.charged.cached-a.counted.cached, 0),
	})
}

// countPrompts adds the prompts of a usage to the metrics.
func (q *Request) countPrompts(u *parley.Usage) {
	q.answer.counted.add(u)
	q.metrics.promptTokens.Add(float64(u.PromptTokens))
	q.metrics.cachedTokens.Add(float64(u.CachedTokens))
}

// Cost returns what the newest generation costs.
func (q *Request) Cost() limit.Micros { return limit.Micros(q.answer.cost.Load()) }

// Routing returns which worker computed the answer and why.
func (q *Request) Routing() openai.Route {
	told := openai.RouteOf(q.answer.routing)
	told.TTFTMs = millis(q.answer.firstToken)
	told.CostMicros = int64(q.Cost())
	return told
}

// Timings returns where the time of an answer with this usage went, and what it cost.
func (q *Request) Timings(u parley.Usage) *openai.Timings {
	t := openai.TimingsOf(u)
	t.CostMicros = int64(q.Cost())
	return t
}

// Measured completes the usage of an answer that ended before the worker reported its
// times, by what was seen here.
func (q *Request) Measured(u *parley.Usage) {
	u.Queued = q.waiter.Status().Waited
	if a := &q.answer; a.firstToken > 0 {
		u.Prefill = max(a.firstToken-u.Queued, 0)
		u.Decode = a.lastTokenAt[0].Sub(q.Started) - a.firstToken
	}
}

// Delta counts what came of an answer.
func (q *Request) Delta(choice int, came *infer.Step) {
	a, m, d := &q.answer, q.metrics, &came.Delta
	now := q.now()
	if d.Routing != nil {
		a.routing = d.Routing
	}
	a.cachedAtFirst += d.CachedTokens
	if n := d.Count(); n > 0 {
		if a.firstToken == 0 {
			a.firstToken = now.Sub(q.Started)
			if !q.Background { // it may wait for hours
				m.promises.of[a.objective].first.see(a.firstToken)
			}
		}
		a.shared.Store(came.Shared)
		if !a.promptOnly {
			a.outputTokens += n
			if !came.Shared {
				m.outputTokens.Add(float64(n))
			}
		}
		q.tokens(choice, n, now)
	}
	if d.Finish != "" {
		a.finish = d.Finish
		m.finishes.WithLabelValues(string(d.Finish)).Inc()
	}
	if u := d.Usage; u != nil {
		a.usage.Estimated = a.usage.Estimated || u.Estimated
		a.usage.CachedTokens += u.CachedTokens
		a.usage.Miss = cmp.Or(a.usage.Miss, u.Miss)
		a.usage.Beside(u)
		q.countPrompts(u)
	}
}

// tokens observes the time between the tokens of one choice.
func (q *Request) tokens(choice, n int, now time.Time) {
	a := &q.answer
	for choice >= len(a.lastTokenAt) {
		a.lastTokenAt = append(a.lastTokenAt, time.Time{})
	}
	if last := a.lastTokenAt[choice]; !last.IsZero() && !q.Background {
		q.metrics.promises.of[a.objective].later.see(now.Sub(last) / time.Duration(n))
	}
	a.lastTokenAt[choice] = now
}

func millis(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
