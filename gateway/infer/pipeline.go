package infer

import (
	"context"
	"errors"
	"iter"
	"reflect"
	"time"

	"parley"
	"parley/gateway/admin"

	"github.com/prometheus/client_golang/prometheus"
)

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

// Open makes the queues of a model. A pool with several models, of which before are
// those opened already, has one breaker for all of them.
func (p *Pipeline) Open(id string, worker parley.Worker, before []*Model) (*Model, error) {
	queues := &modelQueues{now: p.now, workerWait: p.admission.WorkerWait}
	names := []string{admin.LocalPool}
	if many, ok := worker.(poolWorker); ok {
		queues.pools, names = many, many.Pools(id)
	}
	m := &Model{ID: id, Worker: worker, queues: queues}
	for _, name := range names {
		if err := queues.open(&p.admission, m, name, p.counted); err != nil {
			return nil, err
		}
	}
	for _, other := range before {
		if SameWorker(worker, other.Worker) {
			queues.joinBreakers(other.queues)
		}
	}
	return m, nil
}

// SameWorker reports whether a and b are one worker.
func SameWorker(a, b parley.Worker) bool { return reflect.TypeOf(a).Comparable() && a == b }

// Run prepares a job's generation. The caller must call stop.
func (p *Pipeline) Run(ctx context.Context, j *Task) *Generation {
	atOnce := j.AtOnce
	if atOnce == 0 {
		atOnce = len(j.Requests)
	}
	x := generate(ctx, j.Requests, atOnce)
	x.from = p.source(j, x)
	x.Waiter = p.waiters.enter(j)
	x.leave = func() { p.waiters.leave(x.Waiter) }
	return x
}

// source returns what answers a job's requests, layer by layer: bounds on time, then
// answers that are there or on their way, then the queue, then the worker.
func (p *Pipeline) source(j *Task, x *Generation) source {
	var answered source
	alone := j.Background || p.admission.Off
	if alone {
		answered = p.worker(j)
	} else {
		answered = p.queued(j)
	}
	if w := p.shares.sharing(j); !w.Private {
		answered = p.shares.answer(w, j.Loose, answered)
	}
	if alone {
		return answered
	}
	first, whole := p.admission.FirstTokenMax, p.admission.AnswerMax
	if j.Person { // it may wait in the queue for longer than a program
		first += p.admission.Queue.WithDefaults().PersonWaitMax
	}
	return bounded(first, whole, p.now, j, x, answered)
}

// worker answers at once.
func (p *Pipeline) worker(j *Task) source { return direct(j.wrap(j.Model.Worker)) }

// queued answers when a request is dispatched. That it is reached says that the
// cache had no answer.
func (p *Pipeline) queued(j *Task) source {
	begun, next := p.now(), j.Model.queues.answer(j.Person, j.wrap)
	return func(ctx context.Context, r *parley.Request) iter.Seq2[*Step, error] {
		if j.Routed != nil {
			j.Routed.CompareAndSwap(0, int64(p.now().Sub(begun)))
		}
		return next(ctx, r)
	}
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
