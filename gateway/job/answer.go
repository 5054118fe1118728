package job

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"parley"
	"parley/gateway/answer"
	"parley/gateway/bill"
	"parley/gateway/infer"
	"parley/gateway/models"
	"parley/gateway/openai"
)

// Answer starts the generation of a prompt and returns the answer to come: what the
// caller's limits do not allow is not begun, and what its policy does not allow is not
// shown. The caller must call stop, which settles what was used if the answer was
// broken off.
func (j *Job) Answer(ctx context.Context, p *Query) (a *answer.Answer, stop func(), err error) {
	g, err := j.begin(ctx, p)
	if err != nil {
		return nil, nil, err
	}
	if p.chat != nil {
		g.options.Again = func(failure error) (*answer.Options, error) {
			next, started, err := j.beginInstead(ctx, p, g, failure)
			if err != nil {
				return nil, err
			}
			p, g = next, started
			return &g.options, nil
		}
	}
	return answer.New(g.options), func() {
		g.options.Work.Stop()
		g.bill.Close()
	}, nil
}

// A generation is one that was begun: its bill is open, and its work not stopped.
type generation struct {
	options answer.Options
	bill    *bill.Bill
}

// begin reserves what a prompt may use, and hands it to the pipeline.
func (j *Job) begin(ctx context.Context, p *Query) (g *generation, err error) {
	b, err := j.payer.Reserve(ctx, p.model, p.requests)
	if err != nil {
		return nil, err
	}
	j.bill = b
	defer func() {
		if g == nil { // a panic: nothing else can close the bill
			b.Close()
		}
	}()
	for i, r := range p.requests {
		if len(p.requests) > 1 {
			r.ID = fmt.Sprintf("%s-%d", j.Record.ID, i)
		}
		j.Record.AddPrompt(p.model.PromptTokens(r.Prompt))
	}
	if p.muted {
		j.Record.WantsNoOutput()
	}
	j.Record.Handed()
	work := j.run(ctx, p, 0, b)
	j.Record.SetWaiter(work.Waiter)
	return &generation{bill: b, options: answer.Options{
		Work:        work,
		Requests:    p.requests,
		Tokens:      p.model.Tokenizer,
		Gauge:       p.model.Gauge,
		Held:        &p.constraint,
		Muted:       p.muted,
		Reader:      p.reads,
		Screening:   j.screening.OutputPolicy(),
		Judged:      j.screening.Judge(ctx),
		Seen:        j.seen(p),
		Settled:     b.Settle,
		Grow:        b.Grow,
		NoticeEvery: j.server.NoticeEvery,
	}}, nil
}

// seen returns what counts each step of the answer to a query.
func (j *Job) seen(p *Query) func(choice int, came *infer.Step) {
	counted := j.Record
	return func(choice int, came *infer.Step) {
		counted.Delta(choice, came)
		if u := came.Delta.Usage; u != nil && !came.Shared && !j.Record.Internal && len(p.requests) == 1 {
			j.server.Prefixes.Saw(p.requests[0], cmp.Or(p.application, j.Record.Who.Key), u.CachedTokens)
		}
	}
}

// beginInstead begins the answer of another model to the conversation of p, whose generation failed before
// its first token. It returns the failure if no other model is to be asked.
func (j *Job) beginInstead(ctx context.Context, p *Query, g *generation, failure error) (*Query, *generation, error) {
	cause := models.CauseOf(failure)
	for {
		m := j.instead(p.chat, p.model.ID, cause, failure)
		if m == nil {
			return nil, nil, failure
		}
		if g != nil {
			g.options.Work.Stop()
			g.bill.Fail()
			g = nil
		}
		next, err := j.chatFor(ctx, m, p.chat)
		if err == nil {
			var started *generation
			if started, err = j.begin(ctx, next); err == nil {
				return next, started, nil
			}
			return nil, nil, err // a limit of the caller's
		}
		p, cause, failure = &Query{model: m, chat: p.chat}, models.CauseOf(err), err
	}
}

// run hands a prompt's requests to the pipeline, at most atOnce of them at a time, 0
// for all. The caller must stop the generation.
func (j *Job) run(ctx context.Context, p *Query, atOnce int, b *bill.Bill) *infer.Generation {
	return j.server.Pipeline.Run(j.Record.Travel(ctx), &infer.Task{
		Model:      p.model.Pipeline,
		Requests:   p.requests,
		AtOnce:     atOnce,
		Names:      []string{j.Record.ID, j.Record.ClientID},
		Arrived:    j.Record.Started,
		Background: j.Record.Background,
		Person:     j.Record.Person,
		Share:      j.sharing(p.model),
		Wrap:       p.constraint.Worker,
		Loose:      p.constraint.Loosely(),
		Routed:     &b.Routed,
	})
}

// Converse starts the answer to a conversation. Every endpoint at which people talk
// with a model comes by here, in its own shape. The caller must call stop.
func (j *Job) Converse(
	ctx context.Context, m *models.Model, request *openai.ChatRequest,
) (a *answer.Answer, stop func(), err error) {
	p, err := j.Chat(ctx, m, request)
	if err != nil {
		return nil, nil, err
	}
	return j.Answer(ctx, p)
}

// Ask has the model do what task says with a text, in at most maxTokens tokens.
func (j *Job) Ask(
	ctx context.Context, m *models.Model, task, text string, maxTokens int,
) (string, parley.Usage, error) {
	request := &openai.ChatRequest{OpenTurn: true, Messages: []openai.Message{
		{Role: "system", Content: task, HasContent: true}, {Role: "user", Content: text, HasContent: true},
	}}
	request.Choices, request.MaxTokens = 1, maxTokens
	a, stop, err := j.Converse(ctx, m, request)
	if err != nil {
		return "", parley.Usage{}, err
	}
	defer stop()
	choices, err := a.Collect(ctx)
	if err != nil {
		return "", parley.Usage{}, err
	}
	return strings.TrimSpace(choices[0].Text.String()), a.Usage, nil
}

// guardTokens bounds what a guard model says.
const guardTokens = 32

// askGuard has a model of this server say what it thinks of a text.
func (j *Job) askGuard(ctx context.Context, name, text string) (string, error) {
	m, err := j.Model(name)
	if err != nil {
		return "", err
	}
	said, _, err := j.Beside("guard").Ask(ctx, m, "You are a strict moderator.", text, guardTokens)
	return said, err
}
