package ops

import (
	"errors"
	"net/http"
	"net/http/pprof"
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

// A HistoryList is what happened in some time until now, oldest first. From and Until
// bound that time; steps in which no server ran have no point.
type HistoryList struct {
	Object      string        `json:"object"`
	From        int64         `json:"from"`
	Until       int64         `json:"until"`
	StepSeconds float64       `json:"step_seconds"`
	TTFTBounds  []float64     `json:"ttft_bounds"`
	Data        []admin.Point `json:"data"`
}

// ranges are how far charts look back.
var ranges = map[string]time.Duration{
	"":    time.Hour,
	"15m": 15 * time.Minute,
	"1h":  time.Hour,
	"6h":  6 * time.Hour,
	"24h": 24 * time.Hour,
	"7d":  7 * 24 * time.Hour,
	"30d": 30 * 24 * time.Hour,
}

// ShowHistory answers GET /admin/api/history?range=RANGE.
func (a *API) ShowHistory(x *exchange.Exchange) error {
	length, known := ranges[x.Request.URL.Query().Get("range")]
	if !known {
		return parley.Invalid("range", "Invalid 'range': it must be 15m, 1h, 6h, 24h, 7d or 30d.")
	}
	p, err := a.Records.Past(x.Request.Context(), length)
	if err != nil {
		return err
	}
	return x.Reply(http.StatusOK, HistoryList{
		Object:      "list",
		From:        p.From.Unix(),
		Until:       p.Until.Unix(),
		StepSeconds: p.Step.Seconds(),
		TTFTBounds:  p.Bounds,
		Data:        p.Points,
	})
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
