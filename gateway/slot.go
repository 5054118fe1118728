package gateway

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"parley"
	"parley/gateway/batch"
	"parley/gateway/exchange"
	"parley/gateway/limit"
	"parley/gateway/tenant"
)

// A slot is the place of a request in the limits of its caller. It is taken as soon
// as it is known who calls, before the body is read or anything is computed: it
// counts for the rates of requests whatever becomes of the request, and as under
// way until it is released. What a generation may use of tokens and money is
// reserved apart from it, by a [bill].
type slot struct {
	book     limit.Book
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

// lightPosts are the routes whose POST is light. Their bodies are small.
var lightPosts = map[string]bool{
	"/v1/conversations/{id}":         true,
	"/v1/conversations/{id}/restore": true,
}

// lightBodyBytesMax bounds the body of a light request.
const lightBodyBytesMax = 256 << 10

// isLight reports whether a request counts as a light one.
func isLight(method, route string) bool {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodDelete:
		return true
	}
	return lightPosts[route] || strings.HasSuffix(route, "/cancel") || strings.HasPrefix(route, "/v1/organization/")
}

// takeSlot counts a request of an identified caller, or refuses it. Work that no
// client waits for is counted when it reserves its tokens: it would else occupy the
// caller's slots while it waits for room.
func (g *Gateway) takeSlot(c *call) error {
	if c.Record.Background || !strings.HasPrefix(c.Record.Route, "/v1/") {
		return nil
	}
	c.light = isLight(c.Request.Method, c.Record.Route)
	if c.light {
		c.Hooks.BodyBytesMax = lightBodyBytesMax
		return g.take(c, lightUse)
	}
	return g.take(c, fullUse)
}

func (g *Gateway) take(c *call, use limit.Use) error {
	c.accounts = g.accountsOf(&c.Identity)
	if len(c.accounts) == 0 {
		return nil
	}
	s := &slot{book: g.limits,
		hold: limit.Hold{ID: c.Record.ID + "-slot", Group: c.Identity.Organization, Accounts: c.accounts, Use: use}}
	if err := c.reserveHold(c.Request.Context(), &s.hold, ""); err != nil {
		return err
	}
	c.slot = s
	return nil
}

// release gives back the place of a request that is over. It is safe to call it
// again, and on nil.
func (s *slot) release() {
	for ; s != nil && !s.released.Swap(true); s = s.next {
		s.book.Settle(&s.hold, s.hold.Use)
	}
}

// handOver gives the slot of a call to another that goes on in its place.
func (c *call) handOver() *slot {
	s := c.slot
	c.slot = nil
	return s
}

// reserveHold reserves of the caller's accounts, and says in the headers what is
// left. What no client waits for waits until there is room. model is what a refusal
// names, if it is known.
func (c *call) reserveHold(ctx context.Context, h *limit.Hold, model string) error {
	g := c.gateway
	for {
		v, err := g.limits.Reserve(ctx, h)
		if err != nil {
			return err
		}
		c.tellLimits(&v)
		if v.Refused == "" {
			return nil
		}
		if !c.Record.Background || v.Wait < 0 {
			g.records.Limited(string(v.Refused))
			return refusedBy(&v.Refusal, whoseLimit(&c.Identity, h, &v.Refusal), model)
		}
		if err := batch.Rest(ctx, min(v.Wait, time.Minute)); err != nil {
			return err
		}
		if c.author != nil { // the key may have been blocked since
			if _, err := g.who(c); err != nil {
				return err
			}
		}
	}
}

// whoseLimit says to a caller which of its accounts a limit is of.
func whoseLimit(who *tenant.Identity, h *limit.Hold, r *limit.Refusal) string {
	switch name := h.Accounts[r.Account].Name; {
	case name == exchange.KeyAccount(who):
		return "your key"
	case name == userAccount(who):
		return "your user"
	case strings.HasPrefix(name, who.Organization+"//end-user:"):
		return "the user that the request names"
	}
	return "your organisation"
}

// refusedBy is the error of a request that a limit refuses.
func refusedBy(r *limit.Refusal, whose, model string) error {
	refused := func(format string, args ...any) error {
		return &parley.Error{Code: parley.RateLimited, Wait: r.Wait, Message: fmt.Sprintf(format, args...)}
	}
	switch {
	case r.Refused == limit.Budget:
		return parley.Errorf(parley.QuotaExceeded,
			"You exceeded the budget of %s for this month: of %s, %s is left, and this request may cost up to %s. "+
				"Ask for a larger budget, or for a shorter answer with 'max_tokens'.",
			whose, limit.Micros(r.Limit), limit.Micros(r.Left), limit.Micros(r.Terms))
	case r.Refused == limit.Concurrency:
		return refused("Limit of %s reached: %d requests under way at a time. Wait until one has ended.", whose,
			r.Limit)
	}
	if model != "" {
		model = " for " + model
	}
	rate := fmt.Sprintf("%d %s a %s", r.Limit, r.Refused,
		map[time.Duration]string{time.Second: "second", time.Minute: "minute"}[r.Period])
	if r.Wait < 0 {
		return refused(
			"The request is too large for the limit of %s%s: %s, requested %d. Shorten the prompt or 'max_tokens'.",
			whose, model, rate, r.Terms)
	}
	return refused("Rate limit of %s reached%s: %s, %d left, requested %d. Try again in %v.", whose, model, rate,
		r.Left, r.Terms, r.Wait.Round(time.Millisecond))
}
