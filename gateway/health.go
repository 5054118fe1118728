package gateway

import (
	"net/http"

	"parley"
)

// A health is the answer of the probes.
type health struct {
	Status string `json:"status"`
	// Reason says what does not work while Status is "degraded".
	Reason string `json:"reason,omitempty"`
}

// healthz answers GET /healthz: the process is alive.
func (g *Gateway) healthz(c *call) error {
	return c.Reply(http.StatusOK, health{Status: "ok"})
}

// readyz answers GET /readyz: new requests can be answered. Not so while
// draining, or while no model has a worker that is up.
func (g *Gateway) readyz(c *call) error {
	if g.draining.Load() {
		return parley.Errorf(parley.Unavailable, "The server is shutting down.")
	}
	var unready error
	for _, m := range g.models.All() {
		err := m.Unready()
		if err == nil {
			unready = nil
			break
		}
		if unready == nil {
			unready = err
		}
	}
	if unready != nil {
		return unready
	}
	if full := g.config.StoreFull; full != nil && full() {
		return c.Reply(http.StatusOK, health{Status: "degraded", Reason: "The disk of the store is full: " +
			"models answer, but conversations, files and usage are not stored. Free space on that disk."})
	}
	return c.Reply(http.StatusOK, health{Status: "ready"})
}
