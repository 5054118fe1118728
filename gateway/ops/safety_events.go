package ops

import (
	"net/http"
	"strconv"

	"parley"
	"parley/gateway/exchange"
)

// eventsMost bounds one listing of events.
const eventsMost = 1000

// SafetyEvents answers GET /admin/api/safety/events: what was found lately,
// newest first. ?after= leaves out what is already known, ?limit= bounds the list.
func (a *API) SafetyEvents(x *exchange.Exchange) error {
	query := x.Request.URL.Query()
	after, limit := int64(0), int64(100)
	for name, into := range map[string]*int64{"after": &after, "limit": &limit} {
		if s := query.Get(name); s != "" {
			n, err := strconv.ParseInt(s, 10, 64)
			if err != nil || n < 0 || name == "limit" && n > eventsMost {
				return parley.Invalid(name, "Invalid '%s': it must be a whole number from 0 to %d.", name, eventsMost)
			}
			*into = n
		}
	}
	return x.Reply(http.StatusOK, map[string]any{"object": "list", "data": a.Safety.Recent(after, int(limit))})
}
