package conversations

import (
	"errors"
	"log/slog"
	"time"

	"parley"
	"parley/gateway/convo"
	"parley/gateway/exchange"
	"parley/gateway/history"
	"parley/gateway/models"
	"parley/gateway/openai"
	"parley/gateway/runs"
)

// An API answers the routes of conversations. Which caller may use them was decided
// before.
type API struct {
	// Store keeps the conversations; nil keeps none.
	Store  *convo.Store
	Models *models.Set
	Tiers  models.TierContexts
	// Runs are the answers that this process writes; nil without a store.
	Runs *runs.Runs
	// NoTitles leaves conversations without the title that the model writes for them
	// after their first turn.
	NoTitles bool
	// KeepAlive is how long a stream stays silent before a comment is sent.
	KeepAlive time.Duration
	Log       *slog.Logger
	Now       func() time.Time
}

// tier returns what the conversations of a caller may hold.
func (a *API) tier(x *exchange.Exchange) models.TierContext { return a.Tiers[x.Identity.Tier] }

// CheckStore returns an error if there is no store.
func (a *API) CheckStore() error {
	if a.Store == nil {
		return parley.Errorf(parley.Unavailable, "This server stores no conversations: it was started without a store.")
	}
	return nil
}

// within is the store as a caller may write to it: within its quota.
func (a *API) within(x *exchange.Exchange) *convo.Store {
	return a.Store.Within(history.QuotaOf(x.Identity))
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
