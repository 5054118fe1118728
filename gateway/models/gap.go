package models

import (
	"slices"
	"time"

	"parley"
	"parley/gateway/openai"
	"parley/token"
)

// GapRetain is how long a file that is being edited stays in memory between
// two keystrokes.
const GapRetain = time.Minute

// EncodeBefore returns the tokens that ask for what follows p or, if there is a
// gap, belongs into it. A source file is text, so nothing in it is read as a
// special token; in a plain prompt people write whole templates that way.
func (m *Model) EncodeBefore(p openai.Prompt, gap *openai.Gap) (tokens []parley.Token, err error) {
	if tokens = p.Tokens; !p.IsTokens {
		options := token.Options{AddSpecial: gap == nil, ParseSpecial: gap == nil}
		if tokens, err = m.Encode(p.Param, p.Text, options); err != nil {
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
func (m *Model) encodeGap(before []parley.Token, gap *openai.Gap) ([]parley.Token, error) {
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
	opening, err := m.Encode(gap.After.Param, "", token.Options{AddSpecial: true})
	if err != nil {
		return nil, err
	}
	if bos := m.Tokenizer.Special().BOS; !slices.Contains(opening, bos) {
		opening = nil
	}
	return slices.Concat(opening[:min(len(opening), 1)], marks.Join(before, after)), nil
}

// PrepareGap keeps the file in memory for the next keystroke, and ends the
// answer where models write that the gap is filled.
func (m *Model) PrepareGap(job *parley.Request, gap *openai.Gap) {
	if gap == nil {
		return
	}
	job.Retain = max(job.Retain, GapRetain)
	if !job.Stop.IgnoreEnd {
		job.Stop.Tokens = slices.Concat(job.Stop.Tokens, m.Tokenizer.Special().Gap.Ends)
	}
}
