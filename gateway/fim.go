package gateway

import (
	"context"

	"parley/gateway/answer"
	"parley/gateway/exchange"
	"parley/gateway/job"
	"parley/gateway/models"
	"parley/gateway/openai"
	"parley/gateway/shape"
)

// fim answers POST /v1/fim/completions: what belongs between two texts, in the
// shape of a chat, as editors read it. Without a suffix it continues the prompt.
//
// A session, named by prompt_cache_key or else by user, has one answer at a
// time: the request of the next keystroke ends the one before. A client that
// names none ends its requests by closing them.
func (g *Gateway) fim(c *call) error {
	request, err := exchange.Read(c.Exchange, openai.ParseFIM)
	if err != nil {
		return err
	}
	model, err := c.job.Model(request.Model)
	if err != nil {
		return err
	}
	query, err := c.job.FillGap(c.Request.Context(), model, request)
	if err != nil {
		return err
	}
	return c.answerText(model, query, request.Stream, request.Gap, func(a *answer.Answer) error {
		form := shape.NewChat(c.Exchange, model, &request.Generation)
		return c.SendAnswer(a, c.AsEvents(request.Stream, a, form, request.IncludeUsage),
			func(choices []answer.CollectedChoice) any { return form.Whole(choices, a.Usage) })
	})
}

// answerText has a model continue plain text, in the session that gap names, and send the answer.
func (c *call) answerText(
	m *models.Model, query *job.Query, stream bool, gap *openai.Gap, send func(*answer.Answer) error,
) error {
	answered := func() error {
		a, stop, err := c.job.Answer(c.Request.Context(), query)
		if err != nil {
			return err
		}
		defer stop()
		c.Bytes.Release() // what is left of the body fits the context
		return send(a)
	}
	return c.RunStream(stream, func() error { return c.inSession(m, gap, answered) })
}

// inSession answers the call as the newest of the session that gap names, if it
// names one. When a newer one comes, the call's context ends and the client
// hears why.
func (c *call) inSession(m *models.Model, gap *openai.Gap, answer func() error) error {
	if gap == nil || gap.Session == "" {
		return answer()
	}
	alone := c.Request
	who := c.Identity
	key := sessionKey{
		model:        m.ID,
		organization: who.Organization,
		user:         who.User,
		key:          who.Key,
		name:         gap.Session,
	}
	ctx, end := c.gateway.sessions.begin(alone.Context(), key)
	defer end()
	c.Request = alone.WithContext(ctx)
	err := answer()
	c.Request = alone
	if err != nil && ctx.Err() != nil && alone.Context().Err() == nil {
		return context.Cause(ctx)
	}
	return err
}
