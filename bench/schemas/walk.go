package schemas

import (
	"fmt"
	"math/bits"
	"math/rand/v2"

	"parley"
	"parley/engine/grammar"
	"parley/internal/builtin"
	"parley/token"
)

// A walker writes random answers: every token that a mask allows is as likely as another,
// but after a while it leans to those that close something.
type walker struct {
	vocabulary *grammar.Vocabulary
	bytesOf    func(parley.Token) []byte
	closing    []parley.Token
	// single are the tokens of one byte.
	single map[byte]parley.Token
	random *rand.Rand
}

const (
	// calmTokens is after how many tokens the walker leans to the end, and tokensMax when
	// it gives up.
	calmTokens = 24
	tokensMax  = 6000
	// maskBytes is how much a walk remembers of masks.
	maskBytes = 8 << 20
)

// newWalker returns a walker over the vocabulary of the built-in model.
func newWalker(seed uint64) (*walker, error) {
	m, _ := builtin.Find("polly")
	checkpoint, err := m.Open()
	if err != nil {
		return nil, err
	}
	tokens, err := token.FromGGUF(checkpoint.Meta)
	if err != nil {
		return nil, err
	}
	w := &walker{single: map[byte]parley.Token{}, random: rand.New(rand.NewPCG(seed, 1))}
	w.bytesOf = func(t parley.Token) []byte {
		if tokens.IsSpecial(t) {
			return nil
		}
		return tokens.Bytes(t)
	}
	w.vocabulary = grammar.NewVocabulary(tokens.Size(), w.bytesOf, tokens.Special().EOS)
	for t := range parley.Token(tokens.Size()) {
		spelled := w.bytesOf(t)
		if len(spelled) == 1 {
			w.single[spelled[0]] = t
		}
		switch string(spelled) {
		case `"`, `}`, `]`, `0`, `a`:
			w.closing = append(w.closing, t)
		}
	}
	w.closing = append(w.closing, tokens.Special().EOS...)
	return w, nil
}

// answer writes one answer. It reports an error if the grammar offers nothing, or
// refuses what it offered, and false if the answer did not end.
func (w *walker) answer(at *grammar.Matcher) (text []byte, ended bool, err error) {
	for n := 0; !at.Final(); n++ {
		if n == tokensMax {
			return text, false, nil
		}
		mask := at.Mask()
		next, ok := w.choose(mask, n)
		if !ok {
			return text, false, fmt.Errorf("nothing is allowed after %.200q", text)
		}
		if !at.Accept(next) {
			return text, false, fmt.Errorf("%q was offered and refused after %.200q", w.bytesOf(next), text)
		}
		text = append(text, w.bytesOf(next)...)
	}
	return text, true, nil
}

// choose draws a token of the mask; n were drawn before.
func (w *walker) choose(mask *grammar.Mask, n int) (parley.Token, bool) {
	if n > calmTokens && w.random.IntN(8) > 0 {
		first := w.random.IntN(len(w.closing))
		for i := range w.closing {
			if t := w.closing[(first+i)%len(w.closing)]; mask.Allows(t) {
				return t, true
			}
		}
	}
	count := mask.Count()
	if count == 0 {
		return 0, false
	}
	return nth(mask, w.vocabulary.Size(), w.random.IntN(count)), true
}

// nth returns the n-th token of the mask.
func nth(mask *grammar.Mask, size, n int) parley.Token {
	for base := 0; base < size; base += 64 {
		word := mask.Word(base / 64)
		if held := bits.OnesCount64(word); n >= held {
			n -= held
			continue
		}
		for ; n > 0; n-- {
			word &= word - 1
		}
		return parley.Token(base + bits.TrailingZeros64(word))
	}
	return -1
}
