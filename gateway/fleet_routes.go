package gateway

import (
	"net/http"

	"parley"
	"parley/gateway/exchange"
)

// scalePath is where autoscalers report.
const scalePath = "/fleet/scale"

// fleetRoutes are those of the fleet's own interface; docs/fleet.md describes it.
func (g *Gateway) fleetRoutes() (rows []routeRow) {
	api := g.config.FleetAPI
	if api == nil {
		return nil
	}
	run := jsonOnly(api.Operate)
	rows = []routeRow{
		{"GET", "/fleet/workers", fleetOperator, false, run},
		{"GET", "/fleet/findings", fleetOperator, false, on(g.operators.ListFindings)},
		{"GET", "/fleet/metrics", fleetOperator, false, on(g.operators.ShowMetrics)},
		{"GET", scalePath, fleetOperator, false, on(g.operators.ListScaling)},
		{"POST", scalePath, fleetOperator, false, on(g.operators.TakeScaling)},
	}
	for _, verb := range []string{"drain", "resume", "sleep", "wake"} {
		rows = append(rows, routeRow{"POST", "/fleet/workers/{name}/" + verb, fleetOperator, false, run})
	}
	if api.Register != nil {
		register := jsonOnly(api.Register)
		rows = append(rows,
			routeRow{"POST", "/fleet/register", fleetJoin, false, register},
			routeRow{"DELETE", "/fleet/register", fleetJoin, false, register})
	}
	return rows
}

// jsonOnly lets a handler answer. What is posted must be declared as JSON: a browser
// sends that, as it sends DELETE, for a page of another origin only after a preflight
// request.
func jsonOnly(h http.Handler) endpoint {
	return func(c *call) error {
		if c.Request.Method == http.MethodPost && !exchange.IsJSON(c.Request.Header.Get("Content-Type")) {
			return parley.Invalid("", "Send the header 'Content-Type: application/json', also with an empty body.")
		}
		h.ServeHTTP(c.Response, c.Request)
		return nil
	}
}
