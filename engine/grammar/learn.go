package grammar

import (
	"cmp"
	"slices"
	"strconv"

	"parley"
	"parley/engine/automaton"
)

// NewVocabulary arranges a vocabulary of size tokens. bytesOf returns what a
// token adds to the text, nil for a control token, which no grammar offers;
// ends are the tokens with which the model ends its text.
func NewVocabulary(size int, bytesOf func(parley.Token) []byte, ends []parley.Token) *Vocabulary {
	v := &Vocabulary{size: size, words: (size + 63) / 64, spell: make([][]byte, size)}
	for _, t := range ends {
		if t >= 0 && int(t) < size && !slices.Contains(v.ends, t) {
			v.ends = append(v.ends, t)
		}
	}
	var order []parley.Token
	for t := range parley.Token(size) {
		b := bytesOf(t)
		if len(b) == 0 || len(b) > tokenBytesMax || slices.Contains(v.ends, t) {
			continue
		}
		v.spell[t] = b
		v.longest = max(v.longest, len(b))
		if len(b) > shortBytesMax {
			v.long = append(v.long, longToken{t, sumUp(b)})
			continue
		}
		if len(b) == 1 {
			v.spelled[b[0]] = true
		}
		order = append(order, t)
	}
	v.spelledAll = !slices.Contains(v.spelled[:], false)
	slices.SortFunc(order, func(a, b parley.Token) int {
		return cmp.Or(slices.Compare(v.spell[a], v.spell[b]), cmp.Compare(a, b))
	})
	v.tokens = order
	v.plant()
	v.learn()
	return v
}

// learn computes the partial masks inside strings, which are the largest and the
// most often needed.
func (v *Vocabulary) learn() {
	v.texts = map[string]*partial{}
	if !v.spelledAll {
		return
	}
	p := assemble(&automaton.Meter{}, builtins[:], automaton.RuleString)
	w := walker{v: v}
	w.reset(p)
	end := p.start + int32(len(builtins[automaton.RuleString].machine.Nodes))
	for n := p.start; n < end; n++ {
		at := parserState{n, bottom}
		s := segment{left: bottom}
		v.texts[string(w.appendKey(nil, at, s))] = w.partial(at, s)
	}
	v.learnShort()
}

// learnShort computes the partial masks of counted strings near their ends, by
// how many characters are left. A string of which more is left than a token is
// long is like one without a bound.
func (v *Vocabulary) learnShort() {
	text := parley.JSONSchema([]byte(`{"type":"string","maxLength":`+strconv.Itoa(shortBytesMax+1)+`}`), true)
	p, err := Compile(&text)
	if err != nil {
		panic(err) // it is always the same schema
	}
	m := &Masker{walker: walker{v: v}}
	m.reset(p)
	m.begin(p.start)
	top, _ := m.follow(0, []byte(`"a`)) // in front of the first character a string need not be able to end
	v.short = make([]*partial, shortBytesMax+1)
	for ok := true; ok; top, ok = m.follow(top, []byte("a")) {
		for _, at := range m.places[top:] {
			s := m.segmentOf(at, nil)
			if left, in := m.inText(at, s); in && left < len(v.short) {
				v.short[left] = m.partial(at, s)
			}
		}
	}
	if slices.Contains(v.short[1:], nil) {
		panic("grammar: a counted string is not made of characters")
	}
}
