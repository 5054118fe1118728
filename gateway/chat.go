package gateway

import (
	"net/http"

	"parley"
	"parley/gateway/openai"
)

// chat answers POST /v1/chat/completions. It is the whole path of a request.
func (g *Gateway) chat(c *call) error {
	body, err := c.body()
	if err != nil {
		return err
	}
	request, err := openai.ParseChat(body)
	if err != nil {
		return err
	}
	model, err := g.model(request.Model)
	if err != nil {
		return err
	}
	c.story.model = model.ID
	prompt, err := model.renderChat(request, g.config.Now())
	if err != nil {
		return err
	}
	if err := request.CheckVocab(model.vocabTokens); err != nil {
		return err
	}
	maxTokens, err := model.outputTokens("messages", len(prompt), &request.Generation)
	if err != nil {
		return err
	}
	job := model.newJob(c.id, &request.Generation, prompt)
	job.MaxTokens = maxTokens
	answer, stop := c.generate(model, []*parley.Request{job}, false)
	defer stop()

	form := newChatShape(c, model, &request.Generation)
	if request.Stream {
		return c.streamAnswer(answer, form, request.IncludeUsage)
	}
	choices, err := answer.collect(c.request.Context())
	if err != nil {
		return err
	}
	return c.reply(http.StatusOK, form.whole(choices, answer.usage))
}

// A chatShape makes chat answers: whole ones and the chunks of streams.
type chatShape struct {
	chunk    openai.ChatChunk
	model    *model
	logprobs bool
}

func newChatShape(c *call, m *model, g *openai.Generation) *chatShape {
	s := &chatShape{model: m, logprobs: g.Logprobs, chunk: openai.ChatChunk{
		ID: "chatcmpl-" + c.suffix, Object: "chat.completion.chunk", Created: c.started.Unix(),
		Model: m.ID, Choices: []openai.ChatChunkChoice{}, ServiceTier: tierUsed(g.ServiceTier),
	}}
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

func (s *chatShape) whole(choices []whole, u parley.Usage) openai.ChatResponse {
	r := openai.ChatResponse{
		ID: s.chunk.ID, Object: "chat.completion", Created: s.chunk.Created, Model: s.chunk.Model,
		Usage: openai.UsageOf(u), ServiceTier: s.chunk.ServiceTier, Timings: openai.TimingsOf(u),
	}
	for i := range choices {
		w := &choices[i]
		r.Choices = append(r.Choices, openai.ChatChoice{
			Index:        i,
			Message:      openai.ChatMessage{Role: "assistant", Content: w.text.String()},
			Logprobs:     s.listed(w.tokens),
			FinishReason: w.finish,
		})
	}
	return r
}

// with returns a chunk that tells of one choice.
func (s *chatShape) with(c openai.ChatChunkChoice) openai.ChatChunk {
	chunk := s.chunk
	chunk.Choices = []openai.ChatChunkChoice{c}
	return chunk
}

func (s *chatShape) opening(choice int) any {
	return s.with(openai.ChatChunkChoice{Index: choice, Delta: openai.ChatDelta{Role: "assistant", Content: new(string)}})
}

func (s *chatShape) content(p piece) any {
	return s.with(openai.ChatChunkChoice{Index: p.choice, Delta: openai.ChatDelta{Content: &p.text}, Logprobs: s.listed(p.tokens)})
}

func (s *chatShape) closing(choice int, finish parley.Finish, timings *openai.Timings) any {
	chunk := s.with(openai.ChatChunkChoice{Index: choice, FinishReason: &finish})
	chunk.Timings = timings
	return chunk
}

func (s *chatShape) usage(u openai.Usage, timings *openai.Timings) any {
	chunk := s.chunk
	chunk.Usage = &openai.OptionalUsage{Usage: &u}
	chunk.Timings = timings
	return chunk
}

// listed returns the log-probabilities of tokens if the client asked for them.
func (s *chatShape) listed(tokens []shownToken) *openai.ChatLogprobs {
	if !s.logprobs {
		return nil
	}
	list := &openai.ChatLogprobs{Content: []openai.TokenLogprob{}}
	for _, t := range tokens {
		list.Content = append(list.Content, s.model.tokenLogprob(t.Logprob))
	}
	return list
}
