package ops

import (
	"errors"
	"net/http"
	"net/http/pprof"
	"strconv"
	"time"

	"parley"
	"parley/gateway/admin"
	"parley/gateway/exchange"
	"parley/gateway/hijack"
	"parley/gateway/openai"

	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// parts are what the operator's page can show of this server.
type parts struct {
	Fleet bool `json:"fleet"`
	Keys  bool `json:"keys"`
	Usage bool `json:"usage"`
	Audit bool `json:"audit"`
	// Models is whether the server has a model folder.
	Models bool `json:"models"`
	// Currency is what prices, costs and budgets are in.
	Currency string `json:"currency"`
}

// ShowParts answers GET /admin/api/about.
func (a *API) ShowParts(x *exchange.Exchange) error {
	return x.Reply(http.StatusOK, parts{
		Fleet:    a.Fleet != nil,
		Keys:     a.Keys != nil,
		Usage:    a.Ledger != nil,
		Audit:    a.Audit != nil,
		Models:   a.Models,
		Currency: a.Currency,
	})
}

// ShowNow answers GET /admin/api/now.
func (a *API) ShowNow(x *exchange.Exchange) error {
	p, err := a.Records.Picture()
	if err != nil {
		return err
	}
	return x.Reply(http.StatusOK, p)
}

// ShowMetrics answers GET /metrics.
func (a *API) ShowMetrics(x *exchange.Exchange) error {
	promhttp.HandlerFor(a.Registry, promhttp.HandlerOpts{}).ServeHTTP(x.Response, x.Request)
	return nil
}

// A HistoryList is what happened in the last hour, oldest first.
type HistoryList struct {
	Object      string        `json:"object"`
	StepSeconds float64       `json:"step_seconds"`
	TTFTBounds  []float64     `json:"ttft_bounds"`
	Data        []admin.Point `json:"data"`
}

// ShowHistory answers GET /admin/api/history?step=SECONDS.
func (a *API) ShowHistory(x *exchange.Exchange) error {
	step := 15 * time.Second
	if text := x.Request.URL.Query().Get("step"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 5 || n > 600 {
			return parley.Invalid("step", "Invalid 'step': it must be a number of seconds, 5 to 600.")
		}
		step = time.Duration(n) * time.Second
	}
	points, bounds, err := a.Records.Points(step)
	if err != nil {
		return err
	}
	return x.Reply(http.StatusOK, HistoryList{"list", step.Seconds(), bounds, points})
}

// liveEvery is the time between two pictures of GET /admin/api/live.
const liveEvery = time.Second

// FollowNow answers GET /admin/api/live: a picture each second, as events. It
// ends when the server shuts down, so that a client that watches does not delay that.
func (a *API) FollowNow(x *exchange.Exchange) error {
	x.Header().Set("Content-Type", "text/event-stream")
	x.Header().Set("X-Accel-Buffering", "no")
	control := http.NewResponseController(x.Response)
	tick := time.NewTicker(liveEvery)
	defer tick.Stop()
	for !a.Draining() {
		p, err := a.Records.Picture()
		if err != nil {
			return err
		}
		body, err := openai.Encode(p)
		if err != nil {
			return err
		}
		_ = control.SetWriteDeadline(time.Now().Add(a.WriteWaitMax)) // not every connection has one
		if _, err := x.Write(append(append([]byte("data: "), body...), "\n\n"...)); err != nil {
			return hijack.ClientGone(err)
		}
		if err := control.Flush(); err != nil && !errors.Is(err, http.ErrNotSupported) {
			return hijack.ClientGone(err)
		}
		select {
		case <-x.Request.Context().Done():
			return nil
		case <-tick.C:
		}
	}
	return nil
}

// A RequestList is the latest requests, newest first.
type RequestList struct {
	Object string                 `json:"object"`
	Data   []*admin.RequestRecord `json:"data"`
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
	records := a.Records.Recent(admin.Filter{Model: query.Get("model"), Outcome: query.Get("outcome"),
		Tenant: query.Get("tenant")}, limit)
	return x.Reply(http.StatusOK, RequestList{"list", records})
}

// ShowRequest answers GET /admin/api/requests/{id}: what became of a request, by
// its id or by the name that its client gave it.
func (a *API) ShowRequest(x *exchange.Exchange) error {
	found := a.Records.Find(x.Values["id"])
	if found == nil {
		return parley.Errorf(parley.NotFound, "No request with the id '%s' is among the latest %d that have ended.",
			x.Values["id"], admin.RecentMax)
	}
	return x.Reply(http.StatusOK, found)
}

// Profile answers GET /debug/pprof/: where the process spends time and memory.
func Profile(x *exchange.Exchange) error {
	switch name := x.Values["name"]; name {
	case "":
		pprof.Index(x.Response, x.Request)
	case "cmdline": // flags may hold secrets
		return parley.Errorf(parley.NotFound, "This server does not show its command line.")
	case "profile":
		pprof.Profile(x.Response, x.Request)
	case "symbol":
		pprof.Symbol(x.Response, x.Request)
	case "trace":
		pprof.Trace(x.Response, x.Request)
	default:
		pprof.Handler(name).ServeHTTP(x.Response, x.Request)
	}
	return nil
}
