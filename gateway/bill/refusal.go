package bill

import (
	"fmt"
	"strings"
	"time"

	"parley"
	"parley/gateway/tenant"
	"parley/limit"
)

// whoseLimit says to a caller which of its accounts a limit is of.
func whoseLimit(who *tenant.Identity, h *limit.Hold, r *limit.Refusal) string {
	switch name := h.Accounts[r.Account].Name; {
	case name == who.KeyAccount():
		return "your key"
	case name == who.UserAccount():
		return "your user"
	case strings.HasPrefix(name, who.Organization+"//end-user:"):
		return "the user that the request names"
	}
	return "your organisation"
}

// ofWhom names whose limit it is to operators, who see the organisation beside it.
var ofWhom = strings.NewReplacer("your organisation", "the organisation", "your ", "a ",
	"the user that the request names", "an end user")

// limitOf names a limit for operators, such as "the monthly budget of the organisation".
func limitOf(r *limit.Refusal, whose string) string {
	whose = ofWhom.Replace(whose)
	switch r.Refused {
	case limit.Budget:
		return fmt.Sprintf("the monthly budget of %s (%s)", whose, limit.Micros(r.Limit))
	case limit.Concurrency:
		return fmt.Sprintf("%d concurrent requests of %s", r.Limit, whose)
	}
	return fmt.Sprintf("%d %s per %s of %s", r.Limit, r.Refused, periods[r.Period], whose)
}

var periods = map[time.Duration]string{time.Second: "second", time.Minute: "minute"}

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
	rate := fmt.Sprintf("%d %s a %s", r.Limit, r.Refused, periods[r.Period])
	if r.Wait < 0 {
		return refused(
			"The request is too large for the limit of %s%s: %s, requested %d. Shorten the prompt or 'max_tokens'.",
			whose, model, rate, r.Terms)
	}
	return refused("Rate limit of %s reached%s: %s, %d left, requested %d. Try again in %v.", whose, model, rate,
		r.Left, r.Terms, r.Wait.Round(time.Millisecond))
}
