package gateway

import (
	"testing"

	"parley/gateway/openai"
)

// TestTurnsSaid gives conversations of text alone, and of nothing else.
func TestTurnsSaid(t *testing.T) {
	hi := openai.Message{Role: "user", Content: "Hi"}
	for name, row := range map[string]struct {
		request openai.ChatRequest
		turns   int
	}{
		"text": {openai.ChatRequest{OpenTurn: true,
			Messages: []openai.Message{{Role: "system", Content: "s"}, hi}}, 2},
		"a call": {openai.ChatRequest{OpenTurn: true,
			Messages: []openai.Message{hi, {Role: "assistant", ToolCalls: []openai.ToolCall{{ID: "1"}}}}}, 0},
		"a tool's words": {openai.ChatRequest{OpenTurn: true,
			Messages: []openai.Message{hi, {Role: "tool", Content: "1"}}}, 0},
		"a turn begun": {openai.ChatRequest{ContinueFinal: true,
			Messages: []openai.Message{hi, {Role: "assistant", Content: "Well,"}}}, 0},
	} {
		if got := turnsSaid(&row.request); len(got) != row.turns || row.turns == 2 && got[1].Text != "Hi" {
			t.Errorf("%s: %v", name, got)
		}
	}
}
