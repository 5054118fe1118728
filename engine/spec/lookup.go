// Package spec drafts tokens for speculative decoding, so that one pass can compute
// several.
//
// A guess costs a row in a pass and saves a whole pass when it is right. The
// engine checks every guess by choosing the token at its place exactly as it
// would have without the guess: draws depend on seed and position alone, and a
// row's arithmetic on that row alone, so the answer is the same, token for
// token, at any temperature. Only the time changes.
//
// [Lookup] guesses that a text continues as it did the last time it came to the
// same words; a smaller network, which the engine runs, guesses what it would
// write itself. [Acceptance] keeps how often guesses were accepted, and [Decide] weighs
// that against what they cost: whether to guess, how far and by whom. All of
// them only decide; they have no clock and touch nothing.
package spec

import "parley"

// gram is how many tokens must repeat for a guess.
const gram = 3

// A Lookup finds earlier places in one sequence that end in the same tokens
// as its present end, and guesses what followed them. Texts that copy, quote
// or edit their prompt repeat themselves at length.
type Lookup struct {
	tokens []parley.Token
	// after maps the tokens before a place to the latest such place.
	after      map[[gram]parley.Token]int
	acceptance Acceptance
}

// NewLookup returns a lookup over a prompt.
func NewLookup(prompt []parley.Token) *Lookup {
	l := &Lookup{after: make(map[[gram]parley.Token]int, len(prompt))}
	for _, t := range prompt {
		l.Push(t)
	}
	l.acceptance = Acceptance{} // what the prompt repeats says little of the answer
	return l
}

// Push appends a token to the sequence. Whether it is the one that would have
// been guessed is learned from in any case: it costs nothing to know.
func (l *Lookup) Push(t parley.Token) {
	if n := len(l.tokens); n >= gram {
		k := l.key(n)
		if at, ok := l.after[k]; ok && l.tokens[at] == t {
			l.acceptance.Learn(1, 1)
		} else if ok {
			l.acceptance.Learn(1, 0)
		}
		l.after[k] = n
	}
	l.tokens = append(l.tokens, t)
}

// Offer returns how many tokens Guess would give, up to most, and how likely
// they are right.
func (l *Lookup) Offer(most int) Offer {
	at, ok := l.match()
	if !ok {
		return Offer{}
	}
	return Offer{Most: min(most, len(l.tokens)-at), Chance: l.acceptance.Chance()}
}

// match returns where the text last continued from the tokens it ends in.
func (l *Lookup) match() (at int, ok bool) {
	n := len(l.tokens)
	if n < gram {
		return 0, false
	}
	at, ok = l.after[l.key(n)]
	return at, ok
}

// key returns the tokens before place n.
func (l *Lookup) key(n int) (k [gram]parley.Token) {
	copy(k[:], l.tokens[n-gram:n])
	return k
}

// Guess appends up to most tokens that may come next.
func (l *Lookup) Guess(dst []parley.Token, most int) []parley.Token {
	at, ok := l.match()
	if !ok || most < 1 {
		return dst
	}
	return append(dst, l.tokens[at:min(at+most, len(l.tokens))]...)
}
