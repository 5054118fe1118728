package record

import (
	"time"

	"parley"
	"parley/gateway/admin"
)

// shown returns what became of a request, as the operator's page shows it.
func (q *Request) shown(end *End, code parley.Code, elapsed time.Duration) *admin.RequestRecord {
	a := &q.answer
	l := &admin.RequestRecord{
		ID:           q.ID,
		ClientID:     q.ClientID,
		Tenant:       q.Who.Organization,
		Key:          q.Who.Key,
		Limit:        a.limit,
		Tier:         q.Who.Tier.String(),
		Route:        q.Route,
		Model:        q.model,
		Started:      q.Started,
		Status:       end.Status,
		Outcome:      admin.OutcomeOf(code),
		Finish:       string(a.finish),
		Stream:       end.Stream,
		Miss:         a.usage.Miss,
		Shared:       a.shared.Load(),
		PromptTokens: a.promptTokens,
		CachedTokens: q.CachedTokens(),
		OutputTokens: a.outputTokens,
		TTFTms:       millis(a.firstToken),
		TotalMs:      millis(elapsed),
	}
	l.Fallbacks = q.answer.fallbacks
	if q.err != nil {
		l.Error = shortened(q.err.Error(), errorBytesMax)
	}
	if a.firstToken > 0 {
		route := q.Routing()
		l.Worker, l.WorkerReason = route.Worker, route.Reason
	}
	l.Timeline = q.timeline(elapsed)
	return l
}

// errorBytesMax bounds what is kept of an error: thousands of them may be.
const errorBytesMax = 400

func shortened(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return text[:most] + "…"
}

// timeline is what the stages of a request are derived from.
func (q *Request) timeline(elapsed time.Duration) *admin.Timeline {
	a := &q.answer
	timeline := &admin.Timeline{
		Came:    q.Started,
		Elapsed: elapsed,
		Handed:  a.handed,
		Waited:  q.waiter.Status().Waited,
		First:   a.firstToken,
		Shared:  a.shared.Load(),
		Usage:   a.usage,
		Reason:  q.Routing().Reason,
	}
	timeline.Fallbacks = q.answer.fallbacks
	timeline.Attempts, timeline.More = q.attempts.Attempts()
	return timeline
}
