package gateway

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"sync"
	"time"

	"parley"
	"parley/gateway/openai"
	"parley/token"
)

// A model is a [Served] with its defaults filled in.
type model struct {
	Served
	// vocabTokens is one more than the largest token id.
	vocabTokens int
	tools       toolbox
	// queues let requests wait for their turn.
	queues *poolQueues
	// public are the beginnings that all tenants share; nil without any.
	public *publicPrompts
	now    func() time.Time
	// bytesPerToken is as [bytesPerToken] says, found out when it is first needed.
	bytesPerToken func() int
}

func newModel(served Served, now time.Time) *model {
	m := &model{Served: served, vocabTokens: served.Tokenizer.Size(), tools: openToolbox(served.Tokenizer, served.Template, now)}
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
	case g.MaxTokensParam == "":
		return room, nil
	}
	return 0, openai.ContextTooLong(param, m.ContextTokens, promptTokens, g.MaxTokens)
}

// newJob makes the request for one prompt that the worker takes.
func (c *call) newJob(m *model, g *openai.Generation, prompt []parley.Token) *parley.Request {
	c.seeded = g.Seeded
	job := &parley.Request{
		ID:          c.id,
		Model:       m.ID,
		Prompt:      prompt,
		Choices:     g.Choices,
		Sampling:    g.Sampling,
		Stop:        g.Stop,
		Sinks:       g.Sinks,
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
// which is held to a constraint. Muted answers show no new tokens. The caller
// must call stop. What its limits do not allow is not begun.
func (c *call) generate(m *model, jobs []*parley.Request, held *constraint, muted bool) (a *answer, stop func(), err error) {
	bill, err := c.reserve(m, jobs)
	if err != nil {
		return nil, nil, err
	}
	defer func() {
		if stop == nil { // a panic: nobody else can close the bill
			bill.close()
		}
	}()
	a = &answer{perPrompt: max(jobs[0].Choices, 1), open: len(jobs), seen: c.seeDelta, held: held, bill: bill, noticeEvery: c.gateway.config.Admission.NoticeEvery, reports: jobs[0].Progress}
	for i, job := range jobs {
		if len(jobs) > 1 {
			job.ID = fmt.Sprintf("%s-%d", c.id, i)
		}
		c.story.promptTokens += len(job.Prompt)
		a.prompts = append(a.prompts, answeredPrompt{tokens: job.Prompt})
		for range a.perPrompt {
			a.choices = append(a.choices, &choice{
				text:  newText(m.Tokenizer.NewAnswerDecoder(), job.Stop.Strings),
				model: m,
				muted: muted,
			})
			if !muted {
				a.choices[len(a.choices)-1].screen = c.newOutScreen(len(a.choices) - 1)
			}
		}
	}
	a.judged = c.outsideJudge()
	c.bytes.release() // what is left of the body fits the context
	c.story.handed = max(c.gateway.config.Now().Sub(c.started), 1)
	c.place = c.gateway.line.enter(c, m.ID, c.identity.Tier, c.identity.Organization)
	a.place = c.place
	work := generate(c.travels(c.request.Context()), c.source(m, held, jobs), jobs, len(jobs))
	a.work = work
	return a, func() {
		work.stop()
		c.gateway.line.leave(a.place)
		bill.close()
	}, nil
}

// source returns what answers the call's requests: all the layers between it and
// the worker. What is done in the background has no client whom they could
// protect, and gives way to everybody at the worker.
func (c *call) source(m *model, held *constraint, jobs []*parley.Request) source {
	s := c.gateway.shares
	answered := direct(held.worker(m.Worker))
	if !c.background && !c.gateway.config.Admission.Off {
		answered = c.bill.routed(m.queues.answer(held.worker))
	}
	if w := s.wishOf(c, m, jobs); !w.private {
		answered = s.answer(w, held.loosely(), answered)
	}
	if c.background || c.gateway.config.Admission.Off {
		return answered
	}
	return c.bounded(answered)
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
