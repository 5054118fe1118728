package gateway

import (
	"cmp"
	"encoding/json"
	"net/http"
	"strings"

	"parley"
	"parley/gateway/answer"
	"parley/gateway/exchange"
	"parley/gateway/job"
	"parley/gateway/models"
	"parley/gateway/openai"
)

// messages answers POST /v1/messages.
func messages(x *exchange.Exchange, j *job.Job) error {
	request, err := exchange.Read(x, openai.ParseMessages)
	if err != nil {
		return err
	}
	model, err := j.Model(request.Model)
	if err != nil {
		return err
	}
	if request.Stream {
		x.Detach()
	}
	a, stop, err := j.Converse(x.Request.Context(), model, &request.ChatRequest)
	if err != nil {
		return err
	}
	form := &messageShape{id: "msg_" + x.Suffix, model: x.Record.Model,
		keep: worthKeeping(model, request, a.Prompts[0].Tokens)}
	var stream func() error
	if request.Stream {
		stream = func() error { return streamMessage(x, a, form) }
	}
	return x.Deliver(a, stop, stream, func(choices []answer.CollectedChoice) any { return form.whole(&choices[0], a) })
}

// countTokens answers POST /v1/messages/count_tokens.
func countTokens(x *exchange.Exchange, j *job.Job) error {
	request, err := exchange.Read(x, openai.ParseCountTokens)
	if err != nil {
		return err
	}
	model, err := j.Model(request.Model)
	if err != nil {
		return err
	}
	prompt, _, err := model.Render(&request.ChatRequest)
	if err != nil {
		return err
	}
	return x.Reply(http.StatusOK, openai.TokenCount{InputTokens: model.PromptTokens(prompt)})
}

// worthKeeping returns how many tokens of the prompt lie before the client's last
// mark: as many as it shares with the conversation up to there. A template that
// cannot render that much alone leaves it unknown, which is 0.
func worthKeeping(m *models.Model, request *openai.MessagesRequest, prompt []parley.Token) int {
	if request.CacheAt <= 0 {
		return 0
	}
	before := request.ChatRequest
	before.Messages = before.Messages[:request.CacheAt]
	before.OpenTurn, before.ContinueFinal = false, false
	tokens, _, err := m.Render(&before)
	if err != nil {
		return 0
	}
	n := 0
	for n < min(len(tokens), len(prompt)) && tokens[n] == prompt[n] {
		n++
	}
	return n
}

// A messageShape makes answers of the Anthropic interface.
type messageShape struct {
	id string
	// model names the model that answers.
	model func() string
	// keep is how many tokens of the prompt are worth keeping.
	keep int
	// open is the type of the block that is being written, "" if there is none;
	// index is its place or that of the next one.
	open  string
	index int
	// call is the index of the tool call in it.
	call int
}

// toolUseID is the id of a call as clients of this interface know ids.
func toolUseID(id string) string { return "toolu_" + strings.TrimPrefix(id, "call_") }

// stopReason says why an answer ended, and by which string if it was one.
func stopReason(a *answer.Answer, finish parley.Finish) (reason string, sequence *string) {
	switch finish {
	case answer.FinishToolCalls:
		return "tool_use", nil
	case parley.FinishLength:
		return "max_tokens", nil
	case answer.FinishFiltered:
		return "refusal", nil
	}
	if s := a.Choices[0].Text.StoppedBy(); s != "" {
		return "stop_sequence", &s
	}
	return "end_turn", nil
}

func (s *messageShape) empty() openai.ReplyMessage {
	return openai.ReplyMessage{
		ID:      s.id,
		Type:    "message",
		Role:    "assistant",
		Model:   s.model(),
		Content: []any{},
	}
}

// whole returns the complete answer.
func (s *messageShape) whole(w *answer.CollectedChoice, a *answer.Answer) openai.ReplyMessage {
	m := s.empty()
	if w.Reasoning.Len() > 0 {
		m.Content = append(m.Content, openai.ThinkingBlock{Type: "thinking", Thinking: w.Reasoning.String()})
	}
	if w.Text.Len() > 0 {
		m.Content = append(m.Content, openai.TextBlock{Type: "text", Text: w.Text.String()})
	}
	for _, call := range w.Calls {
		m.Content = append(m.Content, openai.ToolUseBlock{Type: "tool_use", ID: toolUseID(call.ID), Name: call.Name,
			Input: inputOf(call.Arguments.String())})
	}
	reason, sequence := stopReason(a, w.Finish)
	m.StopReason, m.StopSequence, m.Usage = &reason, sequence, openai.MessageUsageOf(a.Usage, s.keep)
	m.Parley = openai.ExtrasOf(a.Usage)
	return m
}

// inputOf returns arguments as an object; those of a call that was cut off are
// empty.
func inputOf(arguments string) json.RawMessage {
	if raw := json.RawMessage(strings.TrimSpace(arguments)); json.Valid(raw) && raw[0] == '{' {
		return raw
	}
	return json.RawMessage("{}")
}

// streamMessage sends an answer as events. The status goes out with the first.
func streamMessage(x *exchange.Exchange, a *answer.Answer, form *messageShape) error {
	out := exchange.NewEventStream(x, 1)
	begun := false
	var finish parley.Finish
	ping := func() error {
		if x.Record.Waiter().Status().Waiting {
			return out.Ping()
		}
		return out.SendNamed([]openai.MessageEvent{{Type: "ping"}})
	}
	err := a.Each(x.Request.Context(), x.KeepAlive(ping), func(pieces []answer.Piece) error {
		var events []openai.MessageEvent
		if !begun {
			begun = true
			events = form.opening(x.Record.PromptTokens())
		}
		for i := range pieces {
			events = form.content(events, &pieces[i])
			finish = cmp.Or(pieces[i].Finish, finish)
		}
		return out.SendNamed(events)
	})
	if err != nil {
		return err
	}
	return out.SendNamed(form.closing(a, finish))
}

// opening begins the message. What of the prompt was in memory is known at the
// end only.
func (s *messageShape) opening(promptTokens int) []openai.MessageEvent {
	m := s.empty()
	m.Usage.InputTokens = promptTokens
	return []openai.MessageEvent{{Type: "message_start", Message: &m}, {Type: "ping"}}
}

// content appends the events of a piece, which is added to the block it belongs to.
func (s *messageShape) content(events []openai.MessageEvent, p *answer.Piece) []openai.MessageEvent {
	if p.Reasoning != "" {
		events = s.add(events, "thinking", openai.ThinkingBlock{Type: "thinking"},
			openai.ThinkingDelta{Type: "thinking_delta", Thinking: p.Reasoning})
	}
	if p.Text != "" {
		events = s.add(events, "text", openai.TextBlock{Type: "text"},
			openai.TextDelta{Type: "text_delta", Text: p.Text})
	}
	for _, c := range p.Calls {
		if s.open == "tool_use" && c.Index != s.call {
			events = append(events, s.shut()...)
		}
		s.call = c.Index
		block := openai.ToolUseBlock{Type: "tool_use", ID: toolUseID(c.ID), Name: c.Name, Input: json.RawMessage("{}")}
		events = s.add(events, "tool_use", block, openai.InputDelta{Type: "input_json_delta", PartialJSON: c.Arguments})
	}
	return events
}

// add appends the event of a delta. A block of another kind is ended first, and one of this kind begun.
func (s *messageShape) add(events []openai.MessageEvent, kind string, block, delta any) []openai.MessageEvent {
	if s.open != kind {
		events = append(events, s.shut()...)
		s.open = kind
		events = append(events, openai.MessageEvent{Type: "content_block_start", Index: s.at(), ContentBlock: block})
	}
	return append(events, openai.MessageEvent{Type: "content_block_delta", Index: s.at(), Delta: delta})
}

func (s *messageShape) at() *int {
	index := s.index
	return &index
}

// shut ends the block that is being written.
func (s *messageShape) shut() []openai.MessageEvent {
	if s.open == "" {
		return nil
	}
	end := openai.MessageEvent{Type: "content_block_stop", Index: s.at()}
	s.open = ""
	s.index++
	return []openai.MessageEvent{end}
}

// closing ends the message.
func (s *messageShape) closing(a *answer.Answer, finish parley.Finish) []openai.MessageEvent {
	reason, sequence := stopReason(a, finish)
	usage := openai.MessageUsageOf(a.Usage, s.keep)
	return append(s.shut(),
		openai.MessageEvent{Type: "message_delta", Delta: openai.StopDelta{StopReason: reason, StopSequence: sequence},
			Usage: &usage, Parley: openai.ExtrasOf(a.Usage)},
		openai.MessageEvent{Type: "message_stop"})
}
