package token

import (
	"crypto/sha256"
	"fmt"
	"math"
	"reflect"
	"strings"
	"sync"

	"parley"
)

// Types of tokens in GGUF files.
const (
	ggufNormal      = 1
	ggufUnknown     = 2
	ggufControl     = 3
	ggufUserDefined = 4
	ggufUnused      = 5
	ggufByte        = 6
)

// ggufVocabulary is the tokenizer part of a GGUF file's metadata.
type ggufVocabulary struct {
	get    func(key string) (any, bool)
	tokens []string
	types  []int64
	scores []float64
}

// FromGGUF makes a tokenizer from the metadata of a GGUF file. meta returns the value of a key as a Go value: a
// string, a bool, a number of any width, or a slice of one of these. Text is encoded as llama.cpp does it.
func FromGGUF(meta func(key string) (any, bool)) (*Tokenizer, error) {
	g := &ggufVocabulary{get: func(key string) (any, bool) { return meta("tokenizer.ggml." + key) }}
	kind, _ := g.text("model")
	var err error
	if g.tokens, err = g.texts("tokens"); err != nil {
		return nil, err
	}
	if g.types, err = numbersOf[int64](g.get, "token_type"); err != nil {
		return nil, err
	}
	if len(g.tokens) == 0 || len(g.tokens) > vocabularyMax || g.types != nil && len(g.types) != len(g.tokens) {
		return nil, fmt.Errorf("tokenizer.ggml.tokens has %d entries and token_type %d", len(g.tokens), len(g.types))
	}
	switch kind {
	case "gpt2":
		return g.buildGPT2()
	case "llama":
		return g.buildLlama()
	}
	return nil, fmt.Errorf("tokenizer.ggml.model %q is not supported: gpt2 and llama are", clip(kind))
}

func (g *ggufVocabulary) text(key string) (string, bool) {
	v, _ := g.get(key)
	s, ok := v.(string)
	return s, ok
}

func (g *ggufVocabulary) texts(key string) ([]string, error) {
	v, ok := g.get(key)
	if !ok {
		return nil, nil
	}
	s, ok := v.([]string)
	if !ok {
		return nil, fmt.Errorf("tokenizer.ggml.%s is %T, not a list of texts", key, v)
	}
	return s, nil
}

// flag returns a boolean, or what to assume without one.
func (g *ggufVocabulary) flag(key string, otherwise bool) bool {
	v, _ := g.get(key)
	if b, ok := v.(bool); ok {
		return b
	}
	return otherwise
}

// defaultTokens are the roles a SentencePiece vocabulary has without saying so.
var defaultTokens = map[string]parley.Token{"unknown_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}

// token returns the id under a key, or None.
func (g *ggufVocabulary) token(key string) parley.Token {
	v, ok := g.get(key)
	if id, known := defaultTokens[key]; !ok && known && g.scores != nil && int(id) < len(g.tokens) {
		return id
	}
	n, ok := numberOf[int64](reflect.ValueOf(v))
	if !ok || n < 0 || n >= int64(len(g.tokens)) {
		return None
	}
	return parley.Token(n)
}

func (g *ggufVocabulary) typeOf(id int) int64 {
	if g.types == nil {
		return ggufNormal
	}
	return g.types[id]
}

// joinable says that a token can be built from characters. Control tokens, byte tokens and the unknown token never
// are, so that text cannot become one of them.
func (g *ggufVocabulary) joinable(id int) bool {
	kind := g.typeOf(id)
	return kind == ggufNormal || kind == ggufUserDefined || kind == ggufUnused
}

// start builds what all kinds of vocabularies share.
func (g *ggufVocabulary) start() (*Tokenizer, error) {
	ids := make([]int64, len(g.tokens))
	for i := range ids {
		ids[i] = int64(i)
	}
	v, err := newVocabulary(g.tokens, ids)
	if err != nil {
		return nil, err
	}
	t := &Tokenizer{
		vocabulary:  v,
		addedTokens: addedTokens{added: newAddedMatcher(), special: make([]bool, len(g.tokens))},
	}
	for id, text := range g.tokens {
		kind := g.typeOf(id)
		special := kind == ggufControl || kind == ggufUnknown
		t.special[id] = special
		if special || kind == ggufUserDefined {
			t.added.add(text, addedToken{
				id:      parley.Token(id),
				content: text,
				special: special,
				control: special || isControl(text),
			})
		}
	}
	t.fingerprint = sync.OnceValue(func() [sha256.Size]byte { return t.sum() })
	return t, nil
}

// finish applies what the file says about special tokens.
func (g *ggufVocabulary) finish(t *Tokenizer, addBOS bool) {
	eos := g.token("eos_token_id")
	t.findKnown(g.token("bos_token_id"), eos, g.token("padding_token_id"), g.token("unknown_token_id"))
	for _, key := range []string{"eot_token_id", "eom_token_id"} {
		t.addEnd(g.token(key))
	}
	gap := &t.roles.known.Gap
	roles := map[string]*parley.Token{"fim_pre_token_id": &gap.Prefix, "fim_suf_token_id": &gap.Suffix,
		"fim_mid_token_id": &gap.Middle,
		"prefix_token_id":  &gap.Prefix, "suffix_token_id": &gap.Suffix, "middle_token_id": &gap.Middle}
	for key, role := range roles {
		if id := g.token(key); id != None {
			*role = id
		}
	}
	t.finishGap()
	if g.flag("add_bos_token", addBOS) && t.roles.known.BOS != None {
		t.ends.before = []parley.Token{t.roles.known.BOS}
	}
	if g.flag("add_eos_token", false) && eos != None {
		t.ends.after = []parley.Token{eos}
	}
}

// buildGPT2 builds byte-level byte pair encoding.
func (g *ggufVocabulary) buildGPT2() (*Tokenizer, error) {
	pre, ok := g.text("pre")
	if !ok {
		pre = "default"
	}
	rules, ok := ggufSplits[pre]
	if !ok {
		return nil, fmt.Errorf("tokenizer.ggml.pre %q is not supported", clip(pre))
	}
	t, err := g.start()
	if err != nil {
		return nil, err
	}
	for _, pattern := range rules.patterns {
		m, err := newMatcher(pattern)
		if err != nil {
			return nil, err
		}
		t.splitter.steps = append(t.splitter.steps, patternSplit{m, isolated, false, completePatterns[pattern]})
	}
	t.splitter.shorten()
	lines, err := g.texts("merges")
	if err != nil {
		return nil, err
	}
	merges, err := splitMerges(lines)
	if err != nil {
		return nil, err
	}
	m := newBPE(t.vocabulary, bpeOptions{byteLevel: true, wholeWords: rules.wholeWords, unknown: missing})
	if t.rulesSum, err = m.setMerges(t.vocabulary, merges); err != nil {
		return nil, fmt.Errorf("tokenizer.ggml.merges: %w", err)
	}
	t.model, t.decoder = m, []decodeStep{byteLevelStep{}}
	g.finish(t, rules.addBOS)
	return t, nil
}

func splitMerges(lines []string) ([][2]string, error) {
	merges := make([][2]string, 0, len(lines))
	for _, line := range lines {
		at := -1
		if line != "" {
			at = strings.Index(line[1:], " ") + 1
		}
		if at <= 0 {
			return nil, fmt.Errorf("tokenizer.ggml.merges: %q is not two tokens with a space between", clip(line))
		}
		merges = append(merges, [2]string{line[:at], line[at+1:]})
	}
	return merges, nil
}

// buildLlama builds SentencePiece encoding: the pair that makes the token with the best score merges first.
func (g *ggufVocabulary) buildLlama() (*Tokenizer, error) {
	t, err := g.start()
	if err != nil {
		return nil, err
	}
	if g.scores, err = numbersOf[float64](g.get, "scores"); err != nil {
		return nil, err
	}
	if len(g.scores) != len(g.tokens) {
		return nil, fmt.Errorf("tokenizer.ggml.scores has %d entries for %d tokens", len(g.scores), len(g.tokens))
	}
	h := sha256.New()
	for id, score := range g.scores {
		if math.IsNaN(score) {
			return nil, fmt.Errorf("tokenizer.ggml.scores: the score of token %d is not a number", id)
		}
		writeNumbers(h, math.Float64bits(score))
	}
	h.Sum(t.rulesSum[:0])
	t.model = newScoredBPE(t.vocabulary, g.scores, g.joinable, int32(g.token("unknown_token_id")))
	replace, prefix := normalizer(normalizeReplace(" ", spaceMark)), g.flag("add_space_prefix", true)
	t.decoder = []decodeStep{decodeReplace(spaceMark, " "), byteFallbackStep{}, fuseStep{}}
	if prefix {
		replace = normalizeSpaces
		t.decoder = append(t.decoder, stripStep{' ', 1, 0})
	}
	t.normalizers = []normalizer{replace}
	g.finish(t, true)
	return t, nil
}

type anyNumber interface{ int64 | float64 }

// numberOf converts a Go number of any width.
func numberOf[T anyNumber](v reflect.Value) (T, bool) {
	switch {
	case v.CanInt():
		return T(v.Int()), true
	case v.CanUint():
		return T(v.Uint()), v.Uint() <= math.MaxInt64
	case v.CanFloat():
		return T(v.Float()), true
	}
	return 0, false
}

// numbersOf converts a slice of numbers of any width; nil without the key.
func numbersOf[T anyNumber](get func(string) (any, bool), key string) ([]T, error) {
	v, ok := get(key)
	if !ok {
		return nil, nil
	}
	list := reflect.ValueOf(v)
	if list.Kind() != reflect.Slice {
		return nil, fmt.Errorf("tokenizer.ggml.%s is %T, not a list of numbers", key, v)
	}
	numbers := make([]T, list.Len())
	for i := range numbers {
		if numbers[i], ok = numberOf[T](list.Index(i)); !ok {
			return nil, fmt.Errorf("tokenizer.ggml.%s is %T, not a list of numbers", key, v)
		}
	}
	return numbers, nil
}
