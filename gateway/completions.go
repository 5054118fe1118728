package gateway

import (
	"cmp"
	"slices"
	"strings"
	"unicode/utf8"

	"parley"
	"parley/gateway/answer"
	"parley/gateway/exchange"
	"parley/gateway/models"
	"parley/gateway/openai"
	"parley/gateway/record"
	"parley/gateway/shape"
)

// completions answers POST /v1/completions: like chat, but from plain prompts,
// of which there may be several.
func (g *Gateway) completions(c *call) error {
	request, err := exchange.Read(c.Exchange, openai.ParseCompletion)
	if err != nil {
		return err
	}
	model, err := c.job.Model(request.Model)
	if err != nil {
		return err
	}
	query, err := c.job.Complete(c.Request.Context(), model, request)
	if err != nil {
		return err
	}
	return c.answerText(model, query, request.Stream, request.Gap, func(a *answer.Answer) error {
		form := newCompletionShape(c.Exchange, model, request, a)
		if request.Echo {
			form.prepareEchoes(c.job.Restored)
		}
		return c.SendAnswer(a, c.AsEvents(request.Stream, a, form, request.IncludeUsage),
			func(choices []answer.CollectedChoice) any { return form.whole(choices, a) })
	})
}

// A completionShape makes plain answers: whole ones and the chunks of streams.
type completionShape struct {
	record  *record.Request
	chunk   openai.CompletionResponse
	model   *models.Model
	request *openai.CompletionRequest
	answer  *answer.Answer
	// echoes are the texts that go before each prompt's continuations.
	echoes []string
}

func newCompletionShape(
	x *exchange.Exchange, m *models.Model, request *openai.CompletionRequest, a *answer.Answer,
) *completionShape {
	s := &completionShape{
		record:  x.Record,
		model:   m,
		request: request,
		answer:  a,
		echoes:  make([]string, len(request.Prompts)),
		chunk: openai.CompletionResponse{
			ID:          "cmpl-" + x.Suffix,
			Object:      "text_completion",
			Created:     x.Record.Started.Unix(),
			Model:       m.ID,
			Choices:     []openai.CompletionChoice{},
			ServiceTier: shape.TierUsed(request.ServiceTier),
		},
	}
	if request.IncludeUsage {
		s.chunk.Usage = &openai.OptionalUsage{}
	}
	return s
}

// prepareEchoes takes the prompts as the client sent them, unless it wants to see the tokens that the model read.
func (s *completionShape) prepareEchoes(restored func(string) string) {
	for i, p := range s.request.Prompts {
		s.echoes[i] = p.Text
		if p.IsTokens {
			s.echoes[i] = s.model.Tokenizer.Decode(p.Tokens, false)
		}
		if !s.request.Logprobs {
			s.echoes[i] = restored(s.echoes[i])
		}
	}
}

// whole returns the complete answer: of the continuations of each prompt, the
// most probable ones.
func (s *completionShape) whole(choices []answer.CollectedChoice, a *answer.Answer) openai.CompletionResponse {
	r := s.chunk
	u := openai.UsageOf(a.Usage)
	r.Usage, r.Timings = &openai.OptionalUsage{Usage: &u}, s.record.Timings(a.Usage)
	r.Parley = r.Timings.Beside()
	for prompt := range s.request.Prompts {
		for _, i := range s.best(prompt, a) {
			w := &choices[i]
			list := s.echoLogprobs(prompt)
			s.list(list, prompt, w.Tokens)
			r.Choices = append(r.Choices, openai.CompletionChoice{
				Index: len(r.Choices), Text: s.echoes[prompt] + w.Text.String(), Logprobs: list,
				FinishReason: &w.Finish,
			})
		}
	}
	return r
}

// best returns the indexes of the choices to return for a prompt, most
// probable first if some are left out, and otherwise in order.
func (s *completionShape) best(prompt int, a *answer.Answer) []int {
	indexes := make([]int, a.PerPrompt)
	for i := range indexes {
		indexes[i] = prompt*a.PerPrompt + i
	}
	if s.request.BestOf > s.request.Choices {
		slices.SortStableFunc(indexes, func(x, y int) int {
			return cmp.Compare(a.Choices[y].MeanLogprob(), a.Choices[x].MeanLogprob())
		})
	}
	return indexes[:s.request.Choices]
}

// with returns a chunk with one choice.
func (s *completionShape) with(c openai.CompletionChoice) openai.CompletionResponse {
	chunk := s.chunk
	chunk.Choices = []openai.CompletionChoice{c}
	return chunk
}

func (s *completionShape) prompt(choice int) int { return choice / s.answer.PerPrompt }

// Opening echoes the prompt, if that was asked for.
func (s *completionShape) Opening(choice int) any {
	if !s.request.Echo {
		return nil
	}
	prompt := s.prompt(choice)
	return s.with(openai.CompletionChoice{Index: choice, Text: s.echoes[prompt], Logprobs: s.echoLogprobs(prompt)})
}

func (s *completionShape) Content(p answer.Piece) any {
	list := s.emptyLogprobs()
	s.list(list, s.prompt(p.Choice), p.Tokens)
	return s.with(openai.CompletionChoice{Index: p.Choice, Text: p.Text, Logprobs: list})
}

func (s *completionShape) Closing(choice int, finish parley.Finish, timings *openai.Timings) any {
	chunk := s.with(openai.CompletionChoice{Index: choice, FinishReason: &finish})
	chunk.Timings, chunk.Parley = timings, timings.Beside()
	return chunk
}

func (s *completionShape) Usage(u openai.Usage, timings *openai.Timings) any {
	chunk := s.chunk
	chunk.Usage = &openai.OptionalUsage{Usage: &u}
	chunk.Timings, chunk.Parley = timings, timings.Beside()
	return chunk
}

func (s *completionShape) emptyLogprobs() *openai.CompletionLogprobs {
	if !s.request.Logprobs {
		return nil
	}
	return &openai.CompletionLogprobs{Tokens: []string{}, TokenLogprobs: []*float64{},
		TopLogprobs: []map[string]float64{}, TextOffset: []int{}}
}

// echoLogprobs lists the tokens of an echoed prompt. The first has no
// probability: nothing stands before it.
func (s *completionShape) echoLogprobs(prompt int) *openai.CompletionLogprobs {
	list := s.emptyLogprobs()
	if list == nil || !s.request.Echo {
		return list
	}
	known := s.answer.Prompts[prompt].Logprobs
	decoder := s.model.Tokenizer.NewDecoder(false)
	offset := 0
	for i, id := range s.answer.Prompts[prompt].Tokens {
		if i == 0 || i > len(known) {
			list.Tokens = append(list.Tokens, s.model.TokenText(id))
			list.TokenLogprobs = append(list.TokenLogprobs, nil)
			list.TopLogprobs = append(list.TopLogprobs, nil)
			list.TextOffset = append(list.TextOffset, offset)
		} else {
			l := known[i-1]
			l.Token = id
			s.listOne(list, l, offset)
		}
		if i > 0 || strings.HasPrefix(s.echoes[prompt], s.model.TokenText(id)) || !s.model.Tokenizer.IsSpecial(id) {
			offset += utf8.RuneCountInString(decoder.Push(id)) // a token that only begins the sequence has no text
		}
	}
	return list
}

// list appends tokens of a continuation, whose text begins after the echo.
func (s *completionShape) list(list *openai.CompletionLogprobs, prompt int, tokens []answer.ShownToken) {
	if list == nil {
		return
	}
	echoed := utf8.RuneCountInString(s.echoes[prompt])
	for _, t := range tokens {
		s.listOne(list, t.Logprob, echoed+t.Offset)
	}
}

func (s *completionShape) listOne(list *openai.CompletionLogprobs, l parley.Logprob, offset int) {
	chosen := openai.LogprobOf(l.Logprob)
	top := make(map[string]float64, len(l.Top)+1)
	for _, alternative := range l.Top[:min(len(l.Top), s.request.TopLogprobs)] {
		top[s.model.TokenText(alternative.Token)] = openai.LogprobOf(alternative.Logprob)
	}
	top[s.model.TokenText(l.Token)] = chosen
	list.Tokens = append(list.Tokens, s.model.TokenText(l.Token))
	list.TokenLogprobs = append(list.TokenLogprobs, &chosen)
	list.TopLogprobs = append(list.TopLogprobs, top)
	list.TextOffset = append(list.TextOffset, offset)
}
