package bill

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"log/slog"
	"sync/atomic"
	"time"

	"parley/gateway/batch"
	"parley/gateway/book"
	"parley/gateway/ledger"
	"parley/gateway/record"
	"parley/gateway/tenant"
	"parley/limit"
)

// An Billing is what all bills of a server share.
type Billing struct {
	// Book keeps what callers have used of their limits.
	Book book.Book
	// Ledger keeps what every generation used; nil keeps nothing.
	Ledger *ledger.Ledger
	// Prices are what models cost.
	Prices ledger.Prices
	// BudgetAlert is the share of a budget from which on it is nearly spent, where an
	// account has none of its own.
	BudgetAlert limit.Share
	// Records counts what limits refuse.
	Records *record.Recorder
	Log     *slog.Logger
	Now     func() time.Time
}

// A Payer is what one request is charged to: the accounts of its caller, and the slot
// that it has while it is under way. It is used by one goroutine at a time,
// except that its slot may be released by any.
type Payer struct {
	billing *Billing
	record  *record.Request
	// accounts are those of the caller's limits that there are, nil before they are
	// known; light requests only touch what is stored.
	accounts []limit.Account
	light    bool
	slot     atomic.Pointer[slot]
	// bills counts the generations. If there are several, the end of one does not release the slot.
	bills   int
	several bool
	hooks   Hooks
}

// Hooks are called while a payer waits for its limits; each may be nil.
type Hooks struct {
	// Limits is told what is left of the limits after each reservation.
	Limits func(*limit.Verdict)
	// Recheck reports whether the caller may still call, after a wait.
	Recheck func() error
}

// Open returns the payer of a request, whose caller need not be known yet.
func (o *Billing) Open(r *record.Request, hooks Hooks) *Payer {
	return &Payer{billing: o, record: r, hooks: hooks}
}

// Beside returns the payer of a question that the server asks for the request, with a
// record of its own: charged as the request is, and without a slot.
func (p *Payer) Beside(r *record.Request) *Payer {
	return &Payer{billing: p.billing, record: r, accounts: p.accounts}
}

// Continue returns the payer of work that continues when the request has ended, with
// a record of its own: it takes over the slot.
func (p *Payer) Continue(r *record.Request) *Payer {
	next := p.Beside(r)
	next.bills = p.bills // their ids follow
	next.slot.Store(p.slot.Swap(nil))
	return next
}

// AccountsOf are what a caller is charged to, where there are limits: the
// organisation, the organisation in this tier, the key, and its user. An account always has
// the same limits: two that fill at different rates cannot be one.
func (o *Billing) AccountsOf(who *tenant.Identity) []limit.Account {
	var all [4]limit.Account // copied below: a stream keeps no more than it has
	accounts := all[:0]
	add := func(l limit.Limits, name func() string) {
		if l == (limit.Limits{}) {
			return
		}
		if l.BudgetAlert == 0 {
			l.BudgetAlert = o.BudgetAlert
		}
		accounts = append(accounts, limit.Account{Name: name(), Limits: l})
	}
	add(who.Limits.Without(who.TierLimits), func() string { return who.Organization })
	add(who.TierLimits, func() string { return who.Organization + ":" + who.Tier.String() })
	add(who.KeyLimits, who.KeyAccount)
	add(who.LimitsOfUser(), who.UserAccount)
	if len(accounts) == 0 {
		return nil
	}
	own := make([]limit.Account, len(accounts))
	copy(own, accounts)
	return own
}

// TakeSlot counts a request of an identified caller, or refuses it.
func (p *Payer) TakeSlot(ctx context.Context, light bool) error {
	p.light = light
	p.accounts = p.billing.AccountsOf(p.record.Who)
	if len(p.accounts) == 0 {
		return nil
	}
	use := fullUse
	if light {
		use = lightUse
	}
	s := p.newSlot("slot", p.accounts, use)
	if err := p.reserve(ctx, &s.hold, ""); err != nil {
		return err
	}
	p.slot.Store(s)
	return nil
}

// Several says that generations of the request may follow each other: it keeps its slot until
// Release is called.
func (p *Payer) Several() { p.several = true }

// ended releases the slot after a generation, unless others may follow.
func (p *Payer) ended() {
	if !p.several {
		p.Release()
	}
}

// Release releases the slot of a request that is over. It is safe to call it again.
func (p *Payer) Release() { p.slot.Load().release() }

// CountEndUser counts a request for the user whom the body names, where the operator
// limits those. Nothing is known of such a user but a name, of which a digest is kept.
// The ledger gets what the body says that the request is for.
func (p *Payer) CountEndUser(ctx context.Context, body []byte) error {
	limits := p.record.Who.EndUserLimits
	limited := limits != (limit.Limits{}) && !p.record.Background
	if p.light || !limited && p.billing.Ledger == nil {
		return nil
	}
	named := attributionOf(body)
	if p.billing.Ledger != nil {
		p.record.Tags = ledger.TagsOf(named.Metadata)
	}
	if !limited || named.EndUser == "" {
		return nil
	}
	sum := sha256.Sum256([]byte(named.EndUser))
	account := limit.Account{Name: p.record.Who.Organization + "//end-user:" + hex.EncodeToString(sum[:12]),
		Limits: limits}
	s := p.newSlot("user", []limit.Account{account}, fullUse)
	s.next = p.slot.Load()
	if err := p.reserve(ctx, &s.hold, ""); err != nil {
		return err
	}
	p.slot.Store(s)
	p.accounts = append(p.accounts[:len(p.accounts):len(p.accounts)], account)
	return nil
}

// reserve takes of the caller's accounts. What no client waits for waits until there is
// room. Model is what a refusal names, if it is known.
func (p *Payer) reserve(ctx context.Context, h *limit.Hold, model string) error {
	for {
		v, err := p.billing.Book.Reserve(ctx, h)
		if err != nil {
			return err
		}
		if p.hooks.Limits != nil {
			p.hooks.Limits(&v)
		}
		if v.Refused == "" {
			return nil
		}
		if !p.record.Background || v.Wait < 0 {
			p.billing.Records.Limited(string(v.Refused))
			whose := whoseLimit(p.record.Who, h, &v.Refusal)
			p.record.LimitedBy(limitOf(&v.Refusal, whose))
			return refusedBy(&v.Refusal, whose, model)
		}
		if err := batch.Rest(ctx, min(v.Wait, time.Minute)); err != nil {
			return err
		}
		if p.hooks.Recheck != nil { // the key may have been blocked since
			if err := p.hooks.Recheck(); err != nil {
				return err
			}
		}
	}
}
