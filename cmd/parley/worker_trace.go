package main

import (
	"crypto/rand"
	"time"

	"parley/gateway/otlp"
	"parley/worker/host"
)

// answerSpans are what a worker adds to the trace of a request: a span for the
// answer, and in it one for each of the engine's stages. The gateway that asked
// has the span above them.
func answerSpans(a *host.Answer) []otlp.Span {
	whole := otlp.Span{Trace: a.Trace.ID, Parent: a.Trace.Span, Name: "worker: answer", Server: true, Start: a.Started, End: a.Ended, Attributes: map[string]any{
		"gen_ai.operation.name": "generate_content", "gen_ai.provider.name": "parley", "gen_ai.request.model": a.Model, "gen_ai.response.id": a.Request,
		"gen_ai.usage.output_tokens": a.OutputTokens, "parley.stage": "worker",
	}}
	rand.Read(whole.ID[:]) // never fails
	if a.Err != nil {
		whole.Error = a.Err.Error()
	}
	spans := []otlp.Span{whole}
	u := a.Usage
	if u == nil {
		return spans
	}
	whole.Attributes["gen_ai.usage.input_tokens"], whole.Attributes["gen_ai.usage.cache_read.input_tokens"] = u.PromptTokens, u.CachedTokens
	at := a.Started
	for _, stage := range []struct {
		name string
		took time.Duration
	}{{"engine: wait for memory", u.Queued}, {"engine: prefill", u.Prefill}, {"engine: decode", u.Decode}} {
		if stage.took <= 0 {
			continue
		}
		s := otlp.Span{Trace: a.Trace.ID, Parent: whole.ID, Name: stage.name, Start: at, End: at.Add(stage.took), Attributes: map[string]any{"parley.stage": "engine"}}
		if stage.name == "engine: prefill" && u.Miss != "" {
			s.Attributes["parley.cache_miss"] = u.Miss
		}
		rand.Read(s.ID[:])
		spans, at = append(spans, s), s.End
	}
	return spans
}
