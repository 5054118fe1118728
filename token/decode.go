package token

import (
	"strings"
	"sync/atomic"
	"unicode/utf8"

	"parley"
)

// A decodeStep is one step from token texts to text. A chain of them runs as stages: every stream has its own.
type decodeStep interface {
	// stage starts the step. fused says that what arrives are fragments of one token, because a step before has
	// joined all tokens.
	stage(fused bool) decodeStage
	// fuses says that the step joins all tokens into one.
	fuses() bool
}

// A decodeStage takes tokens one by one and appends what is certain. What it still holds comes at the end, with
// flush.
type decodeStage interface {
	push(dst []string, token string) []string
	flush(dst []string) []string
}

// A tokenMap is a step that turns each token into another, alone.
type tokenMap func(token string) string

func (m tokenMap) fuses() bool { return false }

func (m tokenMap) stage(fused bool) decodeStage {
	if fused {
		return &wholeText{then: m}
	}
	return m
}

func (m tokenMap) push(dst []string, token string) []string { return append(dst, m(token)) }
func (m tokenMap) flush(dst []string) []string              { return dst }

// wholeText waits for all fragments and runs a step on the whole.
type wholeText struct {
	all  strings.Builder
	then tokenMap
}

func (g *wholeText) push(dst []string, token string) []string {
	g.all.WriteString(token)
	return dst
}

func (g *wholeText) flush(dst []string) []string { return append(dst, g.then(g.all.String())) }

func decodeReplace(old, replacement string) tokenMap {
	return func(token string) string {
		if old == "" {
			return token
		}
		return strings.ReplaceAll(token, old, replacement)
	}
}

// decodeReplacePattern leaves a token alone when its pattern fails: decoding has no error, and the pattern has a time
// limit.
func decodeReplacePattern(pattern matcher, replacement string) tokenMap {
	replace := normalizePattern(pattern, replacement)
	return func(token string) string {
		out, err := replace(token, new(scratch))
		if err != nil {
			return token
		}
		return out
	}
}

// fuseStep joins all tokens: nothing changes but what the steps after it take for a token.
type fuseStep struct{}

func (fuseStep) fuses() bool                              { return true }
func (fuseStep) stage(bool) decodeStage                   { return fuseStep{} }
func (fuseStep) push(dst []string, token string) []string { return append(dst, token) }
func (fuseStep) flush(dst []string) []string              { return dst }

// stripStep removes up to start and stop characters from the ends of a token.
type stripStep struct {
	content     rune
	start, stop int
}

func (s stripStep) fuses() bool { return false }

func (s stripStep) stage(fused bool) decodeStage {
	switch {
	case !fused:
		return tokenMap(s.strip)
	case s.stop > 0:
		return &wholeText{then: s.strip}
	}
	return &stripStart{stripStep: s}
}

func (s stripStep) strip(token string) string {
	cut := string(s.content)
	for range s.start {
		rest, ok := strings.CutPrefix(token, cut)
		if !ok {
			break
		}
		token = rest
	}
	for range s.stop {
		rest, ok := strings.CutSuffix(token, cut)
		if !ok {
			break
		}
		token = rest
	}
	return token
}

// stripStart strips the beginning of a stream of fragments.
type stripStart struct {
	stripStep
	done bool
}

func (s *stripStart) push(dst []string, token string) []string {
	for !s.done && token != "" {
		r, width := utf8.DecodeRuneInString(token)
		if s.start == 0 || r != s.content {
			s.done = true
			break
		}
		s.start--
		token = token[width:]
	}
	return append(dst, token)
}

func (s *stripStart) flush(dst []string) []string { return dst }

// metaspaceStep writes the mark as a space, but drops it in the first token when encoding put one there.
type metaspaceStep struct {
	mark      string
	dropFirst bool
}

func (m metaspaceStep) fuses() bool { return false }

func (m metaspaceStep) stage(fused bool) decodeStage {
	return &metaspaceStage{metaspaceStep: m, fused: fused, first: true}
}

type metaspaceStage struct {
	metaspaceStep
	fused, first bool
}

func (m *metaspaceStage) push(dst []string, token string) []string {
	space := " "
	if m.first && m.dropFirst {
		space = ""
	}
	m.first = m.fused
	return append(dst, strings.ReplaceAll(token, m.mark, space))
}

func (m *metaspaceStage) flush(dst []string) []string { return dst }

// suffixStep turns the mark at the end of a word into a space, except after the last word.
type suffixStep struct{ suffix string }

func (s suffixStep) fuses() bool { return false }

func (s suffixStep) stage(fused bool) decodeStage {
	if fused {
		return &wholeText{then: decodeReplace(s.suffix, "")}
	}
	return &suffixStage{suffix: s.suffix}
}

type suffixStage struct {
	suffix, held string
	holds        bool
}

func (s *suffixStage) push(dst []string, token string) []string {
	if s.holds {
		dst = append(dst, decodeReplace(s.suffix, " ")(s.held))
	}
	s.held, s.holds = token, true
	return dst
}

func (s *suffixStage) flush(dst []string) []string {
	return append(dst, decodeReplace(s.suffix, "")(s.held))
}

// joinStep puts spaces between tokens: what is done without a decoder.
type joinStep struct{}

func (joinStep) fuses() bool            { return false }
func (joinStep) stage(bool) decodeStage { return &joinStage{} }

type joinStage struct{ started bool }

func (j *joinStage) push(dst []string, token string) []string {
	if j.started {
		token = " " + token
	}
	j.started = true
	return append(dst, token)
}

func (j *joinStage) flush(dst []string) []string { return dst }

// saidKept is how many texts of tokens a tokenizer remembers.
const saidKept = 4096

// saidTexts remembers what tokens say; see [Decoder.Push].
type saidTexts [saidKept]atomic.Pointer[saidText]

// A saidText is the text that a token adds to an answer, by itself.
type saidText struct {
	id   parley.Token
	text string
}

// of is where the text of a token is remembered.
func (s *saidTexts) of(id parley.Token) *atomic.Pointer[saidText] { return &s[uint32(id)%saidKept] }
