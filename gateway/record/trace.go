package record

import (
	"crypto/rand"

	"parley"
	"parley/gateway/admin"
)

// A trace is the place of a request in a trace; the zero value is in none.
type trace struct {
	// parent is where it came from; here is its own place.
	parent [8]byte
	here   parley.Trace
	// sends is set where spans are sent to a collector.
	sends bool
}

// beginTrace takes up the trace that a request belongs to by its header, or begins one
// where spans are sent.
func beginTrace(traceparent string, sends bool) trace {
	came, ok := parley.ParseTrace(traceparent)
	if !ok && !sends {
		return trace{}
	}
	t := trace{parent: came.Span, here: came, sends: sends}
	if !ok {
		rand.Read(t.here.ID[:]) // never fails
		t.here.Sampled = true
	}
	if sends { // a server that sends no spans has no place of its own
		rand.Read(t.here.Span[:])
	}
	return t
}

// operations of the conventions for generative AI, by route.
var genAIOperations = map[string]string{"/v1/completions": "text_completion", "/v1/fim/completions": "text_completion",
	"/v1/embeddings": "embeddings", "/api/generate": "text_completion", "/api/embed": "embeddings",
	"/api/embeddings": "embeddings", "/infill": "text_completion"}

func operationOf(route string) string {
	if name, ok := genAIOperations[route]; ok {
		return name
	}
	return "chat"
}

func spanName(l *admin.RequestRecord) string { return operationOf(l.Route) + " " + l.Model }

// spanError is empty for what is not a fault of the server.
func spanError(l *admin.RequestRecord) string {
	if l.Outcome == admin.Failed || l.Outcome == admin.TurnedAway {
		return l.Error
	}
	return ""
}

// spanAttributes are named by OpenTelemetry's conventions for generative AI.
func spanAttributes(l *admin.RequestRecord) map[string]any {
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

func spanErrorType(l *admin.RequestRecord) string {
	if l.Outcome == admin.OK {
		return ""
	}
	return l.Outcome
}
