package gateway

import (
	"parley"
	"parley/gateway/openai"
)

// timings tells where the time of the turn's answer went and who computed it.
func (t *turn) timings() *openai.Timings {
	told := openai.TimingsOf(t.spent())
	told.Route = t.call.Record.Routing()
	return told
}

// spent is what the turn's answer has cost, once it has ended: as the worker
// said, or where it was stopped before the worker could, as seen from here.
func (t *turn) spent() parley.Usage {
	u, seen := t.answer.Usage, t.told.standing()
	if u.PromptTokens > 0 || seen.promptTokens == 0 {
		return u
	}
	u.PromptTokens, u.OutputTokens = seen.promptTokens, seen.said.OutputTokens
	if seen.progress != nil {
		u.CachedTokens = seen.progress.CachedTokens
	}
	t.call.Record.Measured(&u)
	return u
}

// notes are what is kept with the answer beside what it says.
func (t *turn) notes() []any {
	if t.answer == nil {
		return nil
	}
	return []any{openai.TimingsNote{Type: openai.TimingsPart, Timings: *t.timings()}}
}
