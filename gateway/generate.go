package gateway

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"strconv"

	"parley"
	"parley/gateway/answer"
	"parley/gateway/convo"
	"parley/gateway/infer"
	"parley/gateway/models"
	"parley/gateway/openai"
)

// newJob makes the request for one prompt that the worker takes.
func (c *call) newJob(m *models.Model, g *openai.Generation, prompt []parley.Token) *parley.Request {
	c.seeded = g.Seeded
	job := &parley.Request{
		ID:          c.Record.ID,
		Model:       m.ID,
		Prompt:      prompt,
		Choices:     g.Choices,
		Sampling:    g.Sampling,
		Stop:        g.Stop,
		SinkTokens:  g.Sinks,
		Retain:      g.Retain,
		Logprobs:    g.Logprobs,
		TopLogprobs: g.TopLogprobs,
	}
	if !g.Seeded {
		job.Sampling.Seed = randomSeed()
	}
	c.claim(m, job)
	if g.Session != "" { // clients of two tenants may choose the same name
		job.Session = job.Tenant + " " + g.Session
	}
	return job
}

func randomSeed() uint64 {
	var b [8]byte
	rand.Read(b[:]) // never fails: crypto/rand ends the process instead
	return binary.LittleEndian.Uint64(b[:])
}

// generate starts jobs on the model's worker and returns their answer to come,
// which is held to a constraint and read by what reader makes, if not nil. Muted
// answers show no new tokens. The caller must call stop. What its limits do not allow
// is not begun.
func (c *call) generate(
	m *models.Model, jobs []*parley.Request, held *answer.Constraint, muted bool, reads func() *answer.Reader,
) (a *answer.Answer, stop func(), err error) {
	bill, err := c.reserve(m, jobs)
	if err != nil {
		return nil, nil, err
	}
	defer func() {
		if stop == nil { // a panic: nothing else can close the bill
			bill.close()
		}
	}()
	for i, job := range jobs {
		if len(jobs) > 1 {
			job.ID = fmt.Sprintf("%s-%d", c.Record.ID, i)
		}
		c.Record.AddPrompt(len(job.Prompt))
	}
	c.Bytes.Release() // what is left of the body fits the context
	c.Record.Handed()
	work := c.run(m, held, jobs, 0, bill)
	c.Record.SetWaiter(work.Waiter)
	a = answer.New(answer.Options{
		Work:        work,
		Requests:    jobs,
		Tokens:      m.Tokenizer,
		Held:        held,
		Muted:       muted,
		Reader:      reads,
		Screening:   c.outputPolicy(),
		Judged:      c.outsideJudge(),
		Seen:        c.Record.Delta,
		Settled:     bill.settle,
		Grow:        bill.grow,
		NoticeEvery: c.gateway.config.Admission.NoticeEvery,
	})
	return a, func() {
		work.Stop()
		bill.close()
	}, nil
}

// run hands the call's requests to the pipeline, at most so many at once. The caller
// must stop the generation.
func (c *call) run(
	m *models.Model, held *answer.Constraint, jobs []*parley.Request, atOnce int, b *bill,
) *infer.Generation {
	return c.gateway.pipeline.Run(c.Record.Travel(c.Request.Context()), &infer.Job{
		Model:      m.Pipeline,
		Requests:   jobs,
		AtOnce:     atOnce,
		Names:      []string{c.Record.ID, c.Record.ClientID},
		Arrived:    c.Record.Started,
		Background: c.Record.Background,
		Share:      c.sharing(m),
		Wrap:       held.Worker,
		Loose:      held.Loosely(),
		Routed:     &b.found,
	})
}

// capped returns the prompt of a conversation that is longer than the tier of its
// caller allows, made shorter as the tier's policy says: without its oldest turns,
// or not at all. A summary needs a stored conversation, so where one would be made
// the turns are left out. A header says how many messages are.
func (c *call) capped(m *models.Model, request *openai.ChatRequest, prompt []parley.Token) ([]parley.Token, error) {
	tier := c.tier()
	if c.beside || tier.Tokens == 0 || len(prompt) <= tier.Tokens {
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
	if c.ResponseWriter != nil {
		c.Header().Set(droppedHeader, strconv.Itoa(len(fit.Out)))
	}
	prompt, _, err = m.Render(request)
	return prompt, err
}

// droppedHeader says how many messages the model was not shown.
const droppedHeader = "X-Parley-Dropped-Messages"

// cappedPlain refuses a plain prompt that is longer than the tier of its caller
// allows: there is nothing in it that could be left out.
func (c *call) cappedPlain(param string, tokens int) error {
	if tier := c.tier(); tier.Tokens > 0 && tokens > tier.Tokens {
		return openai.ContextTooLong(param, tier.Tokens, tokens, 0)
	}
	return nil
}

// model returns the model that the client of a call named, as far as it may use it.
func (c *call) model(name string) (*models.Model, error) {
	return c.gateway.models.Find(&c.Identity, name)
}

// tier returns what the conversations of a call's tenant may hold.
func (c *call) tier() models.TierContext { return c.gateway.config.TierContexts[c.Identity.Tier] }
