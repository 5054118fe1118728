package sim

import (
	"cmp"
	"sort"
	"time"

	"parley/limit"
)

// Refusals are how often a limit refused requests of an organisation.
type Refusals struct {
	Organisation string       `json:"organisation"`
	Limit        limit.Reason `json:"limit"`
	Attempts     uint64       `json:"attempts"`
}

// A gate checks the limits of organisations before requests come to a queue.
type gate struct {
	clock    *clock
	accounts limit.Accounts
	refused  map[Refusals]uint64 // without Attempts
}

func newGate(c *clock) *gate {
	return &gate{c, limit.Accounts{}, map[Refusals]uint64{}}
}

// refusals lists what was refused, the most first.
func (g *gate) refusals() (out []Refusals) {
	for r, n := range g.refused {
		r.Attempts = n
		out = append(out, r)
	}
	sort.Slice(out, func(i, j int) bool {
		a, b := &out[i], &out[j]
		return cmp.Or(cmp.Compare(b.Attempts, a.Attempts), cmp.Compare(a.Organisation, b.Organisation),
			cmp.Compare(a.Limit, b.Limit)) < 0
	})
	return out
}

// A payment is what a request holds of its organisation's limits: a slot, and its tokens.
type payment struct {
	gate     *gate
	slot     limit.Hold
	answer   limit.Reservation
	price    limit.Price
	estimate *limit.Estimate
}

// A payer is an organisation with limits, and what a million tokens cost it.
type payer struct {
	name   string
	limits limit.Limits
	price  limit.Price
	// answers are those of the model that it asks.
	answers *limit.Estimate
}

// pay reserves what a request with a prompt and an answer of at most longest may use of its organisation's
// limits, or returns nil and after which time it may come again; negative means never.
func (g *gate) pay(who payer, prompt, longest int64) (p *payment, retry time.Duration) {
	p = &payment{gate: g, price: who.price, estimate: who.answers}
	accounts := []limit.Account{{Name: who.name, Limits: who.limits}}
	p.slot = limit.Hold{Accounts: accounts, Use: limit.Use{Requests: 1, Concurrent: 1}}
	output := p.estimate.Tokens(longest)
	p.answer.Hold = limit.Hold{Accounts: accounts, Use: limit.Use{
		Input:  prompt,
		Output: output,
		Cost:   p.price.Most(prompt, output),
	}}
	p.answer.Begin()
	retry, ok := g.reserve(&p.slot)
	if !ok {
		return nil, retry
	}
	if retry, ok = g.reserve(&p.answer.Hold); !ok {
		g.settle(&p.slot, p.slot.Use)
		return nil, retry
	}
	return p, 0
}

// reserve takes a hold, or returns after which time it may be tried again.
func (g *gate) reserve(h *limit.Hold) (retry time.Duration, ok bool) {
	now := g.clock.time()
	g.accounts.Of(h)[0].Seed(0, now)
	v := g.accounts.Reserve(h, now)
	if v.Refused != "" {
		g.refused[Refusals{Organisation: h.Accounts[0].Name, Limit: v.Refused}]++
	}
	return v.Wait, v.Refused == ""
}

func (g *gate) settle(h *limit.Hold, used limit.Use) { g.accounts.Settle(h, &used, g.clock.time()) }

// grow reports whether an answer of a number of tokens may have another one.
func (p *payment) grow(tokens int) bool {
	if int64(tokens) < p.answer.Granted() {
		return true
	}
	h := p.answer.More(p.price)
	if _, ok := p.gate.reserve(h); !ok {
		return false
	}
	p.answer.Grow(h)
	return true
}

// settle books what an attempt used. Those that were not rejected say how long answers are.
func (p *payment) settle(input, cached, output int64, wasRejected bool) {
	if !wasRejected {
		p.estimate.Learn(output)
	}
	used := limit.Use{Input: input, Output: output, Cost: p.price.Of(input, cached, output)}
	p.answer.Settle(used, p.gate.settle)
	p.gate.settle(&p.slot, p.slot.Use)
}
