package gateway

import (
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"strings"

	"parley"
	"parley/gateway/openai"
)

// messagesPath is where the Anthropic interface begins; its failures have a
// shape of their own.
const messagesPath = "/v1/messages"

// isMessages reports whether a path belongs to the Anthropic interface.
func isMessages(path string) bool {
	return path == messagesPath || strings.HasPrefix(path, messagesPath+"/")
}

// messages answers POST /v1/messages.
func (g *Gateway) messages(c *call) error {
	body, err := c.body()
	if err != nil {
		return err
	}
	request, err := openai.ParseMessages(body)
	if err != nil {
		return err
	}
	model, err := c.model(request.Model)
	if err != nil {
		return err
	}
	answer, stop, err := c.converse(model, &request.ChatRequest)
	if err != nil {
		return err
	}
	defer stop()
	form := &messageShape{id: "msg_" + c.suffix, model: model.ID, keep: c.worthKeeping(model, request, answer.prompts[0].tokens)}
	if request.Stream {
		return c.streamMessage(answer, form)
	}
	choices, err := answer.collect(c.request.Context())
	if err != nil {
		return err
	}
	return c.reply(http.StatusOK, form.whole(&choices[0], answer))
}

// countTokens answers POST /v1/messages/count_tokens.
func (g *Gateway) countTokens(c *call) error {
	body, err := c.body()
	if err != nil {
		return err
	}
	request, err := openai.ParseCountTokens(body)
	if err != nil {
		return err
	}
	model, err := c.model(request.Model)
	if err != nil {
		return err
	}
	prompt, _, err := model.renderChat(&request.ChatRequest, g.config.Now())
	if err != nil {
		return err
	}
	return c.reply(http.StatusOK, openai.TokenCount{InputTokens: len(prompt)})
}

// worthKeeping returns how many tokens of the prompt lie before the client's last
// mark: as many as it shares with the conversation up to there. A template that
// cannot render that much alone leaves it unknown, which is 0.
func (c *call) worthKeeping(m *model, request *openai.MessagesRequest, prompt []parley.Token) int {
	if request.CacheAt <= 0 {
		return 0
	}
	before := request.ChatRequest
	before.Messages = before.Messages[:request.CacheAt]
	before.OpenTurn, before.ContinueFinal = false, false
	tokens, _, err := m.renderChat(&before, c.gateway.config.Now())
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
	id, model string
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
func stopReason(a *answer, finish parley.Finish) (reason string, sequence *string) {
	switch finish {
	case finishToolCalls:
		return "tool_use", nil
	case parley.FinishLength:
		return "max_tokens", nil
	case finishFiltered:
		return "refusal", nil
	}
	if s := a.choices[0].text.stoppedBy(); s != "" {
		return "stop_sequence", &s
	}
	return "end_turn", nil
}

func (s *messageShape) empty() openai.ReplyMessage {
	return openai.ReplyMessage{ID: s.id, Type: "message", Role: "assistant", Model: s.model, Content: []any{}}
}

// whole returns the complete answer.
func (s *messageShape) whole(w *whole, a *answer) openai.ReplyMessage {
	m := s.empty()
	if w.reasoning.Len() > 0 {
		m.Content = append(m.Content, openai.ThinkingBlock{Type: "thinking", Thinking: w.reasoning.String()})
	}
	if w.text.Len() > 0 {
		m.Content = append(m.Content, openai.TextBlock{Type: "text", Text: w.text.String()})
	}
	for _, call := range w.calls {
		m.Content = append(m.Content, openai.ToolUseBlock{Type: "tool_use", ID: toolUseID(call.id), Name: call.name, Input: inputOf(call.arguments.String())})
	}
	reason, sequence := stopReason(a, w.finish)
	m.StopReason, m.StopSequence, m.Usage = &reason, sequence, openai.MessageUsageOf(a.usage, s.keep)
	return m
}

// inputOf returns arguments as an object; those of a call that was cut off are
// none.
func inputOf(arguments string) json.RawMessage {
	if raw := json.RawMessage(strings.TrimSpace(arguments)); json.Valid(raw) && raw[0] == '{' {
		return raw
	}
	return json.RawMessage("{}")
}

// streamMessage sends an answer as events. The status goes out with the first.
func (c *call) streamMessage(a *answer, form *messageShape) error {
	out := &stream{call: c, control: flusherOf(c)}
	begun := false
	var finish parley.Finish
	for !a.over() {
		pieces, err := a.next(c.request.Context(), c.gateway.config.KeepAlive)
		var events []openai.MessageEvent
		switch {
		case errors.Is(err, errSilence):
			if c.place.stands().waiting {
				if err := out.ping(); err != nil {
					return err
				}
				continue
			}
			events = []openai.MessageEvent{{Type: "ping"}}
		case err != nil:
			return err
		case !begun:
			begun = true
			events = form.opening(len(a.prompts[0].tokens))
		}
		for _, p := range pieces {
			events = append(events, form.content(p)...)
			if p.finish != "" {
				finish = p.finish
			}
		}
		if err := out.sendNamed(events); err != nil {
			return err
		}
	}
	return out.sendNamed(form.closing(a, finish))
}

// opening begins the message. What of the prompt was in memory is known at the
// end only.
func (s *messageShape) opening(promptTokens int) []openai.MessageEvent {
	m := s.empty()
	m.Usage.InputTokens = promptTokens
	return []openai.MessageEvent{{Type: "message_start", Message: &m}, {Type: "ping"}}
}

// content adds a piece to the block it belongs to, which may have to be begun.
func (s *messageShape) content(p piece) (events []openai.MessageEvent) {
	add := func(kind string, block, delta any) {
		if s.open != kind {
			events = append(events, s.shut()...)
			s.open = kind
			events = append(events, openai.MessageEvent{Type: "content_block_start", Index: s.at(), ContentBlock: block})
		}
		if delta != nil {
			events = append(events, openai.MessageEvent{Type: "content_block_delta", Index: s.at(), Delta: delta})
		}
	}
	if p.reasoning != "" {
		add("thinking", openai.ThinkingBlock{Type: "thinking"}, openai.ThinkingDelta{Type: "thinking_delta", Thinking: p.reasoning})
	}
	if p.text != "" {
		add("text", openai.TextBlock{Type: "text"}, openai.TextDelta{Type: "text_delta", Text: p.text})
	}
	for _, c := range p.calls {
		if s.open == "tool_use" && c.index != s.call {
			events = append(events, s.shut()...)
		}
		s.call = c.index
		block := openai.ToolUseBlock{Type: "tool_use", ID: toolUseID(c.id), Name: c.name, Input: json.RawMessage("{}")}
		add("tool_use", block, openai.InputDelta{Type: "input_json_delta", PartialJSON: c.arguments})
	}
	return events
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
func (s *messageShape) closing(a *answer, finish parley.Finish) []openai.MessageEvent {
	reason, sequence := stopReason(a, finish)
	usage := openai.MessageUsageOf(a.usage, s.keep)
	return append(s.shut(),
		openai.MessageEvent{Type: "message_delta", Delta: openai.StopDelta{StopReason: reason, StopSequence: sequence}, Usage: &usage},
		openai.MessageEvent{Type: "message_stop"})
}

// sendNamed writes events with their names, in one go.
func (s *stream) sendNamed(events []openai.MessageEvent) error {
	var frames []byte
	for i := range events {
		body, err := openai.Encode(&events[i])
		if err != nil {
			return err
		}
		frames = appendNamed(frames, events[i].Type, body)
	}
	if len(frames) == 0 {
		return nil
	}
	return s.write(frames)
}

func appendNamed(frames []byte, name string, body []byte) []byte {
	frames = append(append(frames, "event: "...), name...)
	frames = append(append(frames, "\ndata: "...), body...)
	return append(frames, "\n\n"...)
}

// failMessage tells a client of the Anthropic interface of an error.
func (c *call) failMessage(err error) {
	status, header, body := openai.DescribeMessageError(err, c.id)
	switch {
	case c.stream != nil:
		if raw, err := openai.Encode(body); err == nil && !c.stream.broken && c.request.Context().Err() == nil {
			_ = c.stream.write(appendNamed(nil, "error", raw)) // the error is already kept
		}
	case c.status == 0:
		maps.Copy(c.Header(), header)
		_ = c.reply(status, body) // the error is already kept
	}
}
