package gateway

import (
	"errors"
	"net/http"
	"net/http/pprof"
	"strconv"
	"time"

	"parley"
	"parley/gateway/admin"
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

// showParts answers GET /admin/api/about.
func (g *Gateway) showParts(c *call) error {
	return c.reply(http.StatusOK, parts{
		Fleet:    g.config.Fleet != nil,
		Keys:     g.config.Keys != nil,
		Usage:    g.config.Ledger != nil,
		Audit:    g.config.Audit != nil,
		Models:   g.config.ModelAPI != nil,
		Currency: g.config.Currency,
	})
}

// showNow answers GET /admin/api/now.
func (g *Gateway) showNow(c *call) error {
	p, err := g.records.Picture()
	if err != nil {
		return err
	}
	return c.reply(http.StatusOK, p)
}

// showMetrics answers GET /metrics.
func (g *Gateway) showMetrics(c *call) error {
	promhttp.HandlerFor(g.config.Registry, promhttp.HandlerOpts{}).ServeHTTP(c.response, c.request)
	return nil
}

// A historyList is what happened in the last hour, oldest first.
type historyList struct {
	Object      string        `json:"object"`
	StepSeconds float64       `json:"step_seconds"`
	TTFTBounds  []float64     `json:"ttft_bounds"`
	Data        []admin.Point `json:"data"`
}

// showHistory answers GET /admin/api/history?step=SECONDS.
func (g *Gateway) showHistory(c *call) error {
	step := 15 * time.Second
	if text := c.request.URL.Query().Get("step"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 5 || n > 600 {
			return parley.Invalid("step", "Invalid 'step': it must be a number of seconds, 5 to 600.")
		}
		step = time.Duration(n) * time.Second
	}
	points, bounds, err := g.records.Points(step)
	if err != nil {
		return err
	}
	return c.reply(http.StatusOK, historyList{"list", step.Seconds(), bounds, points})
}

// liveEvery is the time between two pictures of GET /admin/api/live.
const liveEvery = time.Second

// followNow answers GET /admin/api/live: a picture each second, as events. It
// ends when the server shuts down, so that nobody who watches holds that up.
func (g *Gateway) followNow(c *call) error {
	c.Header().Set("Content-Type", "text/event-stream")
	c.Header().Set("X-Accel-Buffering", "no")
	control := http.NewResponseController(c.response)
	tick := time.NewTicker(liveEvery)
	defer tick.Stop()
	for !g.draining.Load() {
		p, err := g.records.Picture()
		if err != nil {
			return err
		}
		body, err := openai.Encode(p)
		if err != nil {
			return err
		}
		_ = control.SetWriteDeadline(time.Now().Add(g.config.WriteWaitMax)) // not every connection has one
		if _, err := c.Write(append(append([]byte("data: "), body...), "\n\n"...)); err != nil {
			return hijack.ClientGone(err)
		}
		if err := control.Flush(); err != nil && !errors.Is(err, http.ErrNotSupported) {
			return hijack.ClientGone(err)
		}
		select {
		case <-c.request.Context().Done():
			return nil
		case <-tick.C:
		}
	}
	return nil
}

// A requestList is the latest requests, newest first.
type requestList struct {
	Object string        `json:"object"`
	Data   []*admin.Life `json:"data"`
}

// listRequests answers GET /admin/api/requests.
func (g *Gateway) listRequests(c *call) error {
	query, limit := c.request.URL.Query(), 100
	if text := query.Get("limit"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > admin.RecentMax {
			return parley.Invalid("limit", "Invalid 'limit': it must be a number, 1 to %d.", admin.RecentMax)
		}
		limit = n
	}
	lives := g.records.Recent(admin.Filter{Model: query.Get("model"), Outcome: query.Get("outcome"),
		Tenant: query.Get("tenant")}, limit)
	return c.reply(http.StatusOK, requestList{"list", lives})
}

// showRequest answers GET /admin/api/requests/{id}: what became of a request, by
// its id or by the name that its client gave it.
func (g *Gateway) showRequest(c *call) error {
	life := g.records.Find(c.values["id"])
	if life == nil {
		return parley.Errorf(parley.NotFound, "No request with the id '%s' is among the latest %d that have ended.",
			c.values["id"], admin.RecentMax)
	}
	return c.reply(http.StatusOK, life)
}

// profile answers GET /debug/pprof/: where the process spends time and memory.
func profile(c *call) error {
	switch name := c.values["name"]; name {
	case "":
		pprof.Index(c.response, c.request)
	case "cmdline": // flags may hold secrets
		return parley.Errorf(parley.NotFound, "This server does not show its command line.")
	case "profile":
		pprof.Profile(c.response, c.request)
	case "symbol":
		pprof.Symbol(c.response, c.request)
	case "trace":
		pprof.Trace(c.response, c.request)
	default:
		pprof.Handler(name).ServeHTTP(c.response, c.request)
	}
	return nil
}
