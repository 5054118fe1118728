package gateway

import (
	"context"
	"time"

	"parley"
	"parley/gateway/admin"
)

// life tells what became of a call that has ended.
func (c *call) life(status int, code parley.Code, elapsed time.Duration) *admin.Life {
	s := &c.story
	l := &admin.Life{
		ID:           c.id,
		ClientID:     c.clientRequestID(),
		Tenant:       c.identity.Organization,
		Tier:         c.identity.Tier.String(),
		Route:        c.route,
		Model:        s.model,
		Started:      c.started,
		Status:       status,
		Outcome:      admin.OutcomeOf(code),
		Finish:       string(s.finish),
		Stream:       c.stream != nil,
		Miss:         s.usage.Miss,
		Shared:       s.shared,
		PromptTokens: s.promptTokens,
		CachedTokens: s.usage.CachedTokens,
		OutputTokens: s.outputTokens,
		TTFTms:       millis(s.firstToken),
		TotalMs:      millis(elapsed),
	}
	if c.err != nil {
		l.Error = shortened(c.err.Error(), lifeErrorMax)
	}
	if s.outputTokens > 0 {
		route := routeOf(c)
		l.Worker, l.WorkerReason = route.Worker, route.Reason
	}
	l.Course = c.course(elapsed)
	return l
}

// lifeErrorMax bounds what is kept of an error: thousands of them may be.
const lifeErrorMax = 400

func shortened(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return text[:most] + "…"
}

// course is what the stages of a call are told from.
func (c *call) course(elapsed time.Duration) *admin.Course {
	s := &c.story
	course := &admin.Course{
		Came:    c.started,
		Elapsed: elapsed,
		Handed:  s.handed,
		Waited:  c.place.Status().Waited,
		First:   s.firstToken,
		Shared:  s.shared,
		Usage:   s.usage,
		Reason:  routeOf(c).Reason,
	}
	course.Legs, course.More = c.journey.Legs()
	return course
}

// travels returns a context in which the workers that are asked are noted.
func (c *call) travels(ctx context.Context) context.Context {
	if c.journey == nil {
		c.journey = &parley.Journey{Traced: c.gateway.config.Traces != nil && c.traced.here.Sampled}
	}
	return parley.WithJourney(ctx, c.journey)
}

func millis(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
