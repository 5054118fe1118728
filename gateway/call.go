package gateway

import (
	"context"
	"strconv"
	"strings"

	"parley/gateway/batch"
	"parley/gateway/exchange"
	"parley/gateway/hijack"
	"parley/gateway/job"
)

// A call is one request on its way through the gateway: the HTTP exchange, and the
// inference that it asks for, if any.
type call struct {
	*exchange.Exchange
	job     *job.Job
	gateway *Gateway
	// access is the access class of the route.
	access access
	// author is in whose name a call is made that did not come over the network.
	author *batch.Author
	// socket is where the answer goes if the request came by a WebSocket.
	socket *socket
	// detached is set if the call can continue after its handler, and rest is what is
	// left to do then.
	detached *hijack.DetachedStream
	rest     func() error
}

// hooks are what the call's job says to its client.
func (c *call) hooks() job.Hooks {
	return job.Hooks{Limits: c.TellLimits, Dropped: c.tellDropped}
}

// droppedHeader says how many messages the model was not shown.
const droppedHeader = "X-Parley-Dropped-Messages"

func (c *call) tellDropped(messages int) {
	if c.ResponseWriter != nil {
		c.Header().Set(droppedHeader, strconv.Itoa(messages))
	}
}

// honourCacheControl keeps the answer out of the cache as the client's headers say.
func (c *call) honourCacheControl() {
	var private, fresh bool
	for _, directive := range c.Request.Header.Values("Cache-Control") {
		private = private || strings.Contains(directive, "no-store")
		fresh = fresh || strings.Contains(directive, "no-cache")
	}
	c.job.Uncached(private, fresh)
}

// detach returns a call that continues when c has ended, under the same names and in
// its slot, until the function is called that comes with it.
func (g *Gateway) detach(c *call) (*call, context.CancelCauseFunc) {
	ctx, cancel := g.runs.Detached(c.Request.Context())
	next, end := c.job.Continue(ctx, cancel)
	return &call{Exchange: c.Alone(ctx, next.Record), job: next, gateway: g, access: c.access}, end
}
