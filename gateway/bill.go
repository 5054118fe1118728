package gateway

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"parley"
	"parley/gateway/exchange"
	"parley/gateway/ledger"
	"parley/gateway/limit"
	"parley/gateway/models"
	"parley/gateway/tenant"
)

// A bill is what one generation reserves of its caller's limits, and in the end
// what it used and costs. It is settled once: when the answer is complete and
// before its client hears so, or when it is broken off.
type bill struct {
	call  *call
	model string
	price ledger.Price
	hold  limit.Hold
	// more are reserved while the answer grows beyond the estimate in hold; granted is
	// how many output tokens are reserved in all, and step how many are added at a time.
	more          []limit.Hold
	granted, step int64
	// estimate learns from the answer.
	estimate *limit.Estimate
	// id is the entry's in the ledger.
	id   string
	once sync.Once
	// found is how long it took until the cache had no answer.
	found atomic.Int64
}

// accountsMost is how many accounts a call is charged to: those of accountsOf, and
// that of a user whom the request names.
const accountsMost = 5

// accountsOf are what a call is charged to, where there are limits: the
// organisation, the organisation in this tier, the key, and its user. An account always has
// the same limits: two that fill at different rates cannot be one.
func (g *Gateway) accountsOf(who *tenant.Identity) (accounts []limit.Account) {
	add := func(l limit.Limits, name func() string) {
		if l == (limit.Limits{}) {
			return
		}
		if accounts == nil {
			accounts = make([]limit.Account, 0, accountsMost)
		}
		accounts = append(accounts, limit.Account{Name: name(), Limits: l})
	}
	add(who.Limits.Without(who.TierLimits), func() string { return who.Organization })
	add(who.TierLimits, func() string { return who.Organization + ":" + who.Tier.String() })
	add(who.KeyLimits, func() string { return exchange.KeyAccount(who) })
	add(who.LimitsOfUser(), func() string { return userAccount(who) })
	for i := range accounts {
		if l := &accounts[i].Limits; l.BudgetAlert == 0 {
			l.BudgetAlert = g.config.BudgetAlert
		}
	}
	return accounts
}

// reserve takes what jobs may use of the caller's limits of tokens and money before
// anything is computed for them, or refuses. The caller must close the bill.
func (c *call) reserve(m *models.Model, jobs []*parley.Request) (*bill, error) {
	g := c.gateway
	begun := g.config.Now()
	defer c.Record.Took(ledger.Limits, begun)
	who := &c.Identity
	if c.accounts == nil {
		c.accounts = g.accountsOf(who)
	}
	accounts := c.accounts
	c.bills++
	b := &bill{call: c, model: m.ID, price: g.config.Prices.Of(m.ID, who.Tier), id: c.Record.ID}
	if c.bills > 1 {
		b.id = fmt.Sprintf("%s-%d", c.Record.ID, c.bills)
	}
	b.hold = limit.Hold{ID: b.id, Group: who.Organization, Accounts: accounts, Use: useOf(m, jobs, accounts)}
	if b.step = b.hold.Use.Output; b.step > 0 && !c.Record.Background && !jobs[0].Embed {
		b.estimate = m.Answers
		b.step = b.estimate.Tokens(b.step)
		b.hold.Use.Output = b.step
	}
	b.granted = b.hold.Use.Output
	b.hold.Use.Cost = b.most(b.hold.Use.Input, b.hold.Use.Output)
	if c.Record.Background {
		b.hold.Use.Requests, b.hold.Use.Concurrent = fullUse.Requests, fullUse.Concurrent
	}
	if len(accounts) > 0 {
		if err := c.reserveHold(c.Request.Context(), &b.hold, b.model); err != nil {
			return nil, err
		}
	}
	c.Record.Charge(0)
	c.bill = b
	return b, nil
}

// most is what tokens can cost at most.
func (b *bill) most(input, output int64) limit.Micros {
	return ledger.Price{Input: max(b.price.Input, b.price.Cached), Output: b.price.Output}.Of(input, 0, output)
}

// grow reserves more once an answer has as many tokens as were reserved, and reports
// whether it may have more. The estimate is most often enough.
func (b *bill) grow(tokens int64) bool {
	if len(b.hold.Accounts) == 0 || tokens < b.granted || b.estimate == nil {
		return true
	}
	h := limit.Hold{ID: fmt.Sprintf("%s+%d", b.id, len(b.more)+1), Group: b.hold.Group, Accounts: b.hold.Accounts,
		Use: limit.Use{Output: b.step, Cost: b.most(0, b.step)}}
	v, err := b.call.gateway.limits.Reserve(b.call.Request.Context(), &h)
	if err != nil || v.Refused != "" {
		b.call.gateway.records.Limited(string(v.Refused))
		return false
	}
	b.more = append(b.more, h)
	b.granted += b.step
	return true
}

// useOf is the most that jobs can come to use. Where a client named no length,
// the answer is held to what its limits have at most.
func useOf(m *models.Model, jobs []*parley.Request, accounts []limit.Account) limit.Use {
	var use limit.Use
	for _, job := range jobs {
		use.Input += int64(len(job.Prompt))
		if job.Embed {
			continue
		}
		choices := int64(max(job.Choices, 1))
		longest := int64(job.MaxTokens)
		if longest == 0 {
			longest = int64(max(m.ContextTokens-len(job.Prompt), 1))
			for i := range accounts {
				if most := accounts[i].Limits.OutputTokensPerMinute / choices; most > 0 && most < longest {
					longest = most
					job.MaxTokens = int(most)
				}
			}
		}
		use.Output += longest * choices
	}
	return use
}

// tellLimits puts what is left of the limits into the headers. What goes on
// without its client has none.
func (c *call) tellLimits(v *limit.Verdict) {
	if c.ResponseWriter == nil {
		return
	}
	tellLevel(c.Header(), &requestHeaders, v.Requests)
	tellLevel(c.Header(), &tokenHeaders, v.Tokens)
	if v.Budget.Alerted() {
		c.Header()[budgetHeader] = []string{strconv.FormatFloat(float64(v.Budget.Used()/10)/100, 'f', 2, 64)}
	}
}

// budgetHeader says how much of a budget is spent, from its alert on.
const budgetHeader = "X-Parley-Budget-Used"

// levelHeaders are what tells of a level: the limit, what is left, and when all of
// it is there again. They are written as a header has them.
type levelHeaders [3]string

var (
	requestHeaders = levelHeaders{"X-Ratelimit-Limit-Requests", "X-Ratelimit-Remaining-Requests",
		"X-Ratelimit-Reset-Requests"}
	tokenHeaders = levelHeaders{"X-Ratelimit-Limit-Tokens", "X-Ratelimit-Remaining-Tokens", "X-Ratelimit-Reset-Tokens"}
)

func tellLevel(h http.Header, names *levelHeaders, l limit.Level) {
	if l.Limit == 0 {
		return
	}
	values := []string{strconv.FormatInt(l.Limit, 10), strconv.FormatInt(l.Left, 10),
		l.Reset.Round(time.Millisecond).String()}
	for i, name := range names {
		h[name] = values[i : i+1 : i+1]
	}
}

// settle charges what an answer that is complete used.
func (b *bill) settle(u *parley.Usage) {
	if b != nil {
		b.once.Do(func() { b.charge(u, string(b.call.Record.Finish())) })
	}
}

// close charges what an answer that was broken off used: what was written, and
// the prompt if anything was written or it was the client who broke it off while
// it was computed. Nothing more if it is settled.
func (b *bill) close() {
	if b == nil {
		return
	}
	b.once.Do(func() {
		c := b.call
		u, outcome := parley.Usage{OutputTokens: c.Record.OutputTokens()}, "error"
		if c.Request.Context().Err() != nil {
			outcome = string(parley.Cancelled)
		}
		if u.OutputTokens > 0 || outcome != "error" && !c.Record.Waiter().Status().Waiting {
			u.PromptTokens, u.CachedTokens = c.Record.PromptTokens(), c.Record.Usage().CachedTokens
		}
		b.charge(&u, outcome)
	})
}

// void gives back all that was reserved: nothing was asked of a worker, as the
// answer was there. The ledger has it from when it was made, and only once.
func (b *bill) void() {
	b.once.Do(func() {
		b.release(limit.Use{})
	})
}

// ledgerWait is how long the end of an answer waits for the ledger. After that
// it is told to the client and written later.
const ledgerWait = 2 * time.Second

// charge writes the entry, and then gives back what was reserved and not used:
// what a budget counts is never less than what the ledger has.
func (b *bill) charge(u *parley.Usage, outcome string) {
	c := b.call
	g := c.gateway
	e := b.entry(u, outcome)
	c.Record.Charge(e.Cost)
	if g.config.Ledger != nil {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(c.Request.Context()), ledgerWait)
		defer cancel()
		if err := g.config.Ledger.Append(ctx, e); err != nil && !errors.Is(err, context.Canceled) {
			g.config.Log.Error("a request is not in the ledger yet", "id", e.ID, "error", err)
		}
	}
	if b.estimate != nil && outcome != "error" {
		b.estimate.Learn(e.Output)
	}
	b.release(limit.Use{Requests: b.hold.Use.Requests, Input: e.Input, Output: e.Output, Cost: e.Cost})
	if !c.beside {
		c.slot.release()
	}
}

// release replaces what was reserved by what was used. What was added while the answer grew goes last, so that
// at no time less is booked than was used.
func (b *bill) release(used limit.Use) {
	if len(b.hold.Accounts) == 0 {
		return
	}
	b.call.gateway.limits.Settle(&b.hold, used)
	for i := range b.more {
		b.call.gateway.limits.Settle(&b.more[i], limit.Use{})
	}
}

// entry is what the ledger keeps of the generation.
func (b *bill) entry(u *parley.Usage, outcome string) *ledger.Entry {
	c, who := b.call, &b.call.Identity
	route := c.Record.Routing()
	return &ledger.Entry{
		ID:           b.id,
		At:           c.gateway.config.Now(),
		Organization: who.Organization,
		User:         who.User,
		Key:          who.Key,
		Model:        b.model,
		Tier:         who.Tier,
		Route:        c.Record.Route,
		Input:        int64(u.PromptTokens),
		Cached:       int64(u.CachedTokens),
		Output:       int64(u.OutputTokens),
		Cost:         b.price.Of(int64(u.PromptTokens), int64(u.CachedTokens), int64(u.OutputTokens)),
		Worker:       route.Worker,
		Reason:       route.Reason,
		Outcome:      outcome,
		Shared:       c.Record.Shared(),
		Batch:        c.Record.Background,
		Stages:       c.Record.Stages(time.Duration(b.found.Load()), u),
	}
}
