package token

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// patternJSON is a text or a regular expression.
type patternJSON struct {
	String *string
	Regex  *string
}

func (p patternJSON) matcher() (matcher, error) {
	switch {
	case p.String != nil:
		return literalMatcher(*p.String), nil
	case p.Regex != nil:
		return newMatcher(*p.Regex)
	}
	return nil, errors.New("a pattern is neither a String nor a Regex")
}

type normalizerJSON struct {
	Type        string            `json:"type"`
	Normalizers []json.RawMessage `json:"normalizers"`
	StripLeft   bool              `json:"strip_left"`
	StripRight  bool              `json:"strip_right"`
	Prepend     string            `json:"prepend"`
	Pattern     patternJSON       `json:"pattern"`
	Content     string            `json:"content"`
	Charsmap    []byte            `json:"precompiled_charsmap"`
}

func parseNormalizers(raw json.RawMessage) ([]normalizer, error) {
	if isNull(raw) {
		return nil, nil
	}
	var j normalizerJSON
	if err := json.Unmarshal(raw, &j); err != nil {
		return nil, err
	}
	if j.Type == "Sequence" {
		return parseNormalizerSequence(j.Normalizers)
	}
	n, err := j.normalizer()
	if err != nil {
		return nil, err
	}
	return []normalizer{n}, nil
}

func parseNormalizerSequence(parts []json.RawMessage) ([]normalizer, error) {
	if isLlamaNormalizer(parts) {
		return []normalizer{normalizeSpaces}, nil
	}
	var all []normalizer
	for _, part := range parts {
		some, err := parseNormalizers(part)
		if err != nil {
			return nil, err
		}
		all = append(all, some...)
	}
	return all, nil
}

// isLlamaNormalizer recognises Prepend "▁" then Replace " " with "▁".
func isLlamaNormalizer(parts []json.RawMessage) bool {
	if len(parts) != 2 {
		return false
	}
	var j [2]normalizerJSON
	for i, part := range parts {
		if json.Unmarshal(part, &j[i]) != nil {
			return false
		}
	}
	return j[0].Type == "Prepend" && j[0].Prepend == spaceMark && j[1].Type == "Replace" &&
		j[1].Pattern.String != nil && *j[1].Pattern.String == " " && j[1].Content == spaceMark
}

func (j normalizerJSON) normalizer() (normalizer, error) {
	switch j.Type {
	case "NFC":
		return unicodeForm(norm.NFC), nil
	case "NFD":
		return unicodeForm(norm.NFD), nil
	case "NFKC":
		return unicodeForm(norm.NFKC), nil
	case "NFKD":
		return unicodeForm(norm.NFKD), nil
	case "Lowercase":
		return normalizeLowercase, nil
	case "Strip":
		return normalizeStrip(j.StripLeft, j.StripRight), nil
	case "StripAccents":
		return normalizeStripAccents, nil
	case "Prepend":
		return normalizePrepend(j.Prepend), nil
	case "ByteLevel":
		return normalizeByteLevel, nil
	case "Nmt":
		return normalizeNmt, nil
	case "Precompiled":
		return parseCharsmap(j.Charsmap)
	case "Replace":
		if j.Pattern.String != nil {
			return normalizeReplace(*j.Pattern.String, j.Content), nil
		}
		m, err := j.Pattern.matcher()
		return normalizePattern(m, j.Content), err
	}
	return nil, notSupported(j.Type)
}

type splitJSON struct {
	Type           string            `json:"type"`
	PreTokenizers  []json.RawMessage `json:"pretokenizers"`
	Pattern        patternJSON       `json:"pattern"`
	Behavior       behavior          `json:"behavior"`
	Invert         bool              `json:"invert"`
	AddPrefixSpace *bool             `json:"add_prefix_space"`
	UseRegex       *bool             `json:"use_regex"`
	Replacement    string            `json:"replacement"`
	PrependScheme  prependScheme     `json:"prepend_scheme"`
	Split          *bool             `json:"split"`
	Individual     bool              `json:"individual_digits"`
	Length         int               `json:"length"`
	Delimiter      string            `json:"delimiter"`
}

// parseSplitter reads the pre-tokenizer. mayBeBytes allows the model to work on bytes; byteLevel says that it has to.
func parseSplitter(raw json.RawMessage, mayBeBytes bool) (s splitter, byteLevel bool, err error) {
	parts, err := flattenSplit(raw)
	if err != nil {
		return s, false, err
	}
	last := -1 // the last step that spells bytes as characters
	for i, j := range parts {
		step, err := j.step()
		if err != nil {
			return s, false, err
		}
		if j.Type == "ByteLevel" {
			last = i
		}
		s.steps = append(s.steps, step)
	}
	byteLevel = mayBeBytes && last >= 0
	if byteLevel {
		s.spelled = last < len(parts)-1
		if step := s.steps[last].(byteLevelSplit); !s.spelled {
			step.spell = false
			s.steps[last] = step
		}
	}
	s.shorten()
	return s, byteLevel, nil
}

// shorten drops steps that do nothing and recognises a lone known pattern.
func (s *splitter) shorten() {
	s.steps = slices.DeleteFunc(s.steps, func(step splitStep) bool { return step == splitStep(byteLevelSplit{}) })
	if len(s.steps) != 1 || s.spelled {
		return
	}
	if b, ok := s.steps[0].(byteLevelSplit); ok && b == (byteLevelSplit{words: true}) {
		s.only = scanGPT2
	}
	if p, ok := s.steps[0].(patternSplit); ok && p.complete && (p.then == isolated || p.then == removed && p.invert) {
		s.only = p.pattern.(scanner)
	}
}

// flattenSplit lists the steps of nested sequences.
func flattenSplit(raw json.RawMessage) ([]splitJSON, error) {
	if isNull(raw) {
		return nil, nil
	}
	var j splitJSON
	if err := json.Unmarshal(raw, &j); err != nil {
		return nil, err
	}
	if j.Type != "Sequence" {
		return []splitJSON{j}, nil
	}
	var all []splitJSON
	for _, part := range j.PreTokenizers {
		some, err := flattenSplit(part)
		if err != nil {
			return nil, err
		}
		all = append(all, some...)
	}
	return all, nil
}

func (j splitJSON) step() (splitStep, error) {
	switch j.Type {
	case "ByteLevel":
		return byteLevelSplit{j.AddPrefixSpace == nil || *j.AddPrefixSpace, j.UseRegex == nil || *j.UseRegex, true}, nil
	case "Split":
		return j.patternStep()
	case "Metaspace":
		return j.metaspaceStep()
	case "Digits":
		then := contiguous
		if j.Individual {
			then = isolated
		}
		return patternSplit{pattern: runeMatcher(isNumberRune), then: then}, nil
	case "Punctuation":
		if j.Behavior == "" {
			j.Behavior = isolated
		}
		return patternSplit{pattern: runeMatcher(isPunctuation), then: j.Behavior}, nil
	case "Whitespace":
		return patternSplit{pattern: scanner(scanWords), then: removed, invert: true}, nil
	case "WhitespaceSplit":
		return patternSplit{pattern: runeMatcher(isSpaceRune), then: removed}, nil
	case "BertPreTokenizer":
		return bertSplit{}, nil
	case "CharDelimiterSplit":
		return patternSplit{pattern: literalMatcher(j.Delimiter), then: removed}, nil
	case "FixedLength":
		if j.Length <= 0 {
			return nil, fmt.Errorf("length %d of FixedLength is not positive", j.Length)
		}
		return fixedLengthSplit{j.Length}, nil
	}
	return nil, notSupported(j.Type)
}

func (j splitJSON) patternStep() (splitStep, error) {
	if !j.Behavior.known() {
		return nil, fmt.Errorf("behavior %q of Split is not known", clip(string(j.Behavior)))
	}
	m, err := j.Pattern.matcher()
	if err != nil {
		return nil, err
	}
	complete := j.Pattern.Regex != nil && completePatterns[spellLineEnds(*j.Pattern.Regex)]
	return patternSplit{m, j.Behavior, j.Invert, complete}, nil
}

func (j splitJSON) metaspaceStep() (splitStep, error) {
	switch j.PrependScheme {
	case "":
		j.PrependScheme = prependAlways
		if j.AddPrefixSpace != nil && !*j.AddPrefixSpace {
			j.PrependScheme = prependNever
		}
	case prependAlways, prependFirst, prependNever:
	default:
		return nil, fmt.Errorf("prepend_scheme %q of Metaspace is not known", clip(string(j.PrependScheme)))
	}
	if utf8.RuneCountInString(j.Replacement) != 1 {
		return nil, fmt.Errorf("replacement %q of Metaspace is not one character", clip(j.Replacement))
	}
	return metaspaceSplit{j.Replacement, j.PrependScheme, j.Split == nil || *j.Split}, nil
}

type decoderJSON struct {
	Type           string            `json:"type"`
	Decoders       []json.RawMessage `json:"decoders"`
	Pattern        patternJSON       `json:"pattern"`
	Content        string            `json:"content"`
	Start          int               `json:"start"`
	Stop           int               `json:"stop"`
	Replacement    string            `json:"replacement"`
	PrependScheme  prependScheme     `json:"prepend_scheme"`
	AddPrefixSpace *bool             `json:"add_prefix_space"`
	Suffix         string            `json:"suffix"`
}

func parseDecoder(raw json.RawMessage) ([]decodeStep, error) {
	if isNull(raw) {
		return []decodeStep{joinStep{}}, nil
	}
	var j decoderJSON
	if err := json.Unmarshal(raw, &j); err != nil {
		return nil, err
	}
	if j.Type != "Sequence" {
		step, err := j.step()
		return []decodeStep{step}, err
	}
	var all []decodeStep
	for _, part := range j.Decoders {
		some, err := parseDecoder(part)
		if err != nil {
			return nil, err
		}
		all = append(all, some...)
	}
	return all, nil
}

func (j decoderJSON) step() (decodeStep, error) {
	switch j.Type {
	case "ByteLevel":
		return byteLevelStep{}, nil
	case "ByteFallback":
		return byteFallbackStep{}, nil
	case "Fuse":
		return fuseStep{}, nil
	case "Strip":
		r, width := utf8.DecodeRuneInString(j.Content)
		if width != len(j.Content) || width == 0 || j.Start < 0 || j.Stop < 0 {
			return nil, fmt.Errorf("content %q of Strip is not one character, or its start %d or stop %d is negative",
				clip(j.Content), j.Start, j.Stop)
		}
		return stripStep{r, j.Start, j.Stop}, nil
	case "Metaspace":
		if utf8.RuneCountInString(j.Replacement) != 1 {
			return nil, fmt.Errorf("replacement %q of Metaspace is not one character", clip(j.Replacement))
		}
		never := j.PrependScheme == prependNever ||
			j.PrependScheme == "" && j.AddPrefixSpace != nil && !*j.AddPrefixSpace
		return metaspaceStep{j.Replacement, !never}, nil
	case "BPEDecoder":
		return suffixStep{j.Suffix}, nil
	case "Replace":
		if j.Pattern.String != nil {
			return decodeReplace(*j.Pattern.String, j.Content), nil
		}
		m, err := j.Pattern.matcher()
		return decodeReplacePattern(m, j.Content), err
	}
	return nil, notSupported(j.Type)
}

func isNull(raw json.RawMessage) bool {
	return len(raw) == 0 || strings.TrimSpace(string(raw)) == "null"
}

func notSupported(kind string) error {
	return fmt.Errorf("type %q is not supported", clip(kind))
}
