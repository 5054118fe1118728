package gateway

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"parley"
	"parley/gateway/openai"
	"parley/gateway/tenant"
)

// A line knows the calls that are being answered by their names, so that pages
// can ask where one stands.
type line struct {
	mu     sync.Mutex
	places map[placeKey]*place
}

// A placeKey is the id of a call, or the name that its client gave it; the
// latter only its own tenant can ask for.
type placeKey struct{ tenant, name string }

// A place is where one call stands: the tickets of its requests.
type place struct {
	model string
	class parley.Class
	keys  []placeKey

	mu      sync.Mutex
	tickets []*ticket
}

// enter gives a call its place. The caller must call leave.
func (l *line) enter(c *call, model string, class parley.Class, tenant string) *place {
	p := &place{model: model, class: class, keys: []placeKey{{tenant, c.id}}}
	if name := c.clientRequestID(); name != "" {
		p.keys = append(p.keys, placeKey{tenant, name})
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.places == nil {
		l.places = map[placeKey]*place{}
	}
	for _, key := range p.keys {
		l.places[key] = p
	}
	return p
}

func (l *line) leave(p *place) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, key := range p.keys {
		if l.places[key] == p {
			delete(l.places, key)
		}
	}
}

func (l *line) find(tenant, name string) *place {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.places[placeKey{tenant, name}]
}

// add notes that one of the call's requests waits.
func (p *place) add(k *ticket) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.tickets = append(p.tickets, k)
}

// A standing is what a call is told of its waiting.
type standing struct {
	waiting  bool
	position int
	// left is how long it is still expected to wait, waited how long it has.
	left, waited time.Duration
}

// stands returns where the call stands: where the last of its requests does.
func (p *place) stands() (s standing) {
	if p == nil {
		return s
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, k := range p.tickets {
		o, waits := k.outlook()
		s.waiting = s.waiting || waits
		s.position, s.left = max(s.position, o.Position), max(s.left, o.Wait)
		s.waited = max(s.waited, k.waited())
	}
	return s
}

// waited returns how long the ticket has waited, or did until its turn came.
func (k *ticket) waited() time.Duration {
	if k.isCalled() && !k.went.IsZero() {
		return k.Waited(k.went)
	}
	t := k.lock()
	defer t.mu.Unlock()
	return k.Waited(t.now())
}

// comment is what a client of a stream is told while it waits.
func (s *standing) comment() []byte {
	return fmt.Appendf(nil, ": queue position=%d wait=%.1fs\n\n", s.position, s.left.Seconds())
}

// progress is the same for a client that asked how far its prompt of so many
// tokens is.
func (s *standing) progress(promptTokens int) *parley.Progress {
	return &parley.Progress{Waiting: true, Ahead: s.position - 1, Wait: s.left, PromptTokens: promptTokens}
}

// tellWait puts what is known of the waiting into the headers.
func (c *call) tellWait() {
	if c.place == nil {
		return
	}
	s, h := c.place.stands(), c.Header()
	if c.story.shared {
		h.Set("X-Answer-Shared", "true")
	}
	h.Set("X-Queue-Wait", seconds(s.waited))
	if s.waiting {
		h.Set("X-Queue-Position", strconv.Itoa(s.position))
		h.Set("X-Queue-Estimated-Wait", seconds(s.left))
	}
}

func seconds(d time.Duration) string { return strconv.FormatFloat(d.Seconds(), 'f', 3, 64) }

// showQueue answers GET /v1/queue: how long one would wait now, for each model that the
// caller may use. Who waits in other tiers than its own is for admins alone.
func (g *Gateway) showQueue(c *call) error {
	list := openai.QueueList{Object: "list", Data: []openai.Queue{}}
	for _, m := range g.served() {
		if !c.identity.MayUse(m.ID) {
			continue
		}
		for _, t := range m.queues.seenBy(c.identity.Tier, c.identity.Organization) {
			list.Data = append(list.Data, t.shown(&c.identity))
		}
	}
	return c.reply(http.StatusOK, list)
}

// seenBy returns the queues in which the requests of a tenant may wait.
func (q *poolQueues) seenBy(class parley.Class, tenant string) (seen []*turns) {
	if q.pools == nil || len(q.of) == 0 {
		return q.of
	}
	r := parley.Request{Model: q.of[0].name, Class: class, Tenant: tenant}
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

// shown returns the queue as clients see it.
func (t *turns) shown(to *tenant.Identity) openai.Queue {
	l := t.load()
	q := openai.Queue{
		Object:          "queue",
		Model:           t.name,
		EstimatedWait:   l.Standing.Seconds(),
		TokensPerSecond: l.PerSecond,
	}
	if t.pools != nil {
		q.Pool = t.pool
	}
	for class := range parley.Class(parley.Classes) {
		if !to.Admin && class != to.Tier {
			continue
		}
		q.Waiting += l.Waiting[class]
		q.Tiers = append(q.Tiers, openai.QueueTier{
			Tier: class.String(), Waiting: l.Waiting[class], Shedding: l.Shedding[class],
		})
	}
	return q
}

// showPlace answers GET /v1/queue/{id}: where a request of the caller stands, by
// its request id or by the name its client gave it.
func (g *Gateway) showPlace(c *call) error {
	p := g.line.find(c.identity.Organization, c.values["id"])
	if p == nil {
		return parley.Errorf(parley.NotFound, "No request of yours with the id '%s' is being answered.", c.values["id"])
	}
	s := p.stands()
	answer := openai.QueuePlace{Object: "queue.place", ID: p.keys[0].name, Model: p.model, Tier: p.class.String(), Status: "running", Waited: s.waited.Seconds()}
	if s.waiting {
		answer.Status, answer.Position, answer.EstimatedWait = "waiting", s.position, s.left.Seconds()
	}
	return c.reply(http.StatusOK, answer)
}
