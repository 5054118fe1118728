package token

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"

	"parley"
	"parley/token/jsonscan"
)

// modelFile is the model part of a tokenizer.json.
type modelFile struct {
	texts  []string
	ids    []int64
	scores []float64
	merges [][2]string
	modelOptions
}

type modelOptions struct {
	Type         string   `json:"type"`
	Dropout      *float64 `json:"dropout"`
	Unknown      *string  `json:"unk_token"`
	UnknownID    *int32   `json:"unk_id"`
	Prefix       *string  `json:"continuing_subword_prefix"`
	Suffix       *string  `json:"end_of_word_suffix"`
	FuseUnknown  bool     `json:"fuse_unk"`
	ByteFallback bool     `json:"byte_fallback"`
	IgnoreMerges bool     `json:"ignore_merges"`
}

func (f *modelFile) read(s *jsonscan.Scanner) error {
	options := map[string]json.RawMessage{}
	err := s.Object(func(key string) error {
		switch key {
		case "vocab":
			return f.readVocabulary(s)
		case "merges":
			return f.readMerges(s)
		}
		raw, err := s.Raw()
		options[key] = raw
		return err
	})
	if err != nil {
		return fmt.Errorf("model: %w", err)
	}
	joined, err := json.Marshal(options)
	if err != nil {
		return fmt.Errorf("model: %w", err)
	}
	if err := json.Unmarshal(joined, &f.modelOptions); err != nil {
		return fmt.Errorf("model: %w", err)
	}
	return nil
}

// readVocabulary reads {"text": id} or, for Unigram, [["text", score]].
func (f *modelFile) readVocabulary(s *jsonscan.Scanner) error {
	if s.Peek() == '[' {
		return s.Array(func() error { return f.readScored(s) })
	}
	return s.Object(func(text string) error {
		id, err := s.Integer(vocabularyMax)
		f.texts, f.ids = append(f.texts, text), append(f.ids, id)
		return err
	})
}

func (f *modelFile) readScored(s *jsonscan.Scanner) error {
	if err := s.Expect('['); err != nil {
		return err
	}
	text, err := s.String()
	if err != nil {
		return err
	}
	if err := s.Expect(','); err != nil {
		return err
	}
	score, err := s.Number()
	if err != nil {
		return err
	}
	f.ids = append(f.ids, int64(len(f.texts)))
	f.texts, f.scores = append(f.texts, text), append(f.scores, score)
	return s.Expect(']')
}

// readMerges reads ["a b", …] or [["a", "b"], …].
func (f *modelFile) readMerges(s *jsonscan.Scanner) error {
	return s.Array(func() error {
		if s.Peek() == '[' {
			return f.readMergePair(s)
		}
		text, err := s.String()
		if err != nil || strings.HasPrefix(text, "#version") {
			return err
		}
		a, b, ok := strings.Cut(text, " ")
		if !ok || strings.Contains(b, " ") {
			return fmt.Errorf("merge %q is not two tokens with a space between", clip(text))
		}
		f.merges = append(f.merges, [2]string{a, b})
		return nil
	})
}

func (f *modelFile) readMergePair(s *jsonscan.Scanner) error {
	var pair []string
	err := s.Array(func() error {
		text, err := s.String()
		pair = append(pair, text)
		return err
	})
	if err != nil {
		return err
	}
	if len(pair) != 2 {
		return fmt.Errorf("merge %q is not two tokens", pair)
	}
	f.merges = append(f.merges, [2]string{pair[0], pair[1]})
	return nil
}

// hasAffixes says that tokens are marked by their place in a word.
func (f *modelFile) hasAffixes() bool {
	return f.Prefix != nil && *f.Prefix != "" || f.Suffix != nil && *f.Suffix != ""
}

// unknownID returns the token for text outside the vocabulary.
func (f *modelFile) unknownID(v *vocabulary) parley.Token {
	switch {
	case f.Unknown != nil:
		return parley.Token(v.id(*f.Unknown))
	case f.UnknownID != nil:
		return parley.Token(*f.UnknownID)
	}
	return None
}

func (f *modelFile) build(v *vocabulary, byteLevel bool) (model, [sha256.Size]byte, error) {
	kind := f.Type
	if kind == "" && f.merges != nil {
		kind = "BPE" // files older than the tag
	}
	switch kind {
	case "BPE":
		return f.buildBPE(v, byteLevel)
	case "Unigram":
		return f.buildUnigram(v, byteLevel)
	}
	return nil, [sha256.Size]byte{}, fmt.Errorf("model: %w: BPE and Unigram are", notSupported(kind))
}

func (f *modelFile) buildUnigram(v *vocabulary, byteLevel bool) (model, [sha256.Size]byte, error) {
	unknown := missing
	h := sha256.New()
	switch {
	case byteLevel:
		return nil, [sha256.Size]byte{}, errors.New("model: Unigram over byte-level text is not supported")
	case len(f.scores) != len(f.texts) || len(f.texts) == 0:
		return nil, [sha256.Size]byte{}, errors.New("model: a Unigram vocabulary is a list of texts with scores")
	case f.UnknownID != nil:
		if unknown = *f.UnknownID; unknown < 0 || int(unknown) >= len(f.texts) {
			return nil, [sha256.Size]byte{}, fmt.Errorf("model: unk_id %d is not in the vocabulary of %d", unknown,
				len(f.texts))
		}
	}
	for _, score := range f.scores {
		writeNumbers(h, math.Float64bits(score))
	}
	return newUnigram(v, f.scores, unknown, f.ByteFallback), [sha256.Size]byte(h.Sum(nil)), nil
}

func (f *modelFile) buildBPE(v *vocabulary, byteLevel bool) (model, [sha256.Size]byte, error) {
	var sum [sha256.Size]byte
	if f.Dropout != nil && *f.Dropout != 0 {
		return nil, sum, fmt.Errorf("model: dropout %g would make encoding random; set it to null", *f.Dropout)
	}
	o := bpeOptions{
		byteLevel:    byteLevel,
		wholeWords:   f.IgnoreMerges,
		unknown:      missing,
		fuseUnknown:  f.FuseUnknown,
		byteFallback: f.ByteFallback,
	}
	if f.Unknown != nil {
		// The reference fails at the first unknown character; a byte-level vocabulary never meets one, so a
		// name without a token does not matter.
		o.unknown = v.id(*f.Unknown)
	}
	if f.Prefix != nil {
		o.prefix = *f.Prefix
	}
	if f.Suffix != nil {
		o.suffix = *f.Suffix
	}
	m := newBPE(v, o)
	sum, err := m.setMerges(v, f.merges)
	if err != nil {
		return nil, sum, fmt.Errorf("model: %w", err)
	}
	return m, sum, nil
}
