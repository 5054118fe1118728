package record

import (
	"time"

	"parley"
	"parley/gateway/admin"
)

// life returns what became of a request, as the operator's page shows it.
func (q *Request) life(end *End, code parley.Code, elapsed time.Duration) *admin.Life {
	a := &q.answer
	l := &admin.Life{
		ID:           q.ID,
		ClientID:     q.ClientID,
		Tenant:       q.Who.Organization,
		Tier:         q.Who.Tier.String(),
		Route:        q.Route,
		Model:        q.model,
		Started:      q.Started,
		Status:       end.Status,
		Outcome:      admin.OutcomeOf(code),
		Finish:       string(a.finish),
		Stream:       end.Stream,
		Miss:         a.usage.Miss,
		Shared:       a.shared,
		PromptTokens: a.promptTokens,
		CachedTokens: a.usage.CachedTokens,
		OutputTokens: a.outputTokens,
		TTFTms:       millis(a.firstToken),
		TotalMs:      millis(elapsed),
	}
	if q.err != nil {
		l.Error = shortened(q.err.Error(), lifeErrorMax)
	}
	if a.outputTokens > 0 {
		route := q.Routing()
		l.Worker, l.WorkerReason = route.Worker, route.Reason
	}
	l.Course = q.course(elapsed)
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

// course is what the stages of a request are derived from.
func (q *Request) course(elapsed time.Duration) *admin.Course {
	a := &q.answer
	course := &admin.Course{
		Came:    q.Started,
		Elapsed: elapsed,
		Handed:  a.handed,
		Waited:  q.waiter.Status().Waited,
		First:   a.firstToken,
		Shared:  a.shared,
		Usage:   a.usage,
		Reason:  q.Routing().Reason,
	}
	course.Legs, course.More = q.journey.Legs()
	return course
}
