package infer

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"parley"
)

// waiters knows the jobs under way by their names, so that clients can ask where one
// stands in the queue.
type waiters struct {
	mu     sync.Mutex
	places map[waiterKey]*Waiter
}

// A waiterKey is a name of a job and the tenant that may ask for it.
type waiterKey struct{ tenant, name string }

// A Waiter is a job in the queues: the tickets of its requests.
type Waiter struct {
	model string
	class parley.Class
	keys  []waiterKey

	mu      sync.Mutex
	tickets []*ticket
}

// enter lists a job. The caller must call leave.
func (l *waiters) enter(j *Task) *Waiter {
	r := j.Requests[0]
	p := &Waiter{model: r.Model, class: r.Class}
	for _, name := range j.Names {
		if name != "" {
			p.keys = append(p.keys, waiterKey{r.Tenant, name})
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.places == nil {
		l.places = map[waiterKey]*Waiter{}
	}
	for _, key := range p.keys {
		l.places[key] = p
	}
	return p
}

func (l *waiters) leave(p *Waiter) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, key := range p.keys {
		if l.places[key] == p {
			delete(l.places, key)
		}
	}
}

func (l *waiters) find(tenant, name string) *Waiter {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.places[waiterKey{tenant, name}]
}

// note takes the ticket of one of the job's requests, if it has to wait.
func (p *Waiter) note(k *ticket) {
	if p == nil || k == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.tickets = append(p.tickets, k)
}

// A Standing is where a job stands in the queue.
type Standing struct {
	Waiting  bool
	Position int
	// Left is how long it is still expected to wait, waited how long it has.
	Left, Waited time.Duration
}

// Shown returns where the job stands as its client sees it.
func (p *Waiter) Shown() QueuePlace {
	s := p.Status()
	q := QueuePlace{
		Object: "queue.place",
		ID:     p.keys[0].name,
		Model:  p.model,
		Tier:   p.class.String(),
		Status: "running",
		Waited: s.Waited.Seconds(),
	}
	if s.Waiting {
		q.Status, q.Position, q.EstimatedWait = "waiting", s.Position, s.Left.Seconds()
	}
	return q
}

// Status returns where the job stands: where the last of its requests does.
func (p *Waiter) Status() (s Standing) {
	if p == nil {
		return s
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, k := range p.tickets {
		o, waits := k.outlook()
		s.Waiting = s.Waiting || waits
		s.Position, s.Left = max(s.Position, o.Position), max(s.Left, o.Wait)
		s.Waited = max(s.Waited, k.waited())
	}
	return s
}

// Dispatched reports whether every request of the job that had to wait was dispatched. It is true of a
// job that is not in the queues.
func (p *Waiter) Dispatched() bool {
	if p == nil {
		return true
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return !slices.ContainsFunc(p.tickets, func(k *ticket) bool { return !k.isDispatched() })
}

// isDispatched reports whether the ticket was dispatched.
func (k *ticket) isDispatched() bool {
	t := k.lock()
	defer t.mu.Unlock()
	return !k.dispatchedAt.IsZero()
}

// waited returns how long the ticket has waited, or did until it was dispatched.
func (k *ticket) waited() time.Duration {
	if k.isWaitOver() && !k.dispatchedAt.IsZero() {
		return k.Waited(k.dispatchedAt)
	}
	t := k.lock()
	defer t.mu.Unlock()
	return k.Waited(t.now())
}

// Comment returns the standing as a comment of an event stream.
func (s *Standing) Comment() []byte {
	return fmt.Appendf(nil, ": queue position=%d wait=%.1fs\n\n", s.Position, s.Left.Seconds())
}

// Progress returns the standing as the progress of a prompt of promptTokens.
func (s *Standing) Progress(promptTokens int) *parley.Progress {
	return &parley.Progress{Waiting: true, Ahead: s.Position - 1, Wait: s.Left, PromptTokens: promptTokens}
}

// seenBy returns the queues in which the requests of a tenant may wait.
func (q *modelQueues) seenBy(class parley.Class, tenant string) (seen []*poolQueue) {
	if q.pools == nil || len(q.of) == 0 {
		return q.of
	}
	r := parley.Request{Model: q.of[0].served.ID, Class: class, Tenant: tenant}
	var pools []string
	for _, r.Purpose = range []parley.Purpose{parley.ForChat, parley.ForComplete} {
		pools = append(pools, q.pools.PoolsFor(&r)...)
	}
	for _, t := range q.of {
		if slices.Contains(pools, t.pool) {
			seen = append(seen, t)
		}
	}
	return seen
}

// shown returns the queue as clients see it: all classes of it, or their own.
func (t *poolQueue) shown(all bool, own parley.Class) Queue {
	l := t.load()
	q := Queue{
		Object:          "queue",
		Model:           t.served.ID,
		EstimatedWait:   l.Standing.Seconds(),
		TokensPerSecond: l.PerSecond,
	}
	if t.pools != nil {
		q.Pool = t.pool
	}
	for class := range parley.Class(parley.Classes) {
		if !all && class != own {
			continue
		}
		q.Waiting += l.Waiting[class]
		q.Tiers = append(q.Tiers, QueueTier{
			Tier: class.String(), Waiting: l.Waiting[class], Shedding: l.Shedding[class],
		})
	}
	return q
}
