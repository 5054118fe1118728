package gateway

import (
	"parley"
	"parley/gateway/answer"
	"parley/gateway/openai"
)

// turnsSaid returns a conversation as it was said, for engines that render it
// themselves; nil if there is more in it than text, or it is to go on with a turn
// that has begun.
func turnsSaid(request *openai.ChatRequest) []parley.Turn {
	if !request.OpenTurn || request.ContinueFinal || len(answer.Callable(request)) > 0 {
		return nil
	}
	turns := make([]parley.Turn, len(request.Messages))
	for i, m := range request.Messages {
		if m.Role == "tool" || m.Role == "function" || len(m.ToolCalls) > 0 {
			return nil
		}
		turns[i] = parley.Turn{Role: m.Role, Text: m.Content}
	}
	return turns
}
