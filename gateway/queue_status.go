package gateway

import (
	"net/http"

	"parley"
	"parley/gateway/infer"
)

// showQueue answers GET /v1/queue: how long one would wait now, for each model that the
// caller may use. Admins alone see the other tiers.
func (g *Gateway) showQueue(c *call) error {
	list := infer.QueueList{Object: "list", Data: []infer.Queue{}}
	for _, m := range g.models.All() {
		if !c.Identity.MayUse(m.ID) {
			continue
		}
		shown := g.pipeline.QueuesOf(m.Pipeline, c.Identity.Tier, c.Identity.Organization, c.Identity.Admin)
		list.Data = append(list.Data, shown...)
	}
	return c.Reply(http.StatusOK, list)
}

// showPlace answers GET /v1/queue/{id}: where a request of the caller stands, by
// its request id or by the name its client gave it.
func (g *Gateway) showPlace(c *call) error {
	p := g.pipeline.Find(c.Identity.Organization, c.Values["id"])
	if p == nil {
		return parley.Errorf(parley.NotFound, "No request of yours with the id '%s' is being answered.", c.Values["id"])
	}
	return c.Reply(http.StatusOK, p.Shown())
}
