package token

import (
	"bytes"
	"crypto/sha256"
	"slices"
	"strings"
	"sync"

	"parley"
)

// A Tokenizer translates between text and the token ids of one vocabulary. It does not change after it is made and is
// safe for concurrent use.
type Tokenizer struct {
	vocabulary *vocabulary
	addedTokens
	normalizers []normalizer
	splitter    splitter
	model       model
	ends        sequenceEnds
	decoder     []decodeStep
	roles       roles
	rulesSum    [sha256.Size]byte // of the merges or scores, in order
	fingerprint func() [sha256.Size]byte
	scratch     sync.Pool
	saidTexts   saidTexts
}

// A model turns one word into tokens.
type model interface {
	appendWord(dst []parley.Token, word string, s *scratch) ([]parley.Token, error)
}

// sequenceEnds are the tokens that begin and end a sequence.
type sequenceEnds struct{ before, after []parley.Token }

// None stands for a special token that a vocabulary does not have.
const None parley.Token = -1

// Special lists tokens with a role. A token that the vocabulary lacks is [None].
type Special struct {
	// BOS begins a sequence.
	BOS parley.Token
	// EOS are the tokens after which a model has nothing more to say: the one the files name first, then the ends
	// of turns and texts known by name.
	EOS []parley.Token
	// PAD fills sequences up to equal length.
	PAD parley.Token
	// Unknown stands for text outside the vocabulary.
	Unknown parley.Token
	// Gap marks the parts of a text whose middle is to be filled in.
	Gap Gap
}

// roles are the tokens of a vocabulary that mean something beside their text.
type roles struct {
	known Special
	marks []parley.Token // special tokens that are part of an answer
}

// Options say how text is to be read.
type Options struct {
	// AddSpecial puts the tokens around the text with which the model was trained to begin and end a sequence.
	AddSpecial bool
	// ParseSpecial reads control tokens that are written out in the text, such as <|im_start|>. Leave it off for
	// text from outside: without it no text can become a special token or another one that structures a prompt.
	// For text of which a template wrote a part, use [Tokenizer.EncodePrompt].
	ParseSpecial bool
}

// Encode returns the tokens of text. It fails only where the vocabulary cannot express the text or a split pattern
// runs out of time.
func (t *Tokenizer) Encode(text string, o Options) ([]parley.Token, error) {
	return t.AppendEncode(make([]parley.Token, 0, len(text)/4+4), text, o)
}

// AppendEncode is [Tokenizer.Encode] that appends to dst. On failure dst is returned as it was.
func (t *Tokenizer) AppendEncode(dst []parley.Token, text string, o Options) ([]parley.Token, error) {
	return t.appendEncode(dst, text, o.AddSpecial, authorship{all: o.ParseSpecial})
}

// EncodePrompt returns the tokens of a prompt. Control tokens are read in the template's own text only: what a
// message, a tool or a document says is plain text, even if it spells such a token. A prompt whose data spells none
// has the tokens that [Tokenizer.Encode] with ParseSpecial finds in its text, because text is split into words across
// the borders between data and template.
func (t *Tokenizer) EncodePrompt(p Prompt) ([]parley.Token, error) {
	return t.appendEncode(make([]parley.Token, 0, len(p.text)/4+4), p.text, false, authorship{own: p.own})
}

func (t *Tokenizer) appendEncode(dst []parley.Token, text string, addSpecial bool,
	authored authorship) ([]parley.Token, error) {
	s, _ := t.scratch.Get().(*scratch)
	if s == nil {
		s = new(scratch)
	}
	defer t.scratch.Put(s)
	out := dst
	if addSpecial {
		out = append(out, t.ends.before...)
	}
	section := func(text string, at int) (err error) {
		out, err = t.appendSection(out, text, at, authored, s)
		return err
	}
	found := func(id parley.Token) { out = append(out, id) }
	if err := t.added.cut(text, authored, section, found); err != nil {
		return dst, err
	}
	if addSpecial {
		out = append(out, t.ends.after...)
	}
	return out, nil
}

// appendSection encodes text between added tokens, which begins at byte at of the whole text.
func (t *Tokenizer) appendSection(dst []parley.Token, text string, at int, authored authorship,
	s *scratch) ([]parley.Token, error) {
	section, first := text, at == 0
	text, err := t.normalize(section, s)
	if err != nil {
		return dst, err
	}
	if t.normalized.empty() {
		return t.appendText(dst, text, first, s)
	}
	if authored, err = t.normalizedAuthorship(section, text, at, authored, s); err != nil {
		return dst, err
	}
	plain := func(text string, at int) (err error) {
		dst, err = t.appendText(dst, text, first && at == 0, s)
		return err
	}
	err = t.normalized.cut(text, authored, plain, func(id parley.Token) { dst = append(dst, id) })
	return dst, err
}

func (t *Tokenizer) normalize(text string, s *scratch) (string, error) {
	var err error
	for _, normalize := range t.normalizers {
		if text, err = normalize(text, s); err != nil {
			return "", err
		}
	}
	return text, nil
}

// normalizedAuthorship returns the authorship of a section after it was normalized. To see where the spans went, the
// section is normalized once more with a character at their borders that normalizers leave alone. Where that changes
// the outcome, the whole section counts as data.
func (t *Tokenizer) normalizedAuthorship(section, normalized string, at int, authored authorship,
	s *scratch) (authorship, error) {
	if authored.all || len(authored.own) == 0 {
		return authored, nil
	}
	authored = authored.section(at, len(section))
	if section == normalized || len(authored.own) == 0 {
		return authored, nil
	}
	mark, ok := unusedRune(section)
	if !ok {
		return authorship{}, nil
	}
	marked, err := t.normalize(markBorders(section, authored.own, mark), s)
	if err != nil {
		return authorship{}, err
	}
	parts := strings.Split(marked, string(mark))
	if len(parts) != 2*len(authored.own)+1 || strings.Join(parts, "") != normalized {
		return authorship{}, nil
	}
	first, last := authored.own[0], authored.own[len(authored.own)-1]
	return partsAuthorship(parts, first.Start == 0, last.End == len(section)), nil
}

// appendText splits text into words and encodes each.
func (t *Tokenizer) appendText(dst []parley.Token, text string, first bool, s *scratch) ([]parley.Token, error) {
	var err error
	if scan := t.splitter.only; scan != nil {
		for pos := 0; pos < len(text); {
			_, end := scan(text, pos)
			if dst, err = t.model.appendWord(dst, text[pos:end], s); err != nil {
				return dst, err
			}
			pos = end
		}
		return dst, nil
	}
	words, err := t.splitter.run(piece{text, first}, s)
	for i := 0; i < len(words) && err == nil; i++ {
		word := words[i].text
		if t.splitter.spelled {
			s.text = byteLevelBytes(s.text[:0], word)
			word = string(s.text)
		}
		dst, err = t.model.appendWord(dst, word, s)
	}
	return dst, err
}

// run takes a piece through all steps.
func (p *splitter) run(in piece, s *scratch) ([]piece, error) {
	pieces := append(s.pieces[0][:0], in)
	spare := s.pieces[1]
	var err error
	for _, step := range p.steps {
		spare = spare[:0]
		for _, piece := range pieces {
			if spare, err = step.split(spare, piece, s); err != nil {
				return nil, err
			}
		}
		pieces, spare = spare, pieces
	}
	s.pieces = [2][]piece{pieces, spare}
	return pieces, nil
}

// innerMark is a character that no vocabulary joins with what follows it.
const innerMark = "☺"

// EncodeInner returns the tokens of a text that continues another, so that it gets no space before it from
// vocabularies that put one before every text. Nothing in it is read as a special token.
func (t *Tokenizer) EncodeInner(text string) ([]parley.Token, error) {
	mark, err := t.Encode(innerMark, Options{})
	if err != nil {
		return nil, err
	}
	if first, ok := t.Text(firstOf(mark)); ok && strings.HasPrefix(first, "▁") {
		marked, err := t.Encode(innerMark+text, Options{})
		if err != nil {
			return nil, err
		}
		if len(marked) >= len(mark) && slices.Equal(marked[:len(mark)], mark) {
			return marked[len(mark):], nil
		}
	}
	return t.Encode(text, Options{})
}

func firstOf(ids []parley.Token) parley.Token {
	if len(ids) == 0 {
		return None
	}
	return ids[0]
}

// Size returns one more than the largest id.
func (t *Tokenizer) Size() int { return len(t.vocabulary.texts) }

// ID returns the token whose text in the vocabulary is text. Byte-level vocabularies write a space as "Ġ",
// SentencePiece vocabularies as "▁".
func (t *Tokenizer) ID(text string) (parley.Token, bool) {
	id, ok := t.vocabulary.ids[text]
	return id, ok
}

// Text returns a token's text as the vocabulary writes it.
func (t *Tokenizer) Text(id parley.Token) (string, bool) {
	if !t.vocabulary.has(id) {
		return "", false
	}
	return t.vocabulary.texts[id], true
}

// IsSpecial says whether a token is one of the special tokens, which structure a sequence and are not text of the
// model's own.
func (t *Tokenizer) IsSpecial(id parley.Token) bool {
	return id >= 0 && int(id) < len(t.special) && t.special[id]
}

// IsSaid says whether a token is part of what a model says: text, or the mark of a call or a thought, which some
// vocabularies have as special tokens and others as plain ones.
func (t *Tokenizer) IsSaid(id parley.Token) bool {
	return !t.IsSpecial(id) || slices.Contains(t.roles.marks, id)
}

// Special returns the tokens with a role. The caller must not change EOS.
func (t *Tokenizer) Special() Special { return t.roles.known }

// decodeText is the text of a token that decoding starts from.
func (t *Tokenizer) decodeText(id parley.Token, text string) string {
	if form, ok := t.normalizedForm[id]; ok {
		return form
	}
	return text
}

// Bytes returns the bytes a token adds to the text when it is not the first: half a character, where a token is that.
// Special tokens are their text. It returns nil for ids outside the vocabulary.
func (t *Tokenizer) Bytes(id parley.Token) []byte {
	text, ok := t.Text(id)
	if !ok {
		return nil
	}
	text = t.decodeText(id, text)
	for _, step := range t.decoder {
		switch step := step.(type) {
		case byteLevelStep:
			return byteLevelBytes(nil, text)
		case byteFallbackStep:
			if b, ok := byteOf(text); ok {
				return []byte{b}
			}
		case tokenMap:
			text = step(text)
		case metaspaceStep:
			text = decodeReplace(step.mark, " ")(text)
		case suffixStep:
			text = decodeReplace(step.suffix, " ")(text)
		case fuseStep:
			return []byte(text)
		}
	}
	return bytes.Clone([]byte(text))
}
