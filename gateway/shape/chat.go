package shape

import (
	"parley"
	"parley/gateway/answer"
	"parley/gateway/exchange"
	"parley/gateway/models"
	"parley/gateway/openai"
	"parley/gateway/record"
)

// A Chat makes chat answers: whole ones and the chunks of streams.
type Chat struct {
	record   *record.Request
	chunk    openai.ChatChunk
	model    *models.Model
	logprobs bool
	// LegacyCalls are written as function_call.
	LegacyCalls bool
	// counting chunks say how many tokens there are by now, after a prompt of
	// PromptTokens.
	counting     bool
	PromptTokens int
	// template is what the chunks of the first choice look like, and first the
	// event that comes before them.
	template *textTemplate
	first    openai.EncodedJSON
}

// NewChat returns the shape of the answer to a request, which x asked and m answers.
func NewChat(x *exchange.Exchange, m *models.Model, g *openai.Generation) *Chat {
	s := &Chat{
		record:       x.Record,
		model:        m,
		logprobs:     g.Logprobs,
		counting:     g.CountUsage,
		PromptTokens: x.Record.PromptTokens(),
		chunk: openai.ChatChunk{
			ID:          "chatcmpl-" + x.Suffix,
			Object:      "chat.completion.chunk",
			Created:     x.Record.Started.Unix(),
			Model:       m.ID,
			Choices:     []openai.ChatChunkChoice{},
			ServiceTier: TierUsed(g.ServiceTier),
		},
	}
	if g.IncludeUsage {
		s.chunk.Usage = &openai.OptionalUsage{}
	}
	return s
}

// TierUsed names the tier of an answer: there is one, and it is named only to
// clients who asked for a tier.
func TierUsed(asked string) string {
	if asked == "" {
		return ""
	}
	return "default"
}

// Whole returns choices that were collected to their end.
func (s *Chat) Whole(choices []answer.CollectedChoice, u parley.Usage) *openai.ChatResponse {
	s.Rename()
	r := &openai.ChatResponse{
		ID:          s.chunk.ID,
		Object:      "chat.completion",
		Created:     s.chunk.Created,
		Model:       s.chunk.Model,
		Usage:       openai.UsageOf(u),
		ServiceTier: s.chunk.ServiceTier,
		Timings:     s.record.Timings(u),
		Parley:      openai.ExtrasOf(u),
	}
	for i := range choices {
		w := &choices[i]
		m := chatMessage(w)
		if s.LegacyCalls {
			m.FunctionCall, m.ToolCalls = older(m.ToolCalls)
		}
		r.Choices = append(r.Choices,
			openai.ChatChoice{Index: i, Message: m, Logprobs: s.listed(w.Tokens), FinishReason: s.finish(w.Finish)})
	}
	return r
}

// older returns the call of an answer as the older function_call, and no others: such clients are given one at most.
func older(calls []openai.ChatToolCall) (*openai.ChatToolFunction, []openai.ChatToolCall) {
	if len(calls) == 0 {
		return nil, nil
	}
	return calls[0].Function, nil
}

// finish is why a choice ended, in the words that the client knows.
func (s *Chat) finish(f parley.Finish) parley.Finish {
	if s.LegacyCalls && f == answer.FinishToolCalls {
		return "function_call"
	}
	return f
}

// chatMessage is what was said in a choice. A message of nothing but calls has
// no content.
func chatMessage(w *answer.CollectedChoice) openai.ChatMessage {
	m := openai.ChatMessage{Role: "assistant", ReasoningContent: w.Reasoning.String()}
	if text := w.Text.String(); text != "" || len(w.Calls) == 0 {
		m.Content = &text
	}
	for _, call := range w.Calls {
		m.ToolCalls = append(m.ToolCalls,
			openai.NewChatToolCall(nil, call.ID, call.Name, call.Arguments.String(), call.Custom))
	}
	return m
}

// with returns a chunk about one choice.
func (s *Chat) with(c openai.ChatChunkChoice) openai.ChatChunk {
	chunk := s.chunk
	chunk.Choices = []openai.ChatChunkChoice{c}
	return chunk
}

// Prepare makes what the first events are made of. Any JSON takes a deep stack, and
// that of a stream should stay small for as long as it is open.
func (s *Chat) Prepare() {
	s.first, _ = openai.Encode(s.Opening(0)) // who cannot have it now gets the error later
	if t, ok := newTextTemplate(s.Content(answer.Piece{Text: templateText})); ok {
		s.template = t
	}
}

// Rename names the model that answers, which may be another than was asked for.
func (s *Chat) Rename() {
	if name := s.record.Model(); name != "" && name != s.chunk.Model {
		s.chunk.Model = name
		if s.first != nil {
			s.first = nil
			s.Prepare()
		}
	}
}

// Opening returns the first event of a choice.
func (s *Chat) Opening(choice int) any {
	s.Rename()
	if choice == 0 && s.first != nil {
		return s.first
	}
	return s.with(
		openai.ChatChunkChoice{Index: choice, Delta: openai.ChatDelta{Role: "assistant", Content: new(string)}})
}

// Content returns the event that adds a piece.
func (s *Chat) Content(p answer.Piece) any {
	delta := openai.ChatDelta{ReasoningContent: p.Reasoning}
	if p.Text != "" || p.Reasoning == "" && len(p.Calls) == 0 {
		delta.Content = &p.Text
	}
	for _, c := range p.Calls {
		delta.ToolCalls = append(delta.ToolCalls,
			openai.NewChatToolCall(&c.Index, c.ID, c.Name, c.Arguments, c.Custom))
	}
	if s.LegacyCalls {
		delta.FunctionCall, delta.ToolCalls = older(delta.ToolCalls)
	}
	chunk := s.with(openai.ChatChunkChoice{Index: p.Choice, Delta: delta, Logprobs: s.listed(p.Tokens)})
	chunk.Progress = openai.ProgressOf(p.Progress)
	if s.counting {
		u := openai.UsageOf(parley.Usage{PromptTokens: s.PromptTokens, OutputTokens: p.OutputTokens})
		chunk.Usage = &openai.OptionalUsage{Usage: &u}
	}
	return chunk
}

// Closing returns the last event of a choice.
func (s *Chat) Closing(choice int, finish parley.Finish, timings *openai.Timings) any {
	finish = s.finish(finish)
	chunk := s.with(openai.ChatChunkChoice{Index: choice, FinishReason: &finish})
	chunk.Timings, chunk.Parley = timings, timings.Beside()
	return chunk
}

// Usage returns the event that carries the usage.
func (s *Chat) Usage(u openai.Usage, timings *openai.Timings) any {
	chunk := s.chunk
	chunk.Usage = &openai.OptionalUsage{Usage: &u}
	chunk.Timings, chunk.Parley = timings, timings.Beside()
	return chunk
}

// listed returns the log-probabilities of tokens if the client asked for them.
func (s *Chat) listed(tokens []answer.ShownToken) *openai.ChatLogprobs {
	if !s.logprobs {
		return nil
	}
	list := &openai.ChatLogprobs{Content: []openai.TokenLogprob{}}
	for _, t := range tokens {
		list.Content = append(list.Content, s.model.TokenLogprob(t.Logprob))
	}
	return list
}

// TextEvent appends the chunk that adds text to a choice.
func (s *Chat) TextEvent(to []byte, p *answer.Piece) ([]byte, bool) {
	if s.counting || s.logprobs || p.Choice != 0 {
		return to, false
	}
	if s.template == nil {
		t, ok := newTextTemplate(s.Content(answer.Piece{Text: templateText}))
		if !ok {
			return to, false
		}
		s.template = t
	}
	return s.template.event(to, p.Text)
}
