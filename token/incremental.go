package token

import (
	"strings"

	"parley"
)

// A Decoder turns a stream of tokens into text as it arrives. The texts it returns, put together, are what
// [Tokenizer.Decode] returns for all tokens at once, and none of them holds half a character. It belongs to one
// stream.
type Decoder struct {
	tokenizer *Tokenizer
	// skip reports the tokens that add no text; nil for none.
	skip    func(parley.Token) bool
	stages  []decodeStage
	in, out []string
	// alone is the only stage of an answer's decoder where that is of bytes: while it holds none back, a token
	// has the same text in every answer.
	alone *byteLevelStage
}

// NewDecoder starts a stream. With skipSpecial, special tokens add no text.
func (t *Tokenizer) NewDecoder(skipSpecial bool) *Decoder {
	if skipSpecial {
		return t.newDecoder(t.IsSpecial)
	}
	return t.newDecoder(nil)
}

// NewAnswerDecoder starts a stream of what a model answers, in which the tokens that mark calls and thoughts add
// their text, special or not; see [Tokenizer.IsSaid].
func (t *Tokenizer) NewAnswerDecoder() *Decoder {
	d := t.newDecoder(func(id parley.Token) bool { return !t.IsSaid(id) })
	if len(d.stages) == 1 {
		d.alone, _ = d.stages[0].(*byteLevelStage)
	}
	return d
}

func (t *Tokenizer) newDecoder(skip func(parley.Token) bool) *Decoder {
	d := &Decoder{tokenizer: t, skip: skip}
	fused := false
	for _, step := range t.decoder {
		d.stages = append(d.stages, step.stage(fused))
		fused = fused || step.fuses()
	}
	return d
}

// Push takes the next token and returns the text that has become certain, which may be empty. Ids outside the
// vocabulary are ignored.
func (d *Decoder) Push(id parley.Token) string {
	if d.alone == nil || len(d.alone.held) > 0 {
		return d.push(id)
	}
	place := d.tokenizer.saidTexts.of(id)
	if known := place.Load(); known != nil && known.id == id {
		return known.text
	}
	text := d.push(id)
	if text != "" && len(d.alone.held) == 0 {
		place.Store(&saidText{id, text})
	}
	return text
}

func (d *Decoder) push(id parley.Token) string {
	text, ok := d.tokenizer.Text(id)
	if !ok || d.skip != nil && d.skip(id) {
		return ""
	}
	d.in = append(d.in[:0], d.tokenizer.decodeText(id, text))
	return d.runFrom(0)
}

// Flush returns the text still held back. The stream is over then.
func (d *Decoder) Flush() string {
	var text strings.Builder
	for i, stage := range d.stages {
		d.in = stage.flush(d.in[:0])
		text.WriteString(d.runFrom(i + 1))
	}
	return text.String()
}

// runFrom passes what is in d.in through the stages from i on.
func (d *Decoder) runFrom(i int) string {
	for _, stage := range d.stages[i:] {
		d.out = d.out[:0]
		for _, token := range d.in {
			d.out = stage.push(d.out, token)
		}
		d.in, d.out = d.out, d.in
	}
	if len(d.in) == 1 {
		return d.in[0]
	}
	return strings.Join(d.in, "")
}

// Decode returns the text of tokens, exactly as the reference implementation decodes it. Bytes that are not UTF-8
// come out as U+FFFD. With skipSpecial, special tokens add no text.
func (t *Tokenizer) Decode(ids []parley.Token, skipSpecial bool) string {
	var text strings.Builder
	d := t.NewDecoder(skipSpecial)
	for _, id := range ids {
		text.WriteString(d.Push(id))
	}
	text.WriteString(d.Flush())
	return text.String()
}
