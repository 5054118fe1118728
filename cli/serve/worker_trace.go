package serve

import (
	"crypto/rand"
	"time"

	"parley/gateway/otlp"
	"parley/worker/wire"
)

// answerSpans are what a worker adds to the trace of a request: a span for the
// answer, and in it one for each of its stages and the engine's. The gateway that
// asked has the span above them.
func answerSpans(a *wire.Answer) []otlp.Span {
	whole := otlp.Span{
		Trace:  a.Trace.ID,
		Parent: a.Trace.Span,
		Name:   "worker: answer",
		Server: true,
		Start:  a.Came,
		End:    a.Ended,
		Attributes: map[string]any{
			"gen_ai.operation.name": "generate_content", "gen_ai.provider.name": "parley",
			"gen_ai.request.model": a.Model, "gen_ai.response.id": a.Request,
			"gen_ai.usage.output_tokens": a.OutputTokens, "parley.stage": "worker",
		},
	}
	rand.Read(whole.ID[:]) // never fails
	if a.Err != nil {
		whole.Error = a.Err.Error()
	}
	u := a.Usage
	if u != nil {
		whole.Attributes["gen_ai.usage.input_tokens"] = u.PromptTokens
		whole.Attributes["gen_ai.usage.cache_read.input_tokens"] = u.CachedTokens
	}
	spans := []otlp.Span{whole}
	at := a.Came
	for _, stage := range answerStages(a) {
		s := otlp.Span{
			Trace:      a.Trace.ID,
			Parent:     whole.ID,
			Name:       stage.where + ": " + stage.name,
			Start:      at,
			End:        at.Add(stage.took),
			Attributes: map[string]any{"parley.stage": stage.where},
		}
		if stage.name == "prefill" && u.Miss != "" {
			s.Attributes["parley.cache_miss"] = u.Miss
		}
		rand.Read(s.ID[:])
		spans, at = append(spans, s), s.End
	}
	return spans
}

// An answerStage is a part of the time that a worker had a request.
type answerStage struct {
	where, name string
	took        time.Duration
}

// answerStages are those that were come to, by the names that the operator's page
// has for them.
func answerStages(a *wire.Answer) (stages []answerStage) {
	add := func(where, name string, took time.Duration) {
		if took > 0 {
			stages = append(stages, answerStage{where, name, took})
		}
	}
	s, u := &a.Timings, a.Usage
	add("worker", "receive and admit", s.Admitted)
	if u == nil {
		return stages
	}
	if s.First > 0 {
		add("worker", "hand to the engine", s.First-s.Admitted-u.Queued-u.Prefill)
	}
	add("engine", "wait for a seat", u.SeatWait)
	add("engine", "wait for memory", u.MemoryWait)
	add("engine", "wait for compute", u.TurnWait())
	add("engine", "prefill", u.Prefill)
	add("engine", "decode", u.Decode)
	return stages
}
