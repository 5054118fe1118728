package gateway

import (
	"strconv"
	"strings"

	"parley"
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
	// detached is set if the call can continue after its handler, and rest is what is
	// left to do then. converse, if it is not nil, continues and finishes a call that has
	// opened a WebSocket.
	detached *hijack.DetachedStream
	rest     func() error
	converse func()
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

// attempt runs an endpoint and reports its failure to the client.
func (g *Gateway) attempt(c *call, run endpoint) {
	if err := c.guarded(run); err != nil {
		c.Fail(err)
	}
}

// guarded runs an endpoint. A panic in it becomes an error like any other.
func (c *call) guarded(run endpoint) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = parley.PanicError(p)
		}
	}()
	return run(c)
}

// finish lets go of what a call holds, and completes its record.
func (g *Gateway) finish(c *call) {
	c.Bytes.Release()
	c.job.Finish(c.Request.Context(), c.End())
}
