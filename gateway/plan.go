package gateway

import (
	"net/http"
	"sync"

	"parley/sim/plan"
)

// planPage is what the page of plans computes from. It is the same for every
// server, and made when it is first asked for.
var planPage = sync.OnceValues(func() (*plan.Page, error) { return plan.New().Page(nil) })

// showPlan answers GET /admin/api/plan.
func (g *Gateway) showPlan(c *call) error {
	page, err := planPage()
	if err != nil {
		return err
	}
	return c.reply(http.StatusOK, page)
}
