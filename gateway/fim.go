package gateway

import (
	"net/http"

	"parley"
	"parley/gateway/answer"
	"parley/gateway/openai"
)

// fim answers POST /v1/fim/completions: what belongs between two texts, in the
// shape of a chat, as editors read it. Without a suffix it continues the prompt.
//
// A session, named by prompt_cache_key or else by user, has one answer at a
// time: the request of the next keystroke ends the one before. A client that
// names none ends its requests by closing them.
func (g *Gateway) fim(c *call) error {
	body, err := c.Body()
	if err != nil {
		return err
	}
	request, err := openai.ParseFIM(body)
	if err != nil {
		return err
	}
	model, err := c.model(request.Model)
	if err != nil {
		return err
	}
	c.Record.SetModel(model.ID)
	if err := request.CheckVocab(model.VocabTokens); err != nil {
		return err
	}
	if err := model.CheckPrompts([]openai.Prompt{request.Before}, request.Gap, request.Sinks); err != nil {
		return err
	}
	if err := c.screenGap(model, &request.Before, request.Gap); err != nil {
		return err
	}
	prompt, err := model.EncodeBefore(request.Before, request.Gap)
	if err != nil {
		return err
	}
	if err := c.cappedPlain("prompt", len(prompt)); err != nil {
		return err
	}
	maxTokens, err := model.OutputTokens("prompt", len(prompt), &request.Generation)
	if err != nil {
		return err
	}
	job := c.newJob(model, &request.Generation, prompt)
	job.MaxTokens = maxTokens
	model.PrepareGap(job, request.Gap)
	held := answer.ConstrainText(&request.Format)
	job.Grammar = held.Grammar
	c.Record.Constrain(request.Format.Kind, 0)
	answered := func() error {
		answer, stop, err := c.generate(model, []*parley.Request{job}, &held, false, nil)
		if err != nil {
			return err
		}
		defer stop()
		form := newChatShape(c, model, &request.Generation)
		if request.Stream {
			return c.StreamAnswer(answer, form, request.IncludeUsage)
		}
		choices, err := answer.Collect(c.Request.Context())
		if err != nil {
			return err
		}
		return c.Reply(http.StatusOK, form.whole(choices, answer.Usage))
	}
	return c.runStream(request.Stream, func() error { return c.inSession(model, request.Gap, answered) })
}
