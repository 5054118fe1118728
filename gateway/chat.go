package gateway

import (
	"net/http"

	"parley"
	"parley/gateway/answer"
	"parley/gateway/models"
	"parley/gateway/openai"
)

// chat answers POST /v1/chat/completions. It is the whole path of a request.
func (g *Gateway) chat(c *call) error {
	body, err := c.Body()
	if err != nil {
		return err
	}
	request, err := openai.ParseChat(body)
	if err != nil {
		return err
	}
	model, err := c.job.Model(request.Model)
	if err != nil {
		return err
	}
	if request.Stream {
		c.detachFromHandler()
	}
	answer, stop, err := c.job.Converse(c.Request.Context(), model, request)
	if err != nil {
		return err
	}
	c.Bytes.Release() // what is left of the body fits the context
	form := newChatShape(c, model, &request.Generation)
	if request.Stream {
		form.prepare()
		includeUsage := request.IncludeUsage // a stream holds on to nothing else of the request
		return c.runDetached(func() error {
			defer stop()
			return c.StreamAnswer(answer, form, includeUsage)
		})
	}
	defer stop()
	choices, err := answer.Collect(c.Request.Context())
	if err != nil {
		return err
	}
	return c.Reply(http.StatusOK, form.whole(choices, answer.Usage))
}

// A chatShape makes chat answers: whole ones and the chunks of streams.
type chatShape struct {
	call     *call
	chunk    openai.ChatChunk
	model    *models.Model
	logprobs bool
	// counting chunks say how many tokens there are by now, after a prompt of
	// promptTokens.
	counting     bool
	promptTokens int
	// template is what the chunks of the first choice look like, and first the
	// event that comes before them.
	template *textTemplate
	first    openai.EncodedJSON
}

func newChatShape(c *call, m *models.Model, g *openai.Generation) *chatShape {
	s := &chatShape{
		call:         c,
		model:        m,
		logprobs:     g.Logprobs,
		counting:     g.CountUsage,
		promptTokens: c.Record.PromptTokens(),
		chunk: openai.ChatChunk{
			ID:          "chatcmpl-" + c.Suffix,
			Object:      "chat.completion.chunk",
			Created:     c.Record.Started.Unix(),
			Model:       m.ID,
			Choices:     []openai.ChatChunkChoice{},
			ServiceTier: tierUsed(g.ServiceTier),
		},
	}
	if g.IncludeUsage {
		s.chunk.Usage = &openai.OptionalUsage{}
	}
	return s
}

// tierUsed names the tier of an answer: there is one, and it is named only to
// clients who asked for a tier.
func tierUsed(asked string) string {
	if asked == "" {
		return ""
	}
	return "default"
}

func (s *chatShape) whole(choices []answer.CollectedChoice, u parley.Usage) *openai.ChatResponse {
	r := &openai.ChatResponse{
		ID:          s.chunk.ID,
		Object:      "chat.completion",
		Created:     s.chunk.Created,
		Model:       s.chunk.Model,
		Usage:       openai.UsageOf(u),
		ServiceTier: s.chunk.ServiceTier,
		Timings:     s.call.Record.Timings(u),
	}
	for i := range choices {
		w := &choices[i]
		r.Choices = append(r.Choices,
			openai.ChatChoice{Index: i, Message: chatMessage(w), Logprobs: s.listed(w.Tokens), FinishReason: w.Finish})
	}
	return r
}

// chatMessage is what was said in a choice. A message of nothing but calls has
// no content.
func chatMessage(w *answer.CollectedChoice) openai.ChatMessage {
	m := openai.ChatMessage{Role: "assistant", ReasoningContent: w.Reasoning.String()}
	if text := w.Text.String(); text != "" || len(w.Calls) == 0 {
		m.Content = &text
	}
	for _, call := range w.Calls {
		m.ToolCalls = append(m.ToolCalls, openai.ChatToolCall{ID: call.ID, Type: "function",
			Function: openai.ChatToolFunction{Name: call.Name, Arguments: call.Arguments.String()}})
	}
	return m
}

// with returns a chunk that tells of one choice.
func (s *chatShape) with(c openai.ChatChunkChoice) openai.ChatChunk {
	chunk := s.chunk
	chunk.Choices = []openai.ChatChunkChoice{c}
	return chunk
}

// prepare makes what the first events are made of. Any JSON takes a deep stack, and
// that of a stream should stay small for as long as it is open.
func (s *chatShape) prepare() {
	s.first, _ = openai.Encode(s.Opening(0)) // who cannot have it now gets the error later
	if t, ok := newTextTemplate(s.Content(answer.Piece{Text: templateText})); ok {
		s.template = t
	}
}

func (s *chatShape) Opening(choice int) any {
	if choice == 0 && s.first != nil {
		return s.first
	}
	return s.with(
		openai.ChatChunkChoice{Index: choice, Delta: openai.ChatDelta{Role: "assistant", Content: new(string)}})
}

func (s *chatShape) Content(p answer.Piece) any {
	delta := openai.ChatDelta{ReasoningContent: p.Reasoning}
	if p.Text != "" || p.Reasoning == "" && len(p.Calls) == 0 {
		delta.Content = &p.Text
	}
	for _, c := range p.Calls {
		call := openai.ChatToolCall{Index: &c.Index, ID: c.ID,
			Function: openai.ChatToolFunction{Name: c.Name, Arguments: c.Arguments}}
		if c.ID != "" {
			call.Type = "function"
		}
		delta.ToolCalls = append(delta.ToolCalls, call)
	}
	chunk := s.with(openai.ChatChunkChoice{Index: p.Choice, Delta: delta, Logprobs: s.listed(p.Tokens)})
	chunk.Progress = openai.ProgressOf(p.Progress)
	if s.counting {
		u := openai.UsageOf(parley.Usage{PromptTokens: s.promptTokens, OutputTokens: p.OutputTokens})
		chunk.Usage = &openai.OptionalUsage{Usage: &u}
	}
	return chunk
}

func (s *chatShape) Closing(choice int, finish parley.Finish, timings *openai.Timings) any {
	chunk := s.with(openai.ChatChunkChoice{Index: choice, FinishReason: &finish})
	chunk.Timings = timings
	return chunk
}

func (s *chatShape) Usage(u openai.Usage, timings *openai.Timings) any {
	chunk := s.chunk
	chunk.Usage = &openai.OptionalUsage{Usage: &u}
	chunk.Timings = timings
	return chunk
}

// listed returns the log-probabilities of tokens if the client asked for them.
func (s *chatShape) listed(tokens []answer.ShownToken) *openai.ChatLogprobs {
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
func (s *chatShape) TextEvent(to []byte, p *answer.Piece) ([]byte, bool) {
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
