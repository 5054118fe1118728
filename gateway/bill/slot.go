package bill

import (
	"sync/atomic"

	"parley/gateway/book"
	"parley/limit"
)

// A slot is the place of a request in the limits of its caller. It is taken as soon
// as it is known who calls, before the body is read or anything is computed: it
// counts for the rates of requests whatever becomes of the request, and as under
// way until it is released. What a generation may use of tokens and money is
// reserved apart from it, by a [Bill].
type slot struct {
	book     book.Book
	hold     limit.Hold
	released atomic.Bool
	// next is released with it.
	next *slot
}

// The uses of a slot. Light requests read, delete or change a little of what is
// stored. They have a rate of their own, so that a page that asks often for news
// leaves the caller's requests for inference alone, and one that stops an answer is
// not refused because too many answers are under way.
var (
	fullUse  = limit.Use{Requests: 1, Concurrent: 1}
	lightUse = limit.Use{Light: 1}
)

// newSlot returns a slot that is not taken yet.
func (p *Payer) newSlot(name string, accounts []limit.Account, use limit.Use) *slot {
	return &slot{book: p.billing.Book, hold: limit.Hold{
		ID:       p.record.ID + "-" + name,
		Group:    p.record.Who.Organization,
		Accounts: accounts,
		Use:      use,
	}}
}

// release releases the place of a request that is over. It is safe to call it
// again, and on nil.
func (s *slot) release() {
	for ; s != nil && !s.released.Swap(true); s = s.next {
		s.book.Settle(&s.hold, s.hold.Use)
	}
}
