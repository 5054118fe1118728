package infer

import (
	"sync/atomic"
	"time"

	"parley"
)

// A Task is one inference without the HTTP exchange that may have asked for it: what
// is computed, in whose name (which the requests say), and what may be shared of it.
// Exchanges, batches, titles and background turns each make their own.
type Task struct {
	// Requests are what a worker is asked, of one model and tenant; AtOnce bounds how
	// many of them are under way, 0 for all.
	Requests []*parley.Request
	AtOnce   int
	// Model answers them.
	Model *Model
	// Names are what the job's client may ask for its place in the queue by; the
	// first is the server's own.
	Names []string
	// Arrived is when the time limits of the job began.
	Arrived time.Time
	// Background jobs have no client: no limit on time protects it, and they yield to
	// everything else at the worker instead of waiting in the queue.
	Background bool
	// Person is set if a person waits for it before a page that shows the place in the
	// queue.
	Person bool
	Share  SharePolicy
	// Wrap puts something between the queue and the worker; nil does not. Loose is
	// the grammar that it may use instead of the requests' own.
	Wrap  func(parley.Worker) parley.Worker
	Loose *parley.Grammar
	// Routed, if not nil, is told how long it took from Run until a request missed
	// the cache, for the first one that does.
	Routed *atomic.Int64
}

// A SharePolicy says with whom the answer to a job may be shared.
type SharePolicy struct {
	// Scope is who may see the answer; empty is every client.
	Scope string
	// Fresh answers are not taken from the cache, private ones are not shared at all.
	Fresh, Private bool
	// Repeatable requests have the same answer every time.
	Repeatable bool
	// Vocabulary distinguishes models of one name that several gateways may have.
	Vocabulary int
}

func (j *Task) wrap(w parley.Worker) parley.Worker {
	if j.Wrap == nil {
		return w
	}
	return j.Wrap(w)
}
