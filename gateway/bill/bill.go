package bill

import (
	"context"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"parley"
	"parley/gateway/book"
	"parley/gateway/ledger"
	"parley/gateway/models"
	"parley/gateway/record"
	"parley/limit"
)

// A Bill is what one generation reserves of its caller's limits, and in the end
// what it used and costs. It is settled once: when the answer is complete and
// before its client hears so, or when it is broken off.
type Bill struct {
	payer *Payer
	// ctx is that of the generation: what is reserved later ends with it.
	ctx   context.Context
	model string
	price limit.Price
	hold  limit.Reservation
	// estimate learns from the answer.
	estimate *book.Estimate
	// gauged: tokens are estimates until the upstream reports them.
	gauged bool
	// id is the entry's in the ledger.
	id string
	// before is what the record had counted for earlier generations of the request.
	before parley.Usage
	once   sync.Once
	// Routed is how long it took until the cache had no answer.
	Routed atomic.Int64
}

// Reserve takes what requests of a model may use of the caller's limits of tokens and
// money before anything is computed for them, or refuses. The caller must close the
// bill. The context is that of the generation.
func (p *Payer) Reserve(ctx context.Context, m *models.Model, requests []*parley.Request) (*Bill, error) {
	defer p.record.Took(ledger.Limits, p.billing.Now())
	who := p.record.Who
	if p.accounts == nil {
		p.accounts = p.billing.AccountsOf(who)
	}
	p.bills++
	b := &Bill{
		payer: p,
		ctx:   ctx,
		model: m.ID,
		price: p.billing.Prices.Of(m.ID, who.Tier),
		id:    p.record.ID,

		gauged: m.Gauge != nil,
		before: counted(p.record),
	}
	if p.bills > 1 {
		b.id = fmt.Sprintf("%s-%d", p.record.ID, p.bills)
	}
	b.hold.Hold = limit.Hold{
		ID:       b.id,
		Group:    who.Organization,
		Accounts: p.accounts,
		Use:      useOf(m, requests, p.accounts),
	}
	if longest := b.hold.Use.Output; longest > 0 && !p.record.Background && !requests[0].Embed {
		b.estimate = m.Answers
		b.hold.Use.Output = b.estimate.Tokens(longest)
	}
	b.hold.Begin()
	b.hold.Use.Cost = b.price.Most(b.hold.Use.Input, b.hold.Use.Output)
	if p.record.Background {
		b.hold.Use.Requests, b.hold.Use.Concurrent = fullUse.Requests, fullUse.Concurrent
	}
	if len(p.accounts) > 0 {
		if err := p.reserve(ctx, &b.hold.Hold, b.model); err != nil {
			return nil, err
		}
	}
	p.record.Charge(0)
	return b, nil
}

// Grow reserves more once an answer has as many tokens as were reserved, which is most often enough. It returns how
// many the answer may have until it must grow again, and reports whether it may have more at all.
func (b *Bill) Grow(tokens int64) (granted int64, more bool) {
	if b.estimate == nil {
		return math.MaxInt64, true
	}
	if granted = b.hold.Granted(); tokens < granted {
		return granted, true
	}
	h := b.hold.More(b.price)
	v, err := b.payer.billing.Book.Reserve(b.ctx, h)
	if err != nil || v.Refused != "" {
		b.payer.billing.Records.Limited(string(v.Refused))
		return granted, false
	}
	b.hold.Grow(h)
	return b.hold.Granted(), true
}

// useOf is the most that requests can come to use. Where a client named no length,
// the answer is held to what its limits have at most.
func useOf(m *models.Model, requests []*parley.Request, accounts []limit.Account) limit.Use {
	var use limit.Use
	for _, r := range requests {
		prompt := m.PromptTokens(r.Prompt)
		use.Input += int64(prompt)
		if r.Embed {
			continue
		}
		choices := int64(max(r.Choices, 1))
		longest := int64(r.MaxTokens)
		if longest == 0 {
			longest = int64(max(m.ContextTokens-prompt, 1))
			for i := range accounts {
				if most := accounts[i].Limits.OutputTokensPerMinute / choices; most > 0 && most < longest {
					longest = most
					r.MaxTokens = int(most)
				}
			}
		}
		use.Output += longest * choices
	}
	return use
}

// Settle charges what an answer that is complete used.
func (b *Bill) Settle(u *parley.Usage) {
	if b != nil {
		b.once.Do(func() {
			b.charge(u, string(b.payer.record.Finish()))
			b.payer.ended()
		})
	}
}

// counted returns what a record has counted so far.
func counted(r *record.Request) parley.Usage {
	return parley.Usage{
		PromptTokens: r.PromptTokens(),
		CachedTokens: r.CachedTokens(),
		OutputTokens: r.OutputTokens(),
	}
}

// Close charges what an answer that was broken off used: what was written, and
// the prompt if anything was written or it was the client who broke it off after
// the request was dispatched. Nothing more if it is settled.
func (b *Bill) Close() {
	if b == nil {
		return
	}
	b.once.Do(func() {
		r := b.payer.record
		now := counted(r)
		u, outcome := parley.Usage{OutputTokens: now.OutputTokens - b.before.OutputTokens, Estimated: b.gauged}, "error"
		if b.ctx.Err() != nil {
			outcome = string(parley.Cancelled)
		}
		if u.OutputTokens > 0 || outcome != "error" && r.Waiter().Dispatched() {
			u.PromptTokens = now.PromptTokens - b.before.PromptTokens
			u.CachedTokens = min(now.CachedTokens-b.before.CachedTokens, u.PromptTokens)
		}
		b.charge(&u, outcome)
		b.payer.ended()
	})
}

// Fail closes the bill of a generation that had no token and is begun again with another model: nothing is
// charged, and the request keeps its slot.
func (b *Bill) Fail() { b.once.Do(func() { b.charge(&parley.Usage{}, "error") }) }

// Void releases all that was reserved: nothing was asked of a worker, as the
// answer was there. The ledger has it from when it was made, and only once.
func (b *Bill) Void() {
	b.once.Do(func() {
		b.hold.Settle(limit.Use{}, b.payer.billing.Book.Settle)
	})
}

// ledgerWait is how long the end of an answer waits for the ledger. After that
// it is told to the client and written later.
const ledgerWait = 2 * time.Second

// charge writes the entry, and then releases what was reserved and not used:
// what a budget counts is never less than what the ledger has.
func (b *Bill) charge(u *parley.Usage, outcome string) {
	o := b.payer.billing
	e := b.entry(u, outcome)
	b.payer.record.Charge(e.Cost)
	b.payer.record.Charged(u)
	if b.gauged {
		b.payer.record.Recount(u)
	}
	if o.Ledger != nil {
		if err := o.Ledger.AppendWithin(ledgerWait, e); err != nil {
			o.Log.Error("ledger entry delayed", "id", e.ID, "error", err)
		}
	}
	if b.estimate != nil && outcome != "error" {
		b.estimate.Learn(e.Output)
	}
	b.hold.Settle(limit.Use{Requests: b.hold.Use.Requests, Input: e.Input, Output: e.Output, Cost: e.Cost},
		o.Book.Settle)
}

// entry is what the ledger keeps of the generation.
func (b *Bill) entry(u *parley.Usage, outcome string) *ledger.Entry {
	r := b.payer.record
	route := r.Routing()
	return &ledger.Entry{
		ID:           b.id,
		At:           b.payer.billing.Now(),
		Organization: r.Who.Organization,
		User:         r.Who.User,
		Key:          r.Who.Key,
		Model:        b.model,
		Tier:         r.Who.Tier,
		Route:        r.Route,
		Input:        int64(u.PromptTokens),
		Cached:       int64(u.CachedTokens),
		Output:       int64(u.OutputTokens),
		Cost:         b.price.Of(int64(u.PromptTokens), int64(u.CachedTokens), int64(u.OutputTokens)),
		Worker:       route.Worker,
		Reason:       route.Reason,
		Outcome:      outcome,
		Estimated:    u.Estimated,
		Tags:         r.Tags,
		Shared:       r.Shared(),
		Batch:        r.Background,
		Internal:     r.Internal,
		Stages:       r.Stages(time.Duration(b.Routed.Load()), u),
	}
}
