package gateway

import (
	"net/http"
	"strconv"
	"time"

	"parley"
	"parley/gateway/openai"
)

// tellWait puts what is known of the waiting into the headers.
func (c *call) tellWait() {
	if c.record.Waiter() == nil {
		return
	}
	s, h := c.record.Waiter().Status(), c.Header()
	if c.record.Shared() {
		h.Set("X-Answer-Shared", "true")
	}
	h.Set("X-Queue-Wait", seconds(s.Waited))
	if s.Waiting {
		h.Set("X-Queue-Position", strconv.Itoa(s.Position))
		h.Set("X-Queue-Estimated-Wait", seconds(s.Left))
	}
}

func seconds(d time.Duration) string { return strconv.FormatFloat(d.Seconds(), 'f', 3, 64) }

// showQueue answers GET /v1/queue: how long one would wait now, for each model that the
// caller may use. Who waits in other tiers than its own is for admins alone.
func (g *Gateway) showQueue(c *call) error {
	list := openai.QueueList{Object: "list", Data: []openai.Queue{}}
	for _, m := range g.served() {
		if !c.identity.MayUse(m.ID) {
			continue
		}
		shown := g.pipeline.QueuesOf(m.pipeline, c.identity.Tier, c.identity.Organization, c.identity.Admin)
		list.Data = append(list.Data, shown...)
	}
	return c.reply(http.StatusOK, list)
}

// showPlace answers GET /v1/queue/{id}: where a request of the caller stands, by
// its request id or by the name its client gave it.
func (g *Gateway) showPlace(c *call) error {
	p := g.pipeline.Find(c.identity.Organization, c.values["id"])
	if p == nil {
		return parley.Errorf(parley.NotFound, "No request of yours with the id '%s' is being answered.", c.values["id"])
	}
	return c.reply(http.StatusOK, p.Shown())
}
