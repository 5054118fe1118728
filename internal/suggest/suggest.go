// Package suggest says what a mistyped name may have meant, and what a client may have meant that asked for a
// path that does not exist, or what exists instead of an API that this server does not have.
package suggest

import (
	"slices"
	"strings"
)

// absent are APIs of others that this server does not have, by the beginnings of their paths, and what exists instead.
var absent = []struct{ prefix, instead string }{
	{"/v1/images", "This server generates text only."},
	{"/v1/videos", "This server generates text only."},
	{"/v1/audio", "This server reads and writes text only: transcribe speech before, with a server for that."},
	{"/v1/realtime", "This server has no speech. Text is streamed by POST /v1/responses, also as a WebSocket."},
	{"/v1/assistants", "Assistants were replaced: use POST /v1/responses and /v1/conversations."},
	{"/v1/threads", "Threads were replaced: use /v1/conversations and POST /v1/responses."},
	{"/v1/vector_stores", "This server stores no vectors: compute them with POST /v1/embeddings."},
	{"/v1/fine_tuning", "This server does not train: serve a trained model with 'parley serve --model'."},
	{"/v1/fine-tunes", "This server does not train: serve a trained model with 'parley serve --model'."},
	{"/v1/uploads", "Upload a file in one request: POST /v1/files."},
	{"/v1/evals", "This server has no evaluations."},
	{"/v1/containers", "This server runs no code: tools are run by the client."},
	{"/v1/messages/batches", "Batches are made with POST /v1/files and POST /v1/batches."},
	{"/v1/complete", "Use POST /v1/messages, or POST /v1/completions."},
	{"/v1/engines", "Name the model in the body: POST /v1/completions."},
	{"/v1beta/", "This server does not speak Gemini's API: use POST /v1/chat/completions."},
	{"/completion", "Use POST /v1/completions, or POST /infill for what belongs into a gap."},
	{"/pooling", "Use POST /v1/embeddings."},
	{"/slots", "Running and queued requests are on the page /admin and in GET /metrics."},
	{"/openai/deployments", "Name the model in the body: POST /v1/chat/completions."},
}

// Route returns a sentence, after a space, about a path that is not one of known; empty if nothing helps.
func Route(path string, known []string) string {
	for _, wanted := range variants(path) {
		if slices.Contains(known, wanted) {
			return " Did you mean " + wanted + "?"
		}
	}
	longest := ""
	instead := ""
	for _, a := range absent {
		if strings.HasPrefix(path, a.prefix) && len(a.prefix) > len(longest) {
			longest, instead = a.prefix, a.instead
		}
	}
	if instead != "" {
		return " " + instead
	}
	if best := nearest(path, known, max(2, len(path)/8)); best != "" {
		return " Did you mean " + best + "?"
	}
	return ""
}

// Name returns the one of known that a mistyped name most likely stands for; empty if none is near.
func Name(mistyped string, known []string) string {
	return nearest(mistyped, known, min(3, (len(mistyped)+1)/3))
}

// nearest returns the first of known that the fewest edits make of a text, or nothing if that takes more than most.
func nearest(text string, known []string, most int) string {
	best, distance := "", most+1
	for _, k := range known {
		if d := edits(text, k, distance); d < distance {
			best, distance = k, d
		}
	}
	return best
}

// variants are paths that clients mean by one whose base URL was set wrongly: with a doubled slash, without /v1 or
// with two of them, with a slash at the end.
func variants(path string) []string {
	clean := path
	for strings.Contains(clean, "//") {
		clean = strings.ReplaceAll(clean, "//", "/")
	}
	clean = strings.TrimSuffix(strings.ReplaceAll(clean, "/v1/v1/", "/v1/"), "/")
	out := []string{clean, "/v1" + clean}
	for _, prefix := range []string{"/api", "/openai", "/anthropic"} {
		if rest, ok := strings.CutPrefix(clean, prefix); ok {
			out = append(out, rest, "/v1"+rest)
		}
	}
	return slices.DeleteFunc(out, func(s string) bool { return s == path || s == "" })
}

// edits returns how many bytes must be changed, added or removed to make b of a, or most if that many are not enough.
func edits(a, b string, most int) int {
	if len(a)-len(b) >= most || len(b)-len(a) >= most {
		return most
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return min(row[len(b)], most)
}
