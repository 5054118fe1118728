package responses

import (
	"log/slog"
	"time"

	"parley/gateway/convo"
	"parley/gateway/runs"
)

// Handlers answer the routes of responses. Which caller may use them was decided before.
type Handlers struct {
	// Store keeps responses; nil keeps none: they are answered and forgotten.
	Store *convo.Store
	// Runs are the responses that this process computes; nil without a store.
	Runs *runs.Runs
	// KeepAlive is how long a stream stays silent before a comment is sent.
	KeepAlive time.Duration
	Log       *slog.Logger
	Now       func() time.Time
}
