package gateway

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"sync"
	"time"

	"parley"
	"parley/gateway/answer"
	"parley/gateway/infer"
	"parley/gateway/limit"
	"parley/gateway/openai"
	"parley/token"
)

// A model is a [Served] with its defaults filled in.
type model struct {
	Served
	// vocabTokens is one more than the largest token id.
	vocabTokens int
	tools       answer.Tools
	// pipeline is the model as the pipeline knows it.
	pipeline *infer.Model
	// public are the beginnings that all tenants share; nil without any.
	public *publicPrompts
	now    func() time.Time
	// answers is how long the model's answers are.
	answers *limit.Estimate
	// bytesPerToken is as [bytesPerToken] says, found out when it is first needed.
	bytesPerToken func() int
}

func newModel(served Served, now time.Time) *model {
	m := &model{Served: served, vocabTokens: served.Tokenizer.Size(),
		tools: answer.OpenToolbox(served.Tokenizer, served.Template, now), answers: new(limit.Estimate)}
	m.ContextTokens = served.contextTokens()
	m.bytesPerToken = sync.OnceValue(func() int { return bytesPerToken(served.Tokenizer) })
	setDefault(&m.OwnedBy, "parley")
	if m.Created.IsZero() {
		m.Created = now
	}
	return m
}

func (m *model) encode(param, text string, options token.Options) ([]parley.Token, error) {
	tokens, err := m.Tokenizer.Encode(text, options)
	if err != nil {
		return nil, untokenizable(param, err)
	}
	return tokens, nil
}

func untokenizable(param string, err error) error {
	return parley.Invalid(param, "Invalid '%s': the text cannot be tokenized: %v.", param, err)
}

// answerTokensMin is how many tokens an answer has to be left with that is cut to
// what fits the context. With less, a client is told, so that it can shorten its
// prompt.
const answerTokensMin = 1024

// outputTokens returns how many tokens the answer to a prompt may have, or the
// error if they do not fit the context; 0 asks for as many as fit. Only a
// number that the client named itself can be too large.
func (m *model) outputTokens(param string, promptTokens int, g *openai.Generation) (int, error) {
	room := m.ContextTokens - promptTokens
	switch {
	case g.Sinks > 0:
		return g.MaxTokens, nil
	case room <= 0:
		return 0, openai.ContextTooLong(param, m.ContextTokens, promptTokens, 0)
	case g.MaxTokens <= room:
		return g.MaxTokens, nil
	case g.MaxTokensParam == "", g.CutToFit && room >= answerTokensMin:
		return room, nil
	}
	return 0, openai.ContextTooLong(param, m.ContextTokens, promptTokens, g.MaxTokens)
}

// newJob makes the request for one prompt that the worker takes.
func (c *call) newJob(m *model, g *openai.Generation, prompt []parley.Token) *parley.Request {
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
	m *model, jobs []*parley.Request, held *answer.Constraint, muted bool, reads func() *answer.Reader,
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
func (c *call) run(m *model, held *answer.Constraint, jobs []*parley.Request, atOnce int, b *bill) *infer.Generation {
	return c.gateway.pipeline.Run(c.Record.Travel(c.Request.Context()), &infer.Job{
		Model:      m.pipeline,
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

// tokenText returns a token for people to read.
func (m *model) tokenText(id parley.Token) string { return openai.TokenText(m.Tokenizer.Bytes(id)) }

// tokenLogprob returns a token's log-probabilities in the shape of chats.
func (m *model) tokenLogprob(l parley.Logprob) openai.TokenLogprob {
	b := m.Tokenizer.Bytes(l.Token)
	entry := openai.TokenLogprob{
		Token:       openai.TokenText(b),
		Logprob:     openai.LogprobOf(l.Logprob),
		Bytes:       openai.ByteValues(b),
		TopLogprobs: []openai.TopLogprob{},
	}
	for _, top := range l.Top {
		b := m.Tokenizer.Bytes(top.Token)
		entry.TopLogprobs = append(entry.TopLogprobs, openai.TopLogprob{
			Token: openai.TokenText(b), Logprob: openai.LogprobOf(top.Logprob), Bytes: openai.ByteValues(b),
		})
	}
	return entry
}
