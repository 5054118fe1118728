package models

import (
	"testing"

	"parley/gateway/openai"
)

// TestTurns gives conversations, calls and their results included, unless a turn has begun.
func TestTurns(t *testing.T) {
	hi := openai.Message{Role: "user", Content: "Hi"}
	for name, row := range map[string]struct {
		request openai.ChatRequest
		turns   int
	}{
		"text": {openai.ChatRequest{OpenTurn: true,
			Messages: []openai.Message{{Role: "system", Content: "s"}, hi}}, 2},
		"a call": {openai.ChatRequest{OpenTurn: true,
			Messages: []openai.Message{hi, {Role: "assistant", ToolCalls: []openai.ToolCall{{ID: "1"}}}}}, 2},
		"a tool's words": {openai.ChatRequest{OpenTurn: true,
			Messages: []openai.Message{hi, {Role: "tool", Content: "1", ToolCallID: "1"}}}, 2},
		"a turn begun": {openai.ChatRequest{ContinueFinal: true,
			Messages: []openai.Message{hi, {Role: "assistant", Content: "Well,"}}}, 0},
	} {
		got := Turns(&row.request)
		if len(got) != row.turns {
			t.Errorf("%s: %v", name, got)
		}
		for i, turn := range got {
			m := row.request.Messages[i]
			if turn.Role != m.Role || turn.Text != m.Content || turn.CallID != m.ToolCallID ||
				len(turn.Calls) != len(m.ToolCalls) {
				t.Errorf("%s: %+v of %+v", name, turn, m)
			}
		}
	}
}
