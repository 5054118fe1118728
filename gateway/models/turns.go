package models

import (
	"parley"
	"parley/gateway/openai"
)

// Turns returns a conversation as it was said, for engines that render it
// themselves; nil if it is to continue with a turn that has begun.
func Turns(request *openai.ChatRequest) []parley.Turn {
	if !request.OpenTurn || request.ContinueFinal {
		return nil
	}
	turns := make([]parley.Turn, len(request.Messages))
	for i, m := range request.Messages {
		turns[i] = parley.Turn{Role: m.Role, Text: m.Content, CallID: m.ToolCallID}
		if m.Role == "function" {
			turns[i].Role = "tool"
		}
		for _, c := range m.ToolCalls {
			turns[i].Calls = append(turns[i].Calls, parley.ToolCall{ID: c.ID, Name: c.Name, Arguments: c.Arguments})
		}
	}
	return turns
}
