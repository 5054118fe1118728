package token

import (
	"strings"
	"unicode/utf8"
)

// A splitStep cuts a piece into smaller ones. It may change their text.
type splitStep interface {
	split(dst []piece, p piece, s *scratch) ([]piece, error)
}

// A splitter is the splitting part of a pipeline: its steps run in order on every piece.
type splitter struct {
	steps []splitStep
	// only replaces the steps when they are one known pattern that keeps all text.
	only scanner
	// spelled: the steps leave text in the byte-level alphabet.
	spelled bool
}

// A matcher finds all matches of a pattern, from left to right.
type matcher interface {
	appendMatches(dst []textRange, text string, s *scratch) ([]textRange, error)
}

func (find scanner) appendMatches(dst []textRange, text string, _ *scratch) ([]textRange, error) {
	for pos := 0; pos < len(text); {
		start, end := find(text, pos)
		if start < 0 {
			break
		}
		dst = append(dst, textRange{start, end})
		pos = end
	}
	return dst, nil
}

// A behavior says what becomes of the matches of a pattern.
type behavior string

const (
	isolated           behavior = "Isolated"
	removed            behavior = "Removed"
	contiguous         behavior = "Contiguous"
	mergedWithPrevious behavior = "MergedWithPrevious"
	mergedWithNext     behavior = "MergedWithNext"
)

func (b behavior) known() bool {
	switch b {
	case isolated, removed, contiguous, mergedWithPrevious, mergedWithNext:
		return true
	}
	return false
}

// patternSplit cuts pieces where a pattern matches.
type patternSplit struct {
	pattern matcher
	then    behavior
	// invert: what does not match counts as the matches.
	invert bool
	// complete: the pattern is known and its matches leave no gaps.
	complete bool
}

func (p patternSplit) split(dst []piece, in piece, s *scratch) ([]piece, error) {
	matches, err := p.pattern.appendMatches(s.spans[:0], in.text, s)
	s.spans = matches
	if err != nil {
		return dst, err
	}
	s.events = appendEvents(s.events[:0], matches, len(in.text), p.invert)
	s.events = p.then.arrange(s.events)
	for _, e := range s.events {
		if e.start < e.end {
			dst = append(dst, piece{in.text[e.start:e.end], in.first && e.start == 0})
		}
	}
	return dst, nil
}

// appendEvents lists matches and the gaps between them.
func appendEvents(dst []event, matches []textRange, length int, invert bool) []event {
	at := 0
	for _, m := range matches {
		if m.start > at {
			dst = append(dst, event{textRange{at, m.start}, invert})
		}
		dst = append(dst, event{m, !invert})
		at = m.end
	}
	if at < length {
		dst = append(dst, event{textRange{at, length}, invert})
	}
	return dst
}

// arrange joins or drops events in place.
func (b behavior) arrange(events []event) []event {
	out := events[:0]
	matched := false
	for i, e := range events {
		joins := false
		switch b {
		case removed:
			if e.match {
				continue
			}
		case contiguous:
			joins = i > 0 && e.match == matched
		case mergedWithPrevious:
			joins = i > 0 && e.match && !matched
		case mergedWithNext:
			joins = i > 0 && matched && !e.match
		}
		matched = e.match
		if joins {
			out[len(out)-1].end = e.end
			continue
		}
		out = append(out, e)
	}
	return out
}

// runeMatcher matches every single character with a property.
func runeMatcher(is func(rune) bool) scanner {
	return func(s string, pos int) (start, end int) {
		for i := pos; i < len(s); {
			r, width := utf8.DecodeRuneInString(s[i:])
			if (r != utf8.RuneError || width > 1) && is(r) {
				return i, i + width
			}
			i += width
		}
		return -1, -1
	}
}

// literalMatcher matches a fixed text.
func literalMatcher(text string) scanner {
	return func(s string, pos int) (start, end int) {
		at := strings.Index(s[pos:], text)
		if at < 0 || text == "" {
			return -1, -1
		}
		return pos + at, pos + at + len(text)
	}
}

// scanWords finds \w+|[^\w\s]+.
func scanWords(s string, pos int) (start, end int) {
	start, kind := -1, 0
	for pos < len(s) {
		r, width := utf8.DecodeRuneInString(s[pos:])
		is := 2
		switch {
		case isSpaceRune(r):
			is = 0
		case isWordRune(r):
			is = 1
		}
		if start >= 0 && is != kind {
			break
		}
		if start < 0 && is != 0 {
			start, kind = pos, is
		}
		pos += width
	}
	return start, pos
}

// byteLevelSplit is the splitting half of the byte-level encoding: a space before the first word and the GPT-2
// pattern, each if wanted. spell makes it write the bytes as characters for the steps after it; the last step leaves
// the bytes alone because the model works on them.
type byteLevelSplit struct {
	prefixSpace, words, spell bool
}

func (b byteLevelSplit) split(dst []piece, p piece, s *scratch) ([]piece, error) {
	if b.prefixSpace && !strings.HasPrefix(p.text, " ") {
		p.text = " " + p.text
	}
	before := len(dst)
	if !b.words {
		dst = append(dst, p)
	} else {
		dst, _ = patternSplit{pattern: scanner(scanGPT2), then: isolated}.split(dst, p, s)
	}
	if b.spell {
		for i := before; i < len(dst); i++ {
			dst[i].text = string(appendByteLevel(nil, dst[i].text))
		}
	}
	return dst, nil
}

// prependScheme says where a Metaspace step puts its mark.
type prependScheme string

const (
	prependAlways prependScheme = "always"
	prependFirst  prependScheme = "first"
	prependNever  prependScheme = "never"
)

// metaspaceSplit writes spaces as a visible mark and, if wanted, cuts before each mark.
type metaspaceSplit struct {
	mark   string
	scheme prependScheme
	cut    bool
}

func (m metaspaceSplit) split(dst []piece, p piece, s *scratch) ([]piece, error) {
	p.text = strings.ReplaceAll(p.text, " ", m.mark)
	marked := m.scheme == prependAlways || m.scheme == prependFirst && p.first
	if marked && !strings.HasPrefix(p.text, m.mark) {
		p.text = m.mark + p.text
	}
	if !m.cut {
		return append(dst, p), nil
	}
	return patternSplit{pattern: literalMatcher(m.mark), then: mergedWithNext}.split(dst, p, s)
}

// fixedLengthSplit cuts a text every runes characters.
type fixedLengthSplit struct{ runes int }

func (f fixedLengthSplit) split(dst []piece, p piece, _ *scratch) ([]piece, error) {
	for first := p.first; p.text != ""; first = false {
		end := 0
		for n := 0; n < f.runes && end < len(p.text); n++ {
			_, width := utf8.DecodeRuneInString(p.text[end:])
			end += width
		}
		dst = append(dst, piece{p.text[:end], first})
		p.text = p.text[end:]
	}
	return dst, nil
}

// bertSplit cuts at white space, which it drops, and around punctuation.
type bertSplit struct{}

func (bertSplit) split(dst []piece, p piece, s *scratch) ([]piece, error) {
	words, err := patternSplit{pattern: runeMatcher(isSpaceRune), then: removed}.split(nil, p, s)
	for i := 0; i < len(words) && err == nil; i++ {
		dst, err = patternSplit{pattern: runeMatcher(isPunctuation), then: isolated}.split(dst, words[i], s)
	}
	return dst, err
}
