package gateway

import (
	"net/http"

	"parley"
	"parley/gateway/hijack"
)

// detachFromHandler lets a call continue after its handler, if its connection allows
// that: its context does not end with the handler's. It must come before anything is
// started that the context could end.
func (c *call) detachFromHandler() {
	if c.Frame != nil || c.ResponseWriter == nil {
		return
	}
	if c.detached, c.Request = hijack.Detach(c.Request); c.detached != nil {
		c.job.Revocable(c.Request.Context(), c.detached.Cancel)
	}
}

// runDetached does the rest of a call: after its handler if it was detached or came
// over a WebSocket, and else here.
func (c *call) runDetached(rest func() error) error {
	if c.detached == nil && c.Frame == nil {
		return rest()
	}
	c.rest = rest
	return nil
}

// continueDetached does what a handler has left to do. It reports whether that happens
// on a goroutine of its own, which then finishes the call.
func (g *Gateway) continueDetached(c *call) (leaves bool) {
	if c.converse != nil {
		go c.converse()
		return true
	}
	if c.detached == nil || c.rest == nil {
		return false
	}
	rest := func(*call) error { return c.rest() }
	w := c.detached.Hijack(g.sockets.connections, c.Response)
	if w == nil {
		g.attempt(c, rest)
		return false
	}
	c.ResponseWriter = w
	c.Request.Body = http.NoBody // it refers to the server's buffers
	go c.detached.Serve(g.sockets.connections, g.config.WriteWaitMax, func() bool {
		g.attempt(c, rest)
		return c.Stream == nil || !c.Stream.Broken
	}, func() { g.finishDetached(c) })
	return true
}

// finishDetached finishes a call that nothing waits for: a panic is logged.
func (g *Gateway) finishDetached(c *call) {
	defer func() {
		if p := recover(); p != nil {
			g.config.Log.Error("stream cleanup failed", "id", c.Record.ID, "error", parley.PanicError(p))
		}
	}()
	g.finish(c)
}
