package ops

import (
	"net/http"
	"sync"

	"parley/gateway/exchange"
	"parley/sim/plan"
)

// planPage is what the page of plans computes from. It is the same for every
// server, and made when it is first asked for.
var planPage = sync.OnceValues(func() (*plan.Page, error) { return plan.New().Page(nil) })

// ShowPlan answers GET /admin/api/plan.
func (a *API) ShowPlan(x *exchange.Exchange) error {
	page, err := planPage()
	if err != nil {
		return err
	}
	return x.Reply(http.StatusOK, page)
}
