package gateway

import (
	"net/http"
	"slices"
	"time"

	"parley"
	"parley/gateway/answer"
	"parley/gateway/openai"
	"parley/token"
)

// gapRetain is how long a file that is being edited stays in memory between
// two keystrokes.
const gapRetain = time.Minute

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
	if err := request.CheckVocab(model.vocabTokens); err != nil {
		return err
	}
	if err := model.checkPrompts([]openai.Prompt{request.Before}, request.Gap, request.Sinks); err != nil {
		return err
	}
	if err := c.screenGap(model, &request.Before, request.Gap); err != nil {
		return err
	}
	prompt, err := model.encodeBefore(request.Before, request.Gap)
	if err != nil {
		return err
	}
	if err := c.cappedPlain("prompt", len(prompt)); err != nil {
		return err
	}
	maxTokens, err := model.outputTokens("prompt", len(prompt), &request.Generation)
	if err != nil {
		return err
	}
	job := c.newJob(model, &request.Generation, prompt)
	job.MaxTokens = maxTokens
	model.prepareGap(job, request.Gap)
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

// encodeBefore returns the tokens that ask for what follows p or, if there is a
// gap, belongs into it. A source file is text, so nothing in it is read as a
// special token; in a plain prompt people write whole templates that way.
func (m *model) encodeBefore(p openai.Prompt, gap *openai.Gap) (tokens []parley.Token, err error) {
	if tokens = p.Tokens; !p.IsTokens {
		options := token.Options{AddSpecial: gap == nil, ParseSpecial: gap == nil}
		if tokens, err = m.encode(p.Param, p.Text, options); err != nil {
			return nil, err
		}
	}
	if gap != nil {
		return m.encodeGap(tokens, gap)
	}
	if len(tokens) > 0 {
		return tokens, nil
	}
	if bos := m.Tokenizer.Special().BOS; bos != token.None {
		return []parley.Token{bos}, nil // an empty prompt asks for any text at all
	}
	return nil, parley.Invalid(p.Param, "Invalid '%s': the prompt is empty. Expected at least one character.", p.Param)
}

// encodeGap returns the tokens that ask the model for what belongs between
// before and the text after it.
func (m *model) encodeGap(before []parley.Token, gap *openai.Gap) ([]parley.Token, error) {
	marks := m.Tokenizer.Special().Gap
	if !marks.Known() {
		return nil, openai.SuffixUnsupported(m.ID)
	}
	if gap.AfterFirst != nil {
		marks = marks.Reordered(*gap.AfterFirst)
	}
	after := gap.After.Tokens
	if !gap.After.IsTokens {
		var err error
		if after, err = m.Tokenizer.EncodeInner(gap.After.Text); err != nil {
			return nil, parley.Invalid(gap.After.Param, "Invalid '%s': the text cannot be tokenized: %v.",
				gap.After.Param, err)
		}
	}
	opening, err := m.encode(gap.After.Param, "", token.Options{AddSpecial: true})
	if err != nil {
		return nil, err
	}
	if bos := m.Tokenizer.Special().BOS; !slices.Contains(opening, bos) {
		opening = nil
	}
	return slices.Concat(opening[:min(len(opening), 1)], marks.Join(before, after)), nil
}

// prepareGap keeps the file in memory for the next keystroke, and ends the
// answer where models write that the gap is filled.
func (m *model) prepareGap(job *parley.Request, gap *openai.Gap) {
	if gap == nil {
		return
	}
	job.Retain = max(job.Retain, gapRetain)
	if !job.Stop.IgnoreEnd {
		job.Stop.Tokens = slices.Concat(job.Stop.Tokens, m.Tokenizer.Special().Gap.Ends)
	}
}
