package gateway

import (
	"time"

	"parley"
	"parley/gateway/admin"
)

// life tells what became of a call that has ended.
func (c *call) life(status int, code parley.Code, elapsed time.Duration) *admin.Life {
	s := &c.story
	l := &admin.Life{
		ID: c.id, ClientID: c.clientRequestID(), Tenant: c.identity.Organization, Tier: c.identity.Tier.String(), Route: c.route, Model: s.model,
		Started: c.started, Status: status, Outcome: admin.OutcomeOf(code), Finish: string(s.finish), Stream: c.stream != nil,
		Miss: s.usage.Miss, Shared: s.shared, PromptTokens: s.promptTokens, CachedTokens: s.usage.CachedTokens, OutputTokens: s.outputTokens,
		TTFTms: millis(s.firstToken), TotalMs: millis(elapsed),
	}
	if c.err != nil {
		l.Error = shortened(c.err.Error(), lifeErrorMax)
	}
	if s.outputTokens > 0 {
		route := routeOf(c)
		l.Worker, l.WorkerReason = route.Worker, route.Reason
	}
	l.Stages = c.stages(elapsed)
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

// stages tells where the time of a call went. What the engine measured is put
// where it must have been; the rest is ours.
func (c *call) stages(elapsed time.Duration) []admin.Stage {
	s := &c.story
	at := time.Duration(0)
	stages := []admin.Stage{}
	add := func(where, name, note string, took time.Duration) {
		took = min(took, elapsed-at)
		if took > 0 {
			stages = append(stages, admin.Stage{Where: where, Name: name, StartMs: millis(at), Ms: millis(took), Note: note})
			at += took
		}
	}
	if s.handed == 0 {
		add("gateway", "read", "", elapsed)
		return stages
	}
	add("gateway", "read and render", "", s.handed)
	add("queue", "wait for a turn", "", c.place.stands().waited)
	if s.shared {
		add("gateway", "follow another's answer", "computed for an equal request", elapsed)
		return stages
	}
	if u := &s.usage; u.Queued+u.Prefill+u.Decode > 0 {
		before := s.firstToken - at - u.Queued - u.Prefill
		add("router", "choose a worker and send", routeOf(c).Reason, max(before, 0))
		add("engine", "wait for memory", "", u.Queued)
		add("engine", "prefill", missNote(u), u.Prefill)
		add("engine", "decode", "", u.Decode)
		add("gateway", "write", "", elapsed)
		return stages
	}
	add("worker", "until it ended", "no measures came: it did not end well", elapsed)
	return stages
}

// missNote says why a prompt had to be computed.
func missNote(u *parley.Usage) string {
	if u.Miss == "" || u.Miss == "none" {
		return ""
	}
	return "not cached: " + u.Miss
}

func millis(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
