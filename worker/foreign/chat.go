package foreign

import (
	"cmp"
	"encoding/json"

	"parley"
)

// chatBody writes q for a server that has /v1/chat/completions alone. It renders
// the conversation itself, so that it is given as it was said.
func chatBody(e *Engine, q *parley.Request) (any, error) {
	messages := make([]chatMessage, len(q.Turns))
	for i, t := range q.Turns {
		messages[i] = newChatMessage(t)
	}
	b := map[string]any{
		"model": e.Name, "messages": messages, "stream": true,
		"stream_options": map[string]any{"include_usage": true},
		"temperature":    q.Sampling.Temperature, "n": max(1, q.Choices),
	}
	if q.MaxTokens > 0 {
		b["max_tokens"] = q.MaxTokens
	}
	putSampling(b, &q.Sampling, "repetition_penalty")
	if q.Sampling.Temperature > 0 {
		b["seed"] = int64(q.Sampling.Seed & (1<<63 - 1))
	}
	if len(q.Sampling.LogitBias) > 0 {
		b["logit_bias"] = q.Sampling.LogitBias
	}
	if len(q.Stop.Strings) > 0 {
		b["stop"] = q.Stop.Strings
	}
	if q.Grammar != nil {
		b["response_format"] = responseFormat(q.Grammar)
	}
	if effort := q.Thinking.Effort; effort != "" {
		b["reasoning_effort"] = effort
	}
	putTools(b, q.Terms)
	return b, nil
}

// putTools writes the tools that may be called, and whether one must be.
func putTools(b map[string]any, asked *parley.Terms) {
	if asked == nil || len(asked.Tools) == 0 {
		return
	}
	tools := make([]map[string]any, len(asked.Tools))
	for i, t := range asked.Tools {
		f := map[string]any{"name": t.Name}
		if t.Description != "" {
			f["description"] = t.Description
		}
		if t.Parameters != nil {
			f["parameters"] = t.Parameters
		}
		if t.Strict {
			f["strict"] = true
		}
		tools[i] = map[string]any{"type": "function", "function": f}
	}
	b["tools"] = tools
	if asked.OneCall {
		b["parallel_tool_calls"] = false
	}
	switch {
	case !asked.CallRequired:
	case len(tools) == 1:
		b["tool_choice"] = map[string]any{"type": "function", "function": map[string]any{"name": asked.Tools[0].Name}}
	default:
		b["tool_choice"] = "required"
	}
}

// A chatMessage is a turn as OpenAI's API has it.
type chatMessage struct {
	Role       string     `json:"role"`
	Content    *string    `json:"content"`
	ToolCalls  []chatCall `json:"tool_calls,omitempty"`
	ToolCallID string     `json:"tool_call_id,omitempty"`
}

type chatCall struct {
	Index    int    `json:"index,omitempty"`
	ID       string `json:"id,omitempty"`
	Type     string `json:"type,omitempty"`
	Function struct {
		Name      string `json:"name,omitempty"`
		Arguments string `json:"arguments"`
	} `json:"function"`
}

func newChatMessage(t parley.Turn) chatMessage {
	m := chatMessage{Role: t.Role, ToolCallID: t.CallID}
	if t.Text != "" || len(t.Calls) == 0 {
		m.Content = &t.Text
	}
	for _, c := range t.Calls {
		call := chatCall{ID: c.ID, Type: "function"}
		call.Function.Name, call.Function.Arguments = c.Name, c.Arguments
		m.ToolCalls = append(m.ToolCalls, call)
	}
	return m
}

// responseFormat writes a grammar as OpenAI's API has it.
func responseFormat(g *parley.Grammar) map[string]any {
	if g.Kind == parley.GrammarObject {
		return map[string]any{"type": "json_object"}
	}
	return map[string]any{"type": "json_schema",
		"json_schema": map[string]any{"name": "answer", "schema": g.Schema, "strict": true}}
}

// readChat reads one event of /v1/chat/completions. Thoughts and calls come apart
// from the text.
func readChat(a *Assembly, message []byte) error {
	var chunk struct {
		Choices []struct {
			Index int `json:"index"`
			Delta struct {
				Content          string     `json:"content"`
				ReasoningContent string     `json:"reasoning_content"`
				Reasoning        string     `json:"reasoning"`
				ToolCalls        []chatCall `json:"tool_calls"`
			} `json:"delta"`
			FinishReason string `json:"finish_reason"`
		} `json:"choices"`
		Usage *completionUsage `json:"usage"`
	}
	if err := json.Unmarshal(message, &chunk); err != nil {
		return err
	}
	a.use(chunk.Usage)
	for _, c := range chunk.Choices {
		state, err := a.choice(c.Index)
		if err != nil {
			return err
		}
		if c.FinishReason == "tool_calls" || c.FinishReason == "function_call" {
			// Some servers say so after each of several calls: the end of the stream is the end.
			c.FinishReason, state.called = "", true
		}
		finish, err := finishOf(c.FinishReason)
		if err != nil {
			return err
		}
		d := parley.Delta{
			Text:     c.Delta.Content,
			Apart:    true,
			Thoughts: cmp.Or(c.Delta.ReasoningContent, c.Delta.Reasoning),
			Finish:   finish,
		}
		for _, call := range c.Delta.ToolCalls {
			if call.Function.Name != "" && call.ID == "" {
				call.ID = newCallID()
			}
			d.Calls = append(d.Calls, parley.ToolCall{
				Index:     call.Index,
				ID:        call.ID,
				Name:      call.Function.Name,
				Arguments: call.Function.Arguments,
			})
		}
		a.add(c.Index, d)
	}
	return nil
}
