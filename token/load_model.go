package token

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"parley"
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

func (f *modelFile) read(s *jsonScanner) error {
	options := map[string]json.RawMessage{}
	err := s.object(func(key string) error {
		switch key {
		case "vocab":
			return f.readVocabulary(s)
		case "merges":
			return f.readMerges(s)
		}
		raw, err := s.raw()
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
func (f *modelFile) readVocabulary(s *jsonScanner) error {
	if s.peek() == '[' {
		return s.array(func() error { return f.readScored(s) })
	}
	return s.object(func(text string) error {
		id, err := s.integer()
		f.texts, f.ids = append(f.texts, text), append(f.ids, id)
		return err
	})
}

func (f *modelFile) readScored(s *jsonScanner) error {
	if err := s.expect('['); err != nil {
		return err
	}
	text, err := s.str()
	if err != nil {
		return err
	}
	if err := s.expect(','); err != nil {
		return err
	}
	score, err := s.number()
	if err != nil {
		return err
	}
	f.ids = append(f.ids, int64(len(f.texts)))
	f.texts, f.scores = append(f.texts, text), append(f.scores, score)
	return s.expect(']')
}

// readMerges reads ["a b", …] or [["a", "b"], …].
func (f *modelFile) readMerges(s *jsonScanner) error {
	return s.array(func() error {
		if s.peek() == '[' {
			return f.readMergePair(s)
		}
		text, err := s.str()
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

func (f *modelFile) readMergePair(s *jsonScanner) error {
	var pair []string
	err := s.array(func() error {
		text, err := s.str()
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
	m := newBPE(v, byteLevel)
	m.unknown, m.fuseUnknown, m.byteFallback = missing, f.FuseUnknown, f.ByteFallback
	if f.Unknown != nil {
		// The reference fails at the first unknown character; a byte-level vocabulary never meets one, so a
		// name without a token does not matter.
		m.unknown = v.id(*f.Unknown)
	}
	m.wholeWords = f.IgnoreMerges
	if f.Prefix != nil {
		m.prefix = *f.Prefix
	}
	if f.Suffix != nil {
		m.suffix = *f.Suffix
	}
	sum, err := m.setMerges(v, f.merges)
	if err != nil {
		return nil, sum, fmt.Errorf("model: %w", err)
	}
	return m, sum, nil
}

// newBPE returns a model that knows the vocabulary's single characters and nothing to merge yet.
func newBPE(v *vocabulary, byteLevel bool) *bpe {
	m := &bpe{
		byteLevel:     byteLevel,
		firstSpelling: math.MaxInt32,
		fallback:      v.byteTokens(),
		unknown:       missing,
		cache:         newWordCache(),
	}
	if byteLevel {
		for b := range m.byteIDs {
			m.byteIDs[b] = v.id(string(byteToChar[b]))
		}
		return m
	}
	m.runeIDs = new(runeTable)
	for text, id := range v.ids {
		if r, width := utf8.DecodeRuneInString(text); width > 0 && width == len(text) {
			m.runeIDs.set(r, int32(id))
		}
	}
	return m
}

// setMerges fills the table of pairs. Ranks are positions in the list.
func (m *bpe) setMerges(v *vocabulary, merges [][2]string) (sum [sha256.Size]byte, err error) {
	m.pairs, m.ranks = newPairTable(len(merges)), len(merges)
	h := sha256.New()
	var joined, numbers []byte
	m.crossings = newCrossings(m.byteLevel, len(merges))
	for rank, pair := range merges {
		joined = append(append(joined[:0], pair[0]...), strings.TrimPrefix(pair[1], m.prefix)...)
		a, b := v.id(pair[0]), v.id(pair[1])
		id, ok := v.ids[string(joined)]
		if a == missing || b == missing || !ok {
			return sum, fmt.Errorf("merge %d of %q and %q needs tokens that are not in the vocabulary", rank,
				clip(pair[0]), clip(pair[1]))
		}
		m.pairs.set(a, b, merge{uint32(rank), int32(id)})
		numbers = appendPair(numbers[:0], a, b)
		h.Write(numbers)
		m.crossings.add(pair[0], pair[1])
	}
	h.Sum(sum[:0])
	m.finish(v)
	return sum, nil
}

func appendPair(dst []byte, a, b int32) []byte {
	return append(dst, byte(a), byte(a>>8), byte(a>>16), byte(a>>24), byte(b), byte(b>>8), byte(b>>16), byte(b>>24))
}

// finish prepares what the table of pairs allows.
func (m *bpe) finish(v *vocabulary) {
	m.ordered = m.pairs.ordered(len(v.texts) + len(m.spellings))
	whole := !slices.Contains(m.byteIDs[:], missing)
	if !m.byteLevel {
		whole = m.unknown != missing || m.byteFallback && !slices.Contains(m.fallback[:], missing)
	}
	// Where characters vanish, their neighbours meet.
	m.cuts = whole && !m.crossings.unsure && m.prefix == "" && m.suffix == ""
	m.wordsBySpace = m.cuts && !m.byteLevel && !m.wholeWords && v.id(spaceMark) != missing && !m.joinsSpaces()
	if m.wholeWords || m.prefix != "" || m.suffix != "" {
		m.words = m.wordsOf(v)
		m.wordFilter = newHashFilter(len(m.words))
		for word := range m.words {
			m.wordFilter.add(m.cache.hash(word))
		}
	}
	if !m.byteLevel {
		return
	}
	m.bytePairs = make([]merge, 1<<16)
	for i := range m.bytePairs {
		m.bytePairs[i] = m.pairs.find(m.byteIDs[i>>8], m.byteIDs[i&0xFF])
	}
	if !whole {
		return
	}
	m.shortcuts = m.bytePairs
	if m.wholeWords {
		m.shortcuts = slices.Clone(m.bytePairs)
		for word, id := range m.words {
			if len(word) == 2 {
				m.shortcuts[int(word[0])<<8|int(word[1])] = merge{0, int32(id)}
			}
		}
	}
}

// wordsOf returns the vocabulary as the model meets its words.
func (m *bpe) wordsOf(v *vocabulary) map[string]parley.Token {
	if !m.byteLevel {
		return maps.Clone(v.ids)
	}
	words := make(map[string]parley.Token, len(v.ids))
	var word []byte
	for text, id := range v.ids {
		var ok bool
		if word, ok = appendFromByteLevel(word[:0], text); ok {
			words[string(word)] = id
		}
	}
	return words
}

// joinsSpaces says whether a merge joins another character to a "▁" after it.
func (m *bpe) joinsSpaces() bool {
	spaces, _ := utf8.DecodeRuneInString(spaceMark)
	for _, slot := range m.crossings.runes.slots {
		if slot.key != emptyPair && rune(uint32(slot.key)) == spaces && rune(slot.key>>32) != spaces {
			return true
		}
	}
	return false
}
