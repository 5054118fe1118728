package foreign

import (
	"cmp"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"parley"
)

// answerTokensDefault bounds answers of Anthropic's API where neither the client nor the
// configuration does: the field is required there.
const answerTokensDefault = 4096

// messagesBody writes q for Anthropic's /v1/messages. System messages go before the
// conversation, results of tools are the user's, and two turns of one side become one.
func messagesBody(e *Engine, q *parley.Request) (any, error) {
	if err := refuseForMessages(q); err != nil {
		return nil, err
	}
	most := e.OutputTokens
	if most == 0 {
		most = answerTokensDefault
	}
	if q.MaxTokens > 0 {
		most = q.MaxTokens
	}
	var system []string
	var messages []message
	for _, t := range q.Turns {
		if t.Role == "system" || t.Role == "developer" {
			system = append(system, t.Text)
			continue
		}
		m, err := messageOf(t)
		if err != nil {
			return nil, err
		}
		if n := len(messages); n > 0 && messages[n-1].Role == m.Role {
			messages[n-1].Content = append(messages[n-1].Content, m.Content...)
		} else if len(m.Content) > 0 {
			messages = append(messages, m)
		}
	}
	b := map[string]any{
		"model": e.Name, "messages": messages, "stream": true, "max_tokens": most,
		"temperature": q.Sampling.Temperature,
	}
	if len(system) > 0 {
		b["system"] = strings.Join(system, "\n\n")
	}
	if q.Sampling.TopK > 0 {
		b["top_k"] = q.Sampling.TopK
	}
	if p := q.Sampling.TopP; p != 0 && p != 1 {
		b["top_p"] = p
	}
	if len(q.Stop.Strings) > 0 {
		b["stop_sequences"] = q.Stop.Strings
	}
	if budget := thinkingBudget(q, most); budget > 0 {
		b["thinking"] = map[string]any{"type": "enabled", "budget_tokens": budget}
	}
	putMessageTools(b, q.Terms)
	return b, nil
}

// The thoughts that Anthropic's API is asked for by effort, where the client names no number. It
// takes no fewer than thinkingTokensMin, and fewer than the whole answer may have.
const thinkingTokensMin, thinkingTokensDefault = 1024, 2048

var thinkingTokens = map[string]int{
	"minimal": thinkingTokensMin,
	"low":     thinkingTokensMin,
	"medium":  thinkingTokensDefault,
	"high":    4096,
	"xhigh":   8192,
	"max":     16384,
}

// thinkingBudget returns how many of an answer's tokens may be thoughts; 0 asks for none. After the
// result of a tool the service continues thoughts that it signed and that nothing here keeps, so
// that it can be asked for none there.
func thinkingBudget(q *parley.Request, most int) int {
	asked := q.Thinking
	if !asked.Wanted && thinkingTokens[asked.Effort] == 0 {
		return 0
	}
	for _, t := range slices.Backward(q.Turns) {
		if t.Role == "tool" {
			return 0
		}
		if t.Role == "assistant" {
			break
		}
	}
	if asked.BudgetTokens > 0 {
		return asked.BudgetTokens // the service says what is wrong with it
	}
	budget := cmp.Or(thinkingTokens[asked.Effort], thinkingTokensDefault)
	if budget = min(budget, most-1); budget < thinkingTokensMin {
		return 0
	}
	return budget
}

// refuseForMessages says what of a request Anthropic's API has no field for.
func refuseForMessages(q *parley.Request) error {
	s := &q.Sampling
	for _, f := range []struct {
		asked bool
		name  string
	}{
		{s.PresencePenalty != 0, "presence_penalty"},
		{s.FrequencyPenalty != 0, "frequency_penalty"},
		{s.RepetitionPenalty != 0 && s.RepetitionPenalty != 1, "repetition_penalty"},
		{s.MinP != 0, "min_p"},
		{len(s.LogitBias) > 0, "logit_bias"},
	} {
		if f.asked {
			return parley.Invalid(f.name, "engines of kind anthropic do not support %s", f.name)
		}
	}
	if s.Temperature > 1 {
		return parley.Invalid("temperature", "engines of kind anthropic take a temperature from 0 to 1, not %v",
			s.Temperature)
	}
	return nil
}

// A message is a turn as Anthropic's API has it.
type message struct {
	Role    string           `json:"role"`
	Content []map[string]any `json:"content"`
}

func messageOf(t parley.Turn) (message, error) {
	if t.Role == "tool" {
		return message{"user", []map[string]any{
			{"type": "tool_result", "tool_use_id": t.CallID, "content": t.Text}}}, nil
	}
	m := message{Role: t.Role}
	if strings.TrimSpace(t.Text) != "" { // empty text is refused there
		m.Content = append(m.Content, map[string]any{"type": "text", "text": t.Text})
	}
	for _, c := range t.Calls {
		arguments := json.RawMessage(c.Arguments)
		if c.Arguments == "" {
			arguments = json.RawMessage("{}")
		}
		if !json.Valid(arguments) {
			return m, parley.Invalid("messages", "the arguments of the call %q of %s are not JSON", c.ID, c.Name)
		}
		m.Content = append(m.Content, map[string]any{"type": "tool_use", "id": c.ID, "name": c.Name,
			"input": arguments})
	}
	return m, nil
}

// putMessageTools writes the tools that may be called, and whether one must be.
func putMessageTools(b map[string]any, asked *parley.Terms) {
	if asked == nil || len(asked.Tools) == 0 {
		return
	}
	tools := make([]map[string]any, len(asked.Tools))
	for i, t := range asked.Tools {
		tools[i] = map[string]any{"name": t.Name, "input_schema": json.RawMessage(`{"type":"object"}`)}
		if t.Description != "" {
			tools[i]["description"] = t.Description
		}
		if t.Parameters != nil {
			tools[i]["input_schema"] = t.Parameters
		}
		if t.Strict {
			tools[i]["strict"] = true
		}
	}
	b["tools"] = tools
	choice := map[string]any{"type": "auto"}
	switch {
	case !asked.CallRequired:
	case len(tools) == 1:
		choice = map[string]any{"type": "tool", "name": asked.Tools[0].Name}
	default:
		choice["type"] = "any"
	}
	if asked.OneCall {
		choice["disable_parallel_tool_use"] = true
	}
	b["tool_choice"] = choice
}

// A messageBlock is a content block of an answer; call is the number of the call that it is.
type messageBlock struct {
	isCall bool
	call   int
	// written is set once arguments of the call came.
	written bool
}

// A messageUsage is what Anthropic's API reports with the beginning and the end.
type messageUsage struct {
	InputTokens   *int `json:"input_tokens"`
	CacheCreation int  `json:"cache_creation_input_tokens"`
	CacheRead     int  `json:"cache_read_input_tokens"`
	OutputTokens  *int `json:"output_tokens"`
}

// take takes what was told: the end repeats and completes the beginning.
func (u *messageUsage) take(a *Assembly) {
	if u == nil {
		return
	}
	if u.InputTokens != nil && *u.InputTokens+u.CacheCreation+u.CacheRead > 0 {
		a.usage.PromptTokens = *u.InputTokens + u.CacheCreation + u.CacheRead
		a.usage.CachedTokens = u.CacheRead
	}
	if u.OutputTokens != nil {
		a.usage.OutputTokens = *u.OutputTokens
	}
	a.told = a.usage.PromptTokens > 0 && a.usage.OutputTokens > 0
}

var errBlock = errors.New("it has more of a content block that never began")

// readMessage reads one event of /v1/messages. Thoughts and calls come as blocks of
// their own.
func readMessage(a *Assembly, data []byte) error {
	var event struct {
		Type    string `json:"type"`
		Index   int    `json:"index"`
		Message struct {
			Usage *messageUsage `json:"usage"`
		} `json:"message"`
		Usage        *messageUsage `json:"usage"`
		ContentBlock struct {
			Type, Text, Thinking, ID, Name string
		} `json:"content_block"`
		Delta struct {
			Type, Text, Thinking string
			PartialJSON          string `json:"partial_json"`
			StopReason           string `json:"stop_reason"`
			StopSequence         string `json:"stop_sequence"`
		} `json:"delta"`
	}
	if err := json.Unmarshal(data, &event); err != nil {
		return err
	}
	d := parley.Delta{Apart: true}
	switch event.Type {
	case "message_start":
		event.Message.Usage.take(a)
		return nil
	case "content_block_start":
		block := messageBlock{isCall: event.ContentBlock.Type == "tool_use"}
		if block.isCall {
			for _, before := range a.service.blocks {
				if before.isCall {
					block.call++
				}
			}
			d.Calls = []parley.ToolCall{{Index: block.call, ID: event.ContentBlock.ID, Name: event.ContentBlock.Name}}
		}
		if event.Index != len(a.service.blocks) {
			return errBlock
		}
		a.service.blocks = append(a.service.blocks, block)
		d.Text, d.Thoughts = event.ContentBlock.Text, event.ContentBlock.Thinking
	case "content_block_delta":
		if event.Index < 0 || event.Index >= len(a.service.blocks) {
			return errBlock
		}
		d.Text, d.Thoughts = event.Delta.Text, event.Delta.Thinking
		if block := &a.service.blocks[event.Index]; block.isCall && event.Delta.PartialJSON != "" {
			block.written = true
			d.Calls = []parley.ToolCall{{Index: block.call, Arguments: event.Delta.PartialJSON}}
		}
	case "content_block_stop":
		if event.Index < 0 || event.Index >= len(a.service.blocks) {
			return errBlock
		}
		if block := a.service.blocks[event.Index]; block.isCall && !block.written {
			d.Calls = []parley.ToolCall{{Index: block.call, Arguments: "{}"}}
		}
	case "message_delta":
		event.Usage.take(a)
		finish, err := finishOf(event.Delta.StopReason)
		if err != nil {
			return err
		}
		d.Finish, d.StopString = finish, event.Delta.StopSequence
	default: // a ping, the end of the message
		return nil
	}
	if _, err := a.choice(0); err != nil {
		return err
	}
	a.add(0, d)
	return nil
}
