package grammar

import (
	"slices"

	"parley"
)

// A Matcher is where one choice of an answer stands in its grammar.
type Matcher struct {
	masker  *Masker
	program *vocabularyProgram
	places  []parserState
	frames  []frame
	// complete: the text so far is a whole text of the grammar. ended: an end
	// token was accepted.
	complete, ended bool
	// far are the program's distances, nil until they are needed.
	far []int32
}

// load puts the matcher's state into the runner.
func (t *Matcher) load() *Masker {
	m := t.masker
	m.ready(t.program)
	m.places = append(m.places, t.places...)
	m.frames = append(m.frames, t.frames...)
	m.complete = t.complete
	return m
}

// save takes the places from top on out of the runner, with the frames that
// they return to and no others.
func (t *Matcher) save(top int) {
	m := t.masker
	t.complete = m.complete
	t.places = append(t.places[:0], m.places[top:]...)
	t.frames = t.frames[:0]
	moved := make(map[int32]int32, len(t.places))
	var move func(f int32) int32
	move = func(f int32) int32 {
		if f == bottom {
			return bottom
		}
		to, done := moved[f]
		if !done {
			kept := m.frames[f]
			kept.parent = move(kept.parent)
			to = int32(len(t.frames))
			t.frames = append(t.frames, kept)
			moved[f] = to
		}
		return to
	}
	for i := range t.places {
		t.places[i].frame = move(t.places[i].frame)
	}
}

// Mask returns the tokens that may come next. It is empty when the answer has
// ended, or is [Matcher.Final] for a model without end tokens; otherwise every
// token in it leads to a place from which the text can be completed.
func (t *Matcher) Mask() *Mask {
	m := t.load()
	if t.ended {
		m.places, m.complete = m.places[:0], false
	}
	return m.mask(t.program, m.complete)
}

// Accept advances by one token. It reports false, and does not move, if the token is
// not allowed.
func (t *Matcher) Accept(token parley.Token) bool {
	if t.isEnd(token) {
		if !t.complete || t.ended {
			return false
		}
		t.ended = true
		return true
	}
	top, ok := t.run(token)
	if ok {
		t.save(top)
	}
	return ok
}

// Allowed reports whether [Matcher.Accept] would take the token, without
// computing a mask.
func (t *Matcher) Allowed(token parley.Token) bool {
	if t.isEnd(token) {
		return t.complete && !t.ended
	}
	_, ok := t.run(token)
	return ok
}

func (t *Matcher) isEnd(token parley.Token) bool { return slices.Contains(t.masker.v.ends, token) }

// run follows a token's bytes in the runner. It returns where the places it
// leads to begin there. If places had to be given up on the way, and with them
// the token, each is followed alone, as for a mask.
func (t *Matcher) run(token parley.Token) (top int, ok bool) {
	v := t.masker.v
	if t.ended || token < 0 || int(token) >= v.size || len(v.spell[token]) == 0 {
		return 0, false
	}
	m := t.load()
	top, ok = m.follow(0, v.spell[token])
	for i := 0; !ok && m.overflow && i < len(t.places); i++ {
		t.load()
		m.places = append(m.places[:0], t.places[i])
		top, ok = m.follow(0, v.spell[token])
	}
	return top, ok
}

// Fork returns an independent matcher in the same state.
func (t *Matcher) Fork() *Matcher {
	f := *t
	f.places, f.frames = slices.Clone(t.places), slices.Clone(t.frames)
	return &f
}

// Done reports whether the answer may end here.
func (t *Matcher) Done() bool { return t.complete }

// Final reports whether the answer must end here: it is complete and nothing
// can follow, or has ended.
func (t *Matcher) Final() bool { return t.ended || t.complete && len(t.places) == 0 }

// forcedBytesMax bounds how far [Matcher.Forced] looks ahead.
const forcedBytesMax = 128

// Forced appends up to most tokens that spell what must come next, where the
// grammar leaves one way. They are guesses: the text is certain, but the model
// may spell it in other tokens.
func (t *Matcher) Forced(dst []parley.Token, most int) []parley.Token {
	if t.ended || most < 1 {
		return dst
	}
	m := t.load()
	var text []byte
	from := 0
	for len(text) < forcedBytesMax && !m.complete {
		b, ok := m.onlyByte(from)
		if !ok {
			break
		}
		to := len(m.places)
		m.step(from, to, b)
		from = to
		text = append(text, b)
	}
	for len(text) > 0 && most > 0 {
		token, n := m.v.longestToken(text)
		if n == 0 {
			break
		}
		dst, text, most = append(dst, token), text[n:], most-1
	}
	return dst
}

// onlyByte returns the one byte that the places from top on take, if it is one.
func (r *runner) onlyByte(top int) (b byte, ok bool) {
	for _, at := range r.places[top:] {
		for _, e := range r.p.nodes[at.node].edges {
			if e.Lo != e.Hi || ok && e.Lo != b {
				return 0, false
			}
			b, ok = e.Lo, true
		}
	}
	return b, ok
}

// longestToken returns the longest token that text begins with, and its length.
func (v *Vocabulary) longestToken(text []byte) (token parley.Token, length int) {
	at := int32(0)
	for i, b := range text {
		if at = v.child(at, b); at < 0 {
			break
		}
		if v.own(at) > 0 {
			token, length = v.tokens[v.nodes[at].first], i+1
		}
	}
	return token, length
}

// appendPrefixes appends the tokens that text begins with.
func (v *Vocabulary) appendPrefixes(tokens []parley.Token, text []byte) []parley.Token {
	at := int32(0)
	for _, b := range text {
		if at = v.child(at, b); at < 0 {
			break
		}
		if v.own(at) > 0 {
			tokens = append(tokens, v.tokens[v.nodes[at].first])
		}
	}
	return tokens
}

// Start returns a matcher at the beginning of a program. Programs of equal
// grammars share what is remembered.
func (m *Masker) Start(p *Program) *Matcher {
	l := m.link(p)
	m.ready(l)
	m.begin(p.start)
	t := &Matcher{masker: m, program: l, far: p.far}
	t.save(0)
	return t
}
