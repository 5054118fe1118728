package gateway

import (
	"crypto/rand"
	"encoding/hex"
	"net/http"
	"time"

	"parley"
	"parley/gateway/admin"
)

// A traced request is one whose place in a trace is known.
type traced struct {
	// parent is where it came from; here is its own place.
	parent [8]byte
	here   parley.Trace
}

// beginTrace takes up the trace that a request belongs to, or begins one where
// traces are sent. Whoever works for it is told of it by the context.
func (g *Gateway) beginTrace(r *http.Request) (traced, *http.Request) {
	came, ok := parley.ParseTrace(r.Header.Get("Traceparent"))
	if !ok && g.config.Traces == nil {
		return traced{}, r
	}
	t := traced{parent: came.Span, here: came}
	if !ok {
		rand.Read(t.here.ID[:]) // never fails
		t.here.Sampled = true
	}
	if g.config.Traces != nil { // who sends no spans stands between nobody
		rand.Read(t.here.Span[:])
	}
	return t, r.WithContext(parley.WithTrace(r.Context(), t.here))
}

// endTrace sends what became of a call, with a span for each stage.
func (g *Gateway) endTrace(c *call, l *admin.Life, elapsed time.Duration) {
	t := &c.traced
	if t.here.ID == [16]byte{} {
		return
	}
	l.TraceID = hex.EncodeToString(t.here.ID[:])
	if g.config.Traces == nil || !t.here.Sampled {
		return
	}
	legs, _ := c.journey.Legs()
	g.config.Traces.Export(spansOf(t, l.Tell(), legs, elapsed))
}

// operations of the conventions for generative AI, by route.
var genAIOperations = map[string]string{"/v1/completions": "text_completion", "/v1/fim/completions": "text_completion",
	"/v1/embeddings": "embeddings"}

func operationOf(route string) string {
	if name, ok := genAIOperations[route]; ok {
		return name
	}
	return "chat"
}

func spanName(l *admin.Life) string { return operationOf(l.Route) + " " + l.Model }

// spanError is empty for what is no fault of ours.
func spanError(l *admin.Life) string {
	if l.Outcome == admin.Failed || l.Outcome == admin.TurnedAway {
		return l.Error
	}
	return ""
}

// spanAttributes are named by OpenTelemetry's conventions for generative AI.
func spanAttributes(l *admin.Life) map[string]any {
	a := map[string]any{
		"gen_ai.operation.name": operationOf(l.Route), "gen_ai.provider.name": "parley",
		"gen_ai.request.model": l.Model, "gen_ai.response.model": l.Model, "gen_ai.response.id": l.ID,
		"gen_ai.usage.input_tokens": l.PromptTokens, "gen_ai.usage.output_tokens": l.OutputTokens,
		"gen_ai.usage.cache_read.input_tokens": l.CachedTokens,
		"http.route":                           l.Route, "http.response.status_code": l.Status,
		"parley.outcome": l.Outcome, "parley.tier": l.Tier, "parley.stream": l.Stream,
	}
	if l.Finish != "" {
		a["gen_ai.response.finish_reasons"] = []string{l.Finish}
	}
	for key, text := range map[string]string{"parley.worker": l.Worker, "parley.route_reason": l.WorkerReason,
		"parley.cache_miss": l.Miss, "error.type": spanErrorType(l)} {
		if text != "" {
			a[key] = text
		}
	}
	return a
}

func spanErrorType(l *admin.Life) string {
	if l.Outcome == admin.OK {
		return ""
	}
	return l.Outcome
}
