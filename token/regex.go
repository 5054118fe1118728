package token

import (
	"fmt"
	"regexp"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/dlclark/regexp2/v2"
)

// patternTimeMax bounds one search of a backtracking pattern. Known patterns never get near it; it ends a pattern
// that has met its worst case.
const patternTimeMax = 10 * time.Second

// A regexMatcher runs a pattern that is not known by name. The engine backtracks because the patterns use lookahead,
// which package regexp lacks.
type regexMatcher struct{ re *regexp2.Regexp }

func newRegexMatcher(pattern string) (regexMatcher, error) {
	// In the pattern language of tokenizer files ^ and $ match at every line.
	re, err := regexp2.Compile(spellClasses(repeatIntervals(pattern)), regexp2.Multiline)
	if err != nil {
		return regexMatcher{}, fmt.Errorf("split pattern %q: %w", pattern, err)
	}
	re.MatchTimeout = patternTimeMax
	return regexMatcher{re}, nil
}

// newMatcher returns the fastest matcher for a pattern.
func newMatcher(pattern string) (matcher, error) {
	if find, ok := knownScanner(pattern); ok {
		return find, nil
	}
	return newRegexMatcher(pattern)
}

func (m regexMatcher) appendMatches(dst []textRange, text string, s *scratch) ([]textRange, error) {
	runes, offsets := s.runes[:0], s.offsets[:0]
	for i := 0; i < len(text); {
		r, width := utf8.DecodeRuneInString(text[i:])
		runes, offsets = append(runes, r), append(offsets, int32(i))
		i += width
	}
	offsets = append(offsets, int32(len(text)))
	s.runes, s.offsets = runes, offsets
	err := m.re.FindRunesMatches(runes, 0, func(v regexp2.MatchView) bool {
		at, n, _ := v.GroupRange(0)
		dst = append(dst, textRange{int(offsets[at]), int(offsets[at+n])})
		return true
	})
	if err != nil {
		return dst, fmt.Errorf("split pattern %q on %d bytes of text: %w", m.re.String(), len(text), err)
	}
	return dst, nil
}

// repeatIntervals rewrites X{m,n}+ as (?:X{m,n})+, which is what it means in the pattern language of tokenizer files;
// the engine would not give back what it matched. X is a character, an escape, a class or a group.
func repeatIntervals(pattern string) string {
	var out []byte
	var groups []int
	atom := 0 // where the last atom begins in out
	for i := 0; i < len(pattern); {
		end := atomEnd(pattern, i)
		switch c := pattern[i]; {
		case c == '{':
			end = i + len(interval.FindString(pattern[i:]))
			if end == i {
				end++
			} else if end < len(pattern) && pattern[end] == '+' {
				out = append(out[:atom], "(?:"+string(out[atom:])+pattern[i:end]+")"...)
				i = end
				continue
			}
		case c == '(':
			groups = append(groups, len(out))
		case c == ')' && len(groups) > 0:
			atom = groups[len(groups)-1]
			groups = groups[:len(groups)-1]
		case c != '?' && c != '*' && c != '+' && c != '|':
			atom = len(out)
		}
		out = append(out, pattern[i:end]...)
		i = end
	}
	return string(out)
}

var interval = regexp.MustCompile(`^\{\d*,?\d*\}`)

// atomEnd returns the end of the character, escape or class at i.
func atomEnd(pattern string, i int) int {
	switch pattern[i] {
	case '\\':
		if i+2 < len(pattern) && (pattern[i+1] == 'p' || pattern[i+1] == 'P') && pattern[i+2] == '{' {
			if n := strings.IndexByte(pattern[i:], '}'); n > 0 {
				return i + n + 1
			}
		}
		return min(i+2, len(pattern))
	case '[':
		for j := i + 1; j < len(pattern); j++ {
			switch pattern[j] {
			case '\\':
				j++
			case ']':
				return j + 1
			}
		}
		return len(pattern)
	}
	_, width := utf8.DecodeRuneInString(pattern[i:])
	return i + width
}

// wordClass is \w in the pattern language of tokenizer files.
const wordClass = `\p{L}\p{M}\p{Nd}\p{Nl}\p{Pc}²³¹¼-¾` +
	"Ⓐ-ⓩ\U0001F130-\U0001F149\U0001F150-\U0001F169\U0001F170-\U0001F189"

// spellClasses writes out the classes that the engine understands differently: \w, and properties with the characters
// of Unicode 16.
func spellClasses(pattern string) string {
	var out strings.Builder
	inClass := false
	for i := 0; i < len(pattern); {
		end := i + 1
		if pattern[i] == '\\' {
			end = atomEnd(pattern, i)
		}
		part := pattern[i:end]
		switch {
		case part == "[":
			inClass = true
		case part == "]":
			inClass = false
		default:
			part = spellClass(part, inClass)
		}
		out.WriteString(part)
		i = end
	}
	return out.String()
}

func spellClass(part string, inClass bool) string {
	members := ""
	switch part {
	case `\w`, `\W`:
		members = wordClass + newCharacters(letter|mark|number)
	case `\p{L}`:
		members = part + newCharacters(letter)
	case `\p{Lu}`:
		members = part + newCharacters(upper)
	case `\p{Ll}`:
		members = part + newCharacters(lower)
	case `\p{Lm}`:
		members = part + newCharacters(modifier)
	case `\p{Lo}`:
		members = part + newCharacters(other)
	case `\p{M}`:
		members = part + newCharacters(mark)
	case `\p{N}`, `\p{Nd}`, `\d`:
		members = part + newCharacters(number)
	case `\p{P}`:
		members = part + newCharacters(punct)
	case `\p{S}`:
		members = part + newCharacters(symbol)
	}
	switch {
	case members == "" || part == `\W` && inClass:
		return part
	case part == `\W`:
		return "[^" + members + "]"
	case inClass:
		return members
	}
	return "[" + members + "]"
}

// newCharacters lists what Unicode 16 added to the properties, for use in a character class.
func newCharacters(wanted class) string {
	var out strings.Builder
	for bit := upper; bit <= symbol; bit <<= 1 {
		if wanted&bit == 0 {
			continue
		}
		for _, r := range unicode16[bit] {
			out.WriteRune(r[0])
			if r[1] > r[0] {
				out.WriteRune('-')
				out.WriteRune(r[1])
			}
		}
	}
	return out.String()
}
