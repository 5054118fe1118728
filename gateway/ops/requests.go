package ops

import (
	"net/http"
	"net/url"
	"strconv"
	"time"

	"parley"
	"parley/gateway/admin"
	"parley/gateway/exchange"
)

// A RequestList is a page of the latest requests, in the order in which they started, the
// latest first.
type RequestList struct {
	Object  string                 `json:"object"`
	Data    []*admin.RequestRecord `json:"data"`
	FirstID string                 `json:"first_id,omitempty"`
	LastID  string                 `json:"last_id,omitempty"`
	HasMore bool                   `json:"has_more"`
	// Total counts the requests that were selected, and Before those on earlier pages.
	Total  int `json:"total"`
	Before int `json:"before"`
	// Oldest is when the oldest request that is kept has started; nothing earlier can be
	// shown.
	Oldest *time.Time `json:"oldest"`
	// Values are what can be selected.
	Values admin.Values `json:"values"`
}

// ListRequests answers GET /admin/api/requests.
func (a *API) ListRequests(x *exchange.Exchange) error {
	query, limit := x.Request.URL.Query(), 100
	if text := query.Get("limit"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > admin.RecentMax {
			return parley.Invalid("limit", "Invalid 'limit': it must be a number, 1 to %d.", admin.RecentMax)
		}
		limit = n
	}
	f, err := filterOf(query)
	if err != nil {
		return err
	}
	p := a.Records.Requests(f, query.Get("after"), limit)
	list := RequestList{
		Object:  "list",
		Data:    p.Requests,
		HasMore: p.Before+len(p.Requests) < p.Total,
		Total:   p.Total,
		Before:  p.Before,
		Values:  p.Values,
	}
	if !p.Oldest.IsZero() {
		list.Oldest = &p.Oldest
	}
	if n := len(p.Requests); n > 0 {
		list.FirstID, list.LastID = p.Requests[0].ID, p.Requests[n-1].ID
	}
	return x.Reply(http.StatusOK, list)
}

// filterOf reads which requests are wanted.
func filterOf(query url.Values) (*admin.Filter, error) {
	f := &admin.Filter{
		Model:   query.Get("model"),
		Outcome: query.Get("outcome"),
		Tenant:  query.Get("tenant"),
		Key:     query.Get("key"),
	}
	status, err := numberOf(query, "status", 999)
	if err != nil {
		return nil, err
	}
	f.Status = int(status)
	slower, err := numberOf(query, "slower_than", 1e6)
	if err != nil {
		return nil, err
	}
	f.SlowerThan = time.Duration(slower * float64(time.Second))
	for name, into := range map[string]*time.Time{"from": &f.From, "until": &f.Until} {
		seconds, err := numberOf(query, name, 1e11)
		if err != nil {
			return nil, err
		}
		if seconds > 0 {
			*into = time.UnixMilli(int64(seconds * 1000))
		}
	}
	return f, nil
}

// numberOf reads a number of a query, 0 if it is not there.
func numberOf(query url.Values, name string, most float64) (float64, error) {
	text := query.Get(name)
	if text == "" {
		return 0, nil
	}
	n, err := strconv.ParseFloat(text, 64)
	if err != nil || !(n >= 0 && n <= most) {
		return 0, parley.Invalid(name, "Invalid '%s': it must be a number, 0 to %.0f.", name, most)
	}
	return n, nil
}
