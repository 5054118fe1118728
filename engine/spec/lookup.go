// Package spec guesses tokens ahead, so that one pass can compute several.
//
// A guess costs a row in a pass and saves a whole pass when it is right. The
// engine checks every guess by choosing the token at its place exactly as it
// would have without the guess: draws depend on seed and position alone, and a
// row's arithmetic on that row alone, so the answer is the same, token for
// token, at any temperature. Only the time changes.
//
// [Lookup] guesses that a text goes on as it did the last time it came to the
// same words. [Depth] decides how many guesses are worth their rows. Both only
// decide; they have no clock and touch nothing.
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
	after map[[gram]parley.Token]int
}

// NewLookup returns a lookup over a prompt.
func NewLookup(prompt []parley.Token) *Lookup {
	l := &Lookup{after: make(map[[gram]parley.Token]int, len(prompt))}
	for _, t := range prompt {
		l.Push(t)
	}
	return l
}

// Push appends a token to the sequence.
func (l *Lookup) Push(t parley.Token) {
	if n := len(l.tokens); n >= gram {
		l.after[l.key(n)] = n
	}
	l.tokens = append(l.tokens, t)
}

// key returns the tokens before place n.
func (l *Lookup) key(n int) (k [gram]parley.Token) {
	copy(k[:], l.tokens[n-gram:n])
	return k
}

// Guess appends up to most tokens that may come next.
func (l *Lookup) Guess(dst []parley.Token, most int) []parley.Token {
	n := len(l.tokens)
	if n < gram || most < 1 {
		return dst
	}
	at, ok := l.after[l.key(n)]
	if !ok {
		return dst
	}
	return append(dst, l.tokens[at:min(at+most, n)]...)
}
