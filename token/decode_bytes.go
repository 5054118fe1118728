package token

import (
	"strings"
	"unicode/utf8"
)

// byteFallbackStep turns runs of byte tokens such as <0xE4><0xBD><0xA0> into text. A run that is not UTF-8 as a whole
// is one U+FFFD per byte.
type byteFallbackStep struct{}

func (byteFallbackStep) fuses() bool { return false }

func (byteFallbackStep) stage(fused bool) decodeStage {
	if !fused {
		return &byteFallbackStage{}
	}
	return &wholeText{then: func(all string) string {
		b, ok := byteOf(all)
		if !ok {
			return all
		}
		return runText([]byte{b})
	}}
}

// byteFallbackStage holds back a run until it ends: only then is it known whether its bytes are text.
type byteFallbackStage struct{ run []byte }

func (b *byteFallbackStage) push(dst []string, token string) []string {
	if c, ok := byteOf(token); ok {
		b.run = append(b.run, c)
		return dst
	}
	return append(b.flush(dst), token)
}

func (b *byteFallbackStage) flush(dst []string) []string {
	if len(b.run) == 0 {
		return dst
	}
	dst = append(dst, runText(b.run))
	b.run = b.run[:0]
	return dst
}

func runText(run []byte) string {
	if utf8.Valid(run) {
		return string(run)
	}
	return strings.Repeat("\uFFFD", len(run))
}

// byteLevelStep turns byte-level spelling into bytes and these into text.
type byteLevelStep struct{}

func (byteLevelStep) fuses() bool { return true }

func (byteLevelStep) stage(fused bool) decodeStage {
	if !fused {
		return &byteLevelStage{}
	}
	return &wholeText{then: func(all string) string {
		text, _ := appendLossy(nil, byteLevelBytes(nil, all), true)
		return string(text)
	}}
}

// byteLevelBytes appends the bytes a token spells; a token with characters outside the alphabet is its own text.
func byteLevelBytes(dst []byte, token string) []byte {
	out, ok := appendFromByteLevel(dst, token)
	if !ok {
		return append(dst, token...)
	}
	return out
}

// byteLevelStage holds back bytes that may become a character.
type byteLevelStage struct{ held, text []byte }

func (b *byteLevelStage) push(dst []string, token string) []string {
	b.held = byteLevelBytes(b.held, token)
	return b.emit(dst, false)
}

func (b *byteLevelStage) flush(dst []string) []string { return b.emit(dst, true) }

func (b *byteLevelStage) emit(dst []string, final bool) []string {
	text, rest := appendLossy(b.text[:0], b.held, final)
	b.text = text
	b.held = append(b.held[:0], rest...)
	if len(text) == 0 {
		return dst
	}
	return append(dst, string(text))
}

// appendLossy appends src as text with one U+FFFD for each longest run of bytes that could have begun a character but
// does not complete it. Unless final, an unfinished character at the end is returned as rest.
func appendLossy(dst, src []byte, final bool) (text, rest []byte) {
	for len(src) > 0 {
		if r, width := utf8.DecodeRune(src); r != utf8.RuneError || width > 1 {
			dst = append(dst, src[:width]...)
			src = src[width:]
			continue
		}
		n, whole := brokenPrefix(src)
		if whole && !final {
			return dst, src
		}
		dst = append(dst, "\uFFFD"...)
		src = src[n:]
	}
	return dst, nil
}

// brokenPrefix returns the length of the longest beginning of a character at the start of src, which does not start
// with a whole one; unfinished says that src ended before the character did.
func brokenPrefix(src []byte) (n int, unfinished bool) {
	length, lo, hi := 0, byte(0x80), byte(0xBF)
	switch c := src[0]; {
	case 0xC2 <= c && c <= 0xDF:
		length = 2
	case 0xE0 <= c && c <= 0xEF:
		length = 3
		if c == 0xE0 {
			lo = 0xA0
		} else if c == 0xED {
			hi = 0x9F
		}
	case 0xF0 <= c && c <= 0xF4:
		length = 4
		if c == 0xF0 {
			lo = 0x90
		} else if c == 0xF4 {
			hi = 0x8F
		}
	default:
		return 1, false
	}
	for n = 1; n < length; n++ {
		if n == len(src) {
			return n, true
		}
		if src[n] < lo || src[n] > hi {
			return n, false
		}
		lo, hi = 0x80, 0xBF
	}
	return n, false
}
