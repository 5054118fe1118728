package grammar

import (
	"math"

	"parley"
)

const (
	// completionBytesMax bounds a completion.
	completionBytesMax = 16 << 10
	farAway            = math.MaxInt32 / 4
)

// Measured returns a program whose matchers know what [Matcher.Completion] needs and otherwise find out when it is
// first called.
func (p *Program) Measured() *Program {
	measured := *p
	measured.far = p.distances()
	return &measured
}

// distances returns, for each node, how many bytes it takes at least to complete its rule.
func (p *Program) distances() []int32 {
	far := make([]int32, len(p.nodes))
	for i := range far {
		far[i] = farAway
	}
	for changed := true; changed; {
		changed = false
		for i := len(p.nodes) - 1; i >= 0; i-- {
			if d := p.nodes[i].distance(far); d < far[i] {
				far[i], changed = d, true
			}
		}
	}
	return far
}

func (n *node) distance(far []int32) int32 {
	least := int32(farAway)
	switch {
	case n.accept:
		return 0
	case n.repeat != nil:
		return int32(min(farAway, int64(n.repeat.least)*int64(far[n.body])))
	}
	for _, e := range n.edges {
		least = min(least, 1+far[e.To])
	}
	for _, l := range n.calls {
		d := far[l.start]
		if !l.last {
			d += far[l.back]
		}
		least = min(least, d)
	}
	return least
}

// beyond returns how many bytes the frames of a place need at least after its rule.
func (r *runner) beyond(far []int32, f int32) (sum int32) {
	for ; f != bottom && sum < farAway; f = r.frames[f].parent {
		to := &r.frames[f]
		n := &r.p.nodes[to.node]
		if n.repeat == nil {
			sum += far[to.node]
		} else if runs := int64(n.repeat.least - to.count); runs > 0 {
			sum += int32(min(farAway, runs*int64(far[n.body])))
		}
	}
	return min(sum, farAway)
}

// nearest returns the byte that leads the places from top on nearer to their end, and how many bytes there are to it.
func (r *runner) nearest(far []int32, top int) (b byte, left int32) {
	left = farAway
	for _, at := range r.places[top:] {
		beyond := r.beyond(far, at.frame)
		for _, e := range r.p.nodes[at.node].edges {
			if d := 1 + far[e.To] + beyond; d < left {
				b, left = e.Lo, d
			}
		}
	}
	return b, left
}

// Left returns how many bytes the text needs at least until it is complete.
func (t *Matcher) Left() int {
	if t.complete || t.ended {
		return 0
	}
	t.measure()
	_, left := t.load().nearest(t.far, 0)
	return int(left)
}

func (t *Matcher) measure() {
	if t.far == nil {
		t.far = t.program.distances()
	}
}

// Completion returns tokens that complete the text, as short as can be: none if it is complete. It reports false if
// none were found.
func (t *Matcher) Completion() (tokens []parley.Token, ok bool) {
	text, ok := t.completion()
	for len(text) > 0 {
		token, n := t.masker.v.longestToken(text)
		if n == 0 {
			return nil, false
		}
		tokens, text = append(tokens, token), text[n:]
	}
	return tokens, ok
}

// completion returns the shortest text that completes the one so far.
func (t *Matcher) completion() (text []byte, ok bool) {
	t.measure()
	m := t.load()
	for from := 0; !m.complete; {
		b, left := m.nearest(t.far, from)
		to := len(m.places)
		if left >= farAway || len(text) == completionBytesMax || !m.step(from, to, b) {
			return nil, false
		}
		from, text = to, append(text, b)
	}
	return text, true
}

// AppendNearer appends the tokens that lead straight to the end of the text: those that its shortest completion begins
// with, and the one that ends an answer if it is complete. It returns how many tokens that completion has.
func (t *Matcher) AppendNearer(tokens []parley.Token) (nearer []parley.Token, left int) {
	text, _ := t.completion()
	tokens = t.masker.v.appendPrefixes(tokens, text)
	if end, ok := t.End(); ok && t.Done() {
		tokens = append(tokens, end)
	}
	for n := 1; len(text) > 0 && n > 0; left++ {
		_, n = t.masker.v.longestToken(text)
		text = text[n:]
	}
	return tokens, left
}

// End returns a token that ends an answer, if the model has one.
func (t *Matcher) End() (parley.Token, bool) {
	if len(t.masker.v.ends) == 0 {
		return 0, false
	}
	return t.masker.v.ends[0], true
}
