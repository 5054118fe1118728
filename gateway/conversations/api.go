package conversations

import (
	"errors"
	"time"

	"parley"
	"parley/gateway/convo"
	"parley/gateway/exchange"
	"parley/gateway/history"
	"parley/gateway/models"
	"parley/gateway/openai"
)

// An API answers the routes of conversations. Which caller may use them was decided
// before.
type API struct {
	// Store keeps the conversations; nil keeps none.
	Store  *convo.Store
	Models *models.Set
	Tiers  models.TierContexts
	Now    func() time.Time
}

// tier returns what the conversations of a caller may hold.
func (a *API) tier(x *exchange.Exchange) models.TierContext { return a.Tiers[x.Identity.Tier] }

// CheckStore returns an error if there is no store.
func (a *API) CheckStore() error {
	if a.Store == nil {
		return parley.Errorf(parley.Unavailable, "This server keeps no conversations: it was started without a store.")
	}
	return nil
}

// within is the store as a caller may write to it: within its quota.
func (a *API) within(x *exchange.Exchange) *convo.Store {
	return a.Store.Within(history.QuotaOf(&x.Identity))
}

// NotFound names the conversation that was not found.
func NotFound(x *exchange.Exchange, err error) error {
	if errors.Is(err, convo.ErrNotFound) {
		return openai.ThingNotFound("Conversation", x.Values["id"])
	}
	return err
}

// ItemNotFound names the item that was not found.
func ItemNotFound(x *exchange.Exchange, err error) error {
	if errors.Is(err, convo.ErrNotFound) {
		return openai.ThingNotFound("Item", x.Values["item"])
	}
	return err
}
