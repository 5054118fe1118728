package token

import (
	"fmt"

	"parley"
)

// A vocabulary is the list of a model's tokens and the way back from text to id.
type vocabulary struct {
	texts   []string // by id, as the file spells them
	present []bool   // ids without a token are holes
	ids     map[string]parley.Token
}

const (
	// vocabularyMax bounds what a file can make us allocate; the largest vocabularies in use have 262,144 tokens.
	vocabularyMax = 1 << 23
	// holesMax is how many ids per token a file may leave unused.
	holesMax = 16
)

// newVocabulary gives each id its text. The first text of an id stays, the last id of a text counts.
func newVocabulary(texts []string, ids []int64) (*vocabulary, error) {
	last := int64(-1)
	for i, id := range ids {
		if id < 0 || id >= vocabularyMax || id > int64(len(ids))*holesMax+1<<16 {
			return nil, fmt.Errorf("token %q has id %d, which does not fit a vocabulary of %d tokens", clip(texts[i]),
				id, len(ids))
		}
		last = max(last, id)
	}
	v := &vocabulary{
		texts:   make([]string, last+1),
		present: make([]bool, last+1),
		ids:     make(map[string]parley.Token, len(texts)),
	}
	for i, text := range texts {
		v.set(text, parley.Token(ids[i]))
	}
	return v, nil
}

func (v *vocabulary) set(text string, id parley.Token) {
	for int(id) >= len(v.texts) {
		v.texts, v.present = append(v.texts, ""), append(v.present, false)
	}
	if !v.present[id] {
		v.texts[id], v.present[id] = text, true
	}
	v.ids[text] = id
}

func (v *vocabulary) id(text string) int32 {
	if id, ok := v.ids[text]; ok {
		return int32(id)
	}
	return missing
}

func (v *vocabulary) has(id parley.Token) bool {
	return id >= 0 && int(id) < len(v.texts) && v.present[id]
}

// byteTokens returns the ids of <0x00> to <0xFF>.
func (v *vocabulary) byteTokens() (ids [256]int32) {
	for b := range ids {
		ids[b] = v.id(fmt.Sprintf("<0x%02X>", b))
	}
	return ids
}

// byteOf returns the byte that a token such as <0x0A> stands for.
func byteOf(text string) (byte, bool) {
	if len(text) != 6 || text[:3] != "<0x" || text[5] != '>' {
		return 0, false
	}
	hi, lo := hexDigit(text[3]), hexDigit(text[4])
	if lo < 0 || hi < 0 && text[3] != '+' {
		return 0, false
	}
	return byte(max(hi, 0)<<4 | lo), true
}

func hexDigit(b byte) int {
	switch {
	case '0' <= b && b <= '9':
		return int(b - '0')
	case 'a' <= b && b <= 'f':
		return int(b-'a') + 10
	case 'A' <= b && b <= 'F':
		return int(b-'A') + 10
	}
	return -1
}

// clip shortens text from a file for use in an error.
func clip(text string) string {
	const shown = 80
	if len(text) > shown {
		return text[:shown] + "…"
	}
	return text
}

// spaceMark is what SentencePiece vocabularies write for a space.
const spaceMark = "▁"
