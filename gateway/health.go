package gateway

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"parley"
	"parley/gateway/admin"
	"parley/gateway/tenant"
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
	absent := g.absentWorkers(c)
	if unready != nil {
		if fault, ok := errors.AsType[*parley.Error](unready); ok && absent != "" {
			told := *fault
			told.Message += " " + absent
			return &told
		}
		return unready
	}
	if full := g.config.StoreFull; full != nil && full() {
		return c.Reply(http.StatusOK, health{Status: "degraded", Reason: "The disk of the store is full: " +
			"models answer, but conversations, files and usage are not stored. Free space on that disk."})
	}
	if absent != "" {
		return c.Reply(http.StatusOK, health{Status: "degraded", Reason: absent})
	}
	return c.Reply(http.StatusOK, health{Status: "ready"})
}

// absentWorkers describes the workers that are known and could not join: to operators by name and reason, to others
// by their number, because names are addresses of an inner network. It is empty if there are none.
func (g *Gateway) absentWorkers(c *call) string {
	if g.config.Fleet == nil {
		return ""
	}
	var absent []string
	for _, w := range g.config.Fleet.Workers() {
		if w.State == admin.Absent {
			absent = append(absent, w.Name+" ("+w.Trouble+")")
		}
	}
	switch {
	case len(absent) == 0:
		return ""
	case g.fromOperator(c):
		return "Workers that cannot join: " + strings.Join(absent, "; ") + "."
	}
	return fmt.Sprintf("Workers that cannot join: %d; parley fleet status names them.", len(absent))
}

// fromOperator reports whether a call of a public route comes from an operator: with the operate token or an admin
// key, or from this machine while there are no keys.
func (g *Gateway) fromOperator(c *call) bool {
	switch {
	case g.config.FleetAPI != nil && g.hasOperateToken(c):
		return true
	case g.keyless():
		return g.checkLocal(c.Request) == nil
	}
	secret, shown := tenant.Shown(c.Request.Header)
	if !shown {
		return false
	}
	who, err := g.config.Keys.Identify(c.Request.Context(), secret)
	return err == nil && who.Admin
}
