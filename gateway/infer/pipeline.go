package infer

import (
	"context"
	"errors"
	"iter"
	"sync/atomic"
	"time"

	"parley"

	"github.com/prometheus/client_golang/prometheus"
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
	Share      SharePolicy
	// Wrap puts something between the queue and the worker; nil does not. Loose is
	// the grammar that it may use instead of the requests' own.
	Wrap  func(parley.Worker) parley.Worker
	Loose *parley.Grammar
	// Routed, if not nil, is told how long it took from Run until a request missed
	// the cache, for the first one that does.
	Routed *atomic.Int64
}

// A Model is a model as the pipeline serves it: its worker, and the queues in front of
// that. A job keeps the model that it began with.
type Model struct {
	ID     string
	Worker parley.Worker
	queues *modelQueues
}

// A Pipeline is everything between a job and the workers: bounds on time, shared
// answers, the queues.
type Pipeline struct {
	now       func() time.Time
	admission Admission
	counted   *admissionMetrics
	shares    *shares
	waiters   waiters
}

// NewPipeline makes a pipeline and registers its metrics; models lists what it serves
// at the time, each from [Pipeline.Open].
func NewPipeline(
	admission Admission, sharing Sharing, now func() time.Time, r *prometheus.Registry, models func() []*Model,
) (p *Pipeline, err error) {
	p = &Pipeline{now: now, admission: admission, counted: newAdmissionMetrics()}
	if p.shares, err = openShares(sharing, now, r); err != nil {
		return nil, err
	}
	return p, errors.Join(r.Register(p.counted.shed), r.Register(p.counted.wait), r.Register(queueCollector{models}))
}

// Run prepares a job's generation. The caller must call stop.
func (p *Pipeline) Run(ctx context.Context, j *Task) *Generation {
	atOnce := j.AtOnce
	if atOnce == 0 {
		atOnce = len(j.Requests)
	}
	x := generate(ctx, p.source(j), j.Requests, atOnce)
	x.Waiter = p.waiters.enter(j)
	x.leave = func() { p.waiters.leave(x.Waiter) }
	return x
}

// source returns what answers a job's requests, layer by layer: bounds on time, then
// answers that are there or on their way, then the queue, then the worker.
func (p *Pipeline) source(j *Task) source {
	alone := j.Background || p.admission.Off
	answered := p.worker(j)
	if !alone {
		answered = p.queued(j)
	}
	if w := p.shares.sharing(j); !w.Private {
		answered = p.shares.answer(w, j.Loose, answered)
	}
	if alone {
		return answered
	}
	return p.bounded(j.Arrived, answered)
}

// worker answers at once.
func (p *Pipeline) worker(j *Task) source { return direct(j.wrap(j.Model.Worker)) }

// queued answers when a request's turn has come. That it is reached says that the
// cache had no answer.
func (p *Pipeline) queued(j *Task) source {
	begun, next := p.now(), j.Model.queues.answer(j.wrap)
	return func(ctx context.Context, r *parley.Request) iter.Seq2[Step, error] {
		if j.Routed != nil {
			j.Routed.CompareAndSwap(0, int64(p.now().Sub(begun)))
		}
		return next(ctx, r)
	}
}

func (j *Task) wrap(w parley.Worker) parley.Worker {
	if j.Wrap == nil {
		return w
	}
	return j.Wrap(w)
}

// Find returns where a job of a tenant stands, by one of its names; nil if no such job
// is under way.
func (p *Pipeline) Find(tenant, name string) *Waiter { return p.waiters.find(tenant, name) }

// QueuesOf returns the queues of a model in which requests of a class and tenant may
// wait, with the numbers of all classes or of their own.
func (p *Pipeline) QueuesOf(m *Model, class parley.Class, tenant string, all bool) (list []Queue) {
	for _, t := range m.queues.seenBy(class, tenant) {
		list = append(list, t.shown(all, class))
	}
	return list
}

// IsPublicModel reports whether all tenants share the answers of a model.
func (p *Pipeline) IsPublicModel(id string) bool { return p.shares.isPublicModel(id) }

// IsPublicPrompt reports whether all tenants share conversations that open so.
func (p *Pipeline) IsPublicPrompt(opening string) bool { return p.shares.isPublicPrompt(opening) }
