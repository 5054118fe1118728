package sample

import (
	"slices"

	"parley"
)

// A Stopper notices the end of one choice: a stop string, a stop token or the
// model's own end. It reads bytes, not text, so a string is found wherever
// tokens happen to divide it, even within a character.
//
// Each string is followed by a Knuth–Morris–Pratt automaton, so a token costs
// time in proportion to its bytes and the number of strings, and the memory is
// in proportion to the strings: a table of all transitions would be a thousand
// times larger, and the strings come from the caller.
type Stopper struct {
	strings []follower
	tokens  []parley.Token
	bytesOf func(parley.Token) []byte
	done    bool
	matched string
}

// NewStopper returns a stopper for one choice. ends are the model's own end
// tokens, which stop.IgnoreEnd sets aside unless stop.Tokens also names them.
// bytesOf returns what a token adds to the text; for a control token that is
// nil, so that it can never be part of a stop string. An empty stop string
// would end every answer before it began and is left out.
func NewStopper(stop parley.Stop, ends []parley.Token, bytesOf func(parley.Token) []byte) *Stopper {
	s := &Stopper{tokens: slices.Clone(stop.Tokens), bytesOf: bytesOf}
	if !stop.IgnoreEnd {
		s.tokens = append(s.tokens, ends...)
	}
	for _, text := range stop.Strings {
		if text != "" {
			s.strings = append(s.strings, newFollower(text))
		}
	}
	return s
}

// Push adds token to the answer and reports whether the answer is complete,
// and the stop string that completed it, if one did. Of several strings it is
// the one whose last byte comes first; of those that end at the same byte the
// longest, so that the most is cut. The string may end within the token. A
// stop token whose bytes also complete a string reports the string. Once done,
// the stopper stays done.
func (s *Stopper) Push(token parley.Token) (done bool, matched string) {
	if s.done {
		return true, s.matched
	}
	if len(s.strings) > 0 {
		s.matched = s.scan(s.bytesOf(token))
	}
	s.done = s.matched != "" || slices.Contains(s.tokens, token)
	return s.done, s.matched
}

// scan follows data until a byte completes a string, and returns the longest
// that it completes.
func (s *Stopper) scan(data []byte) string {
	longest := ""
	for _, b := range data {
		for i := range s.strings {
			f := &s.strings[i]
			if f.next(b) && len(f.text) > len(longest) {
				longest = f.text
			}
		}
		if longest != "" {
			return longest
		}
	}
	return ""
}

// A follower knows how much of its text the bytes so far end with.
type follower struct {
	text string
	// borders[i] is the length of the longest proper prefix of text[:i+1] that
	// is also its suffix.
	borders []int32
	matched int
}

func newFollower(text string) follower {
	f := follower{text: text, borders: make([]int32, len(text))}
	for i := 1; i < len(text); i++ {
		f.next(text[i])
		f.borders[i] = int32(f.matched)
	}
	f.matched = 0
	return f
}

// next takes one byte and reports whether it completes the text.
func (f *follower) next(b byte) bool {
	for f.matched > 0 && (f.matched == len(f.text) || f.text[f.matched] != b) {
		f.matched = int(f.borders[f.matched-1])
	}
	if f.text[f.matched] == b {
		f.matched++
	}
	return f.matched == len(f.text)
}
