package job

import (
	"context"

	"parley"
	"parley/gateway/answer"
	"parley/gateway/convo"
	"parley/gateway/dialect"
	"parley/gateway/ledger"
	"parley/gateway/models"
	"parley/gateway/openai"
)

// A Query is what a model is asked, ready for a worker: screened, rendered, and known
// to fit the context.
type Query struct {
	model    *models.Model
	requests []*parley.Request
	// constraint is what the answer must match, and reads makes what reads a choice; nil
	// if all of it is text. Muted answers show no new tokens.
	constraint answer.Constraint
	reads      func() *dialect.Reader
	muted      bool
	// application is the program that asks, if the client names it.
	application string
	// chat is what the query was made from, if another model may be asked instead.
	chat *chatQuery
}

// A chatQuery is what the query of a conversation was made from, so that it can be made for another model.
type chatQuery struct {
	request *openai.ChatRequest
	// tried are the models that failed, left those that may be asked instead of them, in order.
	tried, left []string
}

// ReadBy has the answer read by what reads makes, for a plain prompt that was rendered
// from a conversation; nil takes all of it for text.
func (p *Query) ReadBy(reads func() *dialect.Reader) { p.reads = reads }

// Chat prepares the prompt of a conversation.
func (j *Job) Chat(ctx context.Context, m *models.Model, request *openai.ChatRequest) (*Query, error) {
	c := &chatQuery{request: request}
	j.Record.SetModel(m.ID)
	for {
		err := m.CheckChat(request)
		if err == nil {
			break
		}
		failed := m.ID
		if m = j.instead(c, failed, models.CauseOf(err), err); m == nil {
			return nil, err
		}
		j.Record.SetModel(m.ID)
	}
	if err := j.screening.Chat(ctx, m, request); err != nil {
		return nil, err
	}
	for {
		p, err := j.chatFor(ctx, m, c)
		if err == nil {
			return p, nil
		}
		failed := m.ID
		if m = j.instead(c, failed, models.CauseOf(err), err); m == nil {
			return nil, err
		}
	}
}

// chatFor prepares the prompt of a conversation that was screened, if for another model.
func (j *Job) chatFor(ctx context.Context, m *models.Model, c *chatQuery) (*Query, error) {
	request := c.request
	j.Record.SetModel(m.ID)
	if err := j.screening.ChatInstead(ctx, m, request); err != nil {
		return nil, err
	}
	begun := j.server.Now()
	prompt, thinking, err := m.Render(request)
	j.Record.Took(ledger.Tokenize, begun)
	if err != nil {
		return nil, err
	}
	if err := request.CheckVocab(m.VocabTokens); err != nil {
		return nil, err
	}
	if prompt, err = j.capped(m, request, prompt); err != nil {
		return nil, err
	}
	maxTokens, err := m.OutputTokens("messages", m.PromptTokens(prompt), &request.Generation)
	if err != nil {
		return nil, err
	}
	r := j.request(m, &request.Generation, prompt)
	r.MaxTokens, r.Turns = maxTokens, models.Turns(request)
	if len(request.Messages) > 0 {
		j.share.public = j.server.Pipeline.IsPublicPrompt(request.Messages[0].Content)
	}
	r.Progress = request.Progress
	if !request.Logprobs {
		r.Elsewhere = j.server.Models.Elsewhere(j.Record.Who, m.ID, c.tried, c.left)
	}
	constraint, err := m.Tools.Constrain(request, thinking)
	if err != nil {
		return nil, err
	}
	r.Grammar, r.Terms = constraint.Grammar, answer.TermsOf(request)
	r.Thinking = answer.ThinkingOf(request)
	j.Record.Constrain(request.Format.Kind, len(answer.Callable(request)))
	if len(r.Elsewhere) == 0 {
		c = nil // a stream need not keep the client's request
	}
	return &Query{
		model:       m,
		requests:    []*parley.Request{r},
		constraint:  constraint,
		reads:       m.Tools.Readers(request, thinking),
		muted:       request.PromptOnly,
		application: request.Application,
		chat:        c,
	}, nil
}

// capped returns the prompt of a conversation that is longer than the tier of its
// caller allows, made shorter as the tier's policy says: without its oldest turns,
// or not at all. A summary needs a stored conversation, so where one would be made
// the turns are left out. The client is told how many messages are.
func (j *Job) capped(
	m *models.Model, request *openai.ChatRequest, prompt []parley.Token,
) ([]parley.Token, error) {
	tier := j.Tier()
	if j.Record.Internal || tier.Tokens == 0 || m.PromptTokens(prompt) <= tier.Tokens {
		return prompt, nil
	}
	policy := tier.Policy
	if policy == convo.Summarise {
		policy = convo.Drop
	}
	fit, err := m.Fit(tier, policy, request, 0)
	if err != nil || len(fit.Out) == 0 {
		return prompt, err
	}
	request.Messages = models.Without(request.Messages, fit.Out)
	if j.hooks.Dropped != nil {
		j.hooks.Dropped(len(fit.Out))
	}
	prompt, _, err = m.Render(request)
	return prompt, err
}

// cappedPlain refuses a plain prompt that is longer than the tier of its caller
// allows: there is nothing in it that could be left out.
func (j *Job) cappedPlain(param string, tokens int) error {
	if tier := j.Tier(); tier.Tokens > 0 && tokens > tier.Tokens {
		return openai.ContextTooLong(param, tier.Tokens, tokens, 0)
	}
	return nil
}

// Restored returns a prompt that was read as the client sent it, where answers have what was taken out of it, too.
func (j *Job) Restored(prompt string) string { return j.screening.Restored(prompt) }

// Complete prepares plain prompts, of which there may be several.
func (j *Job) Complete(ctx context.Context, m *models.Model, request *openai.CompletionRequest) (*Query, error) {
	j.Record.SetModel(m.ID)
	if err := request.CheckVocab(m.VocabTokens); err != nil {
		return nil, err
	}
	if err := m.CheckPrompts(request.Prompts, request.Gap, request.Sinks); err != nil {
		return nil, err
	}
	if err := j.screening.Completion(ctx, m, request); err != nil {
		return nil, err
	}
	p := &Query{model: m, constraint: answer.ConstrainText(&request.Format), muted: request.MaxTokens == 0}
	begun := j.server.Now()
	for i := range request.Prompts {
		r, err := j.plain(m, request.Prompts[i], request.Gap, &request.Generation)
		if err != nil {
			return nil, err
		}
		r.MaxTokens = max(r.MaxTokens, 1) // a worker reads 0 as "as many as fit"
		r.Choices = request.BestOf
		r.Logprobs = request.Logprobs || request.BestOf > request.Choices
		r.PromptLogprobs = request.Logprobs && request.Echo
		r.Grammar = p.constraint.Grammar
		p.requests = append(p.requests, r)
	}
	j.Record.Took(ledger.Tokenize, begun)
	j.Record.Constrain(request.Format.Kind, 0)
	j.share.public = j.server.Pipeline.IsPublicPrompt(request.Prompts[0].Text)
	return p, nil
}

// FillGap prepares the prompt for what belongs between two texts.
func (j *Job) FillGap(ctx context.Context, m *models.Model, request *openai.FIMRequest) (*Query, error) {
	j.Record.SetModel(m.ID)
	if err := request.CheckVocab(m.VocabTokens); err != nil {
		return nil, err
	}
	if err := m.CheckPrompts([]openai.Prompt{request.Before}, request.Gap, request.Sinks); err != nil {
		return nil, err
	}
	if err := j.screening.Gap(ctx, m, &request.Before, request.Gap); err != nil {
		return nil, err
	}
	r, err := j.plain(m, request.Before, request.Gap, &request.Generation)
	if err != nil {
		return nil, err
	}
	p := &Query{model: m, requests: []*parley.Request{r}, constraint: answer.ConstrainText(&request.Format)}
	r.Grammar = p.constraint.Grammar
	j.Record.Constrain(request.Format.Kind, 0)
	return p, nil
}

// plain makes the request for a plain prompt, or for what belongs into a gap.
func (j *Job) plain(
	m *models.Model, p openai.Prompt, gap *openai.Gap, g *openai.Generation,
) (*parley.Request, error) {
	prompt, err := m.EncodeBefore(p, gap)
	if err != nil {
		return nil, err
	}
	if err := j.cappedPlain("prompt", len(prompt)); err != nil {
		return nil, err
	}
	maxTokens, err := m.OutputTokens("prompt", m.PromptTokens(prompt), g)
	if err != nil {
		return nil, err
	}
	r := j.request(m, g, prompt)
	r.MaxTokens = maxTokens
	m.PrepareGap(r, gap)
	return r, nil
}

// instead returns the model to ask instead of one that failed, and notes it in the record; nil if there is none. The
// log-probabilities of another model would be of other tokens.
func (j *Job) instead(c *chatQuery, failed string, cause models.Cause, failure error) *models.Model {
	if c.request.Logprobs {
		return nil
	}
	m := j.server.Models.Next(j.Record.Who, failed, cause, &c.tried, &c.left)
	if m != nil {
		j.Record.FallBack(failed, m.ID, string(cause), failure)
	}
	return m
}
