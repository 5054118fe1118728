package safety

import (
	_ "embed"
	"strings"
	"unicode"
	"unicode/utf8"
)

// A token is a word, a number or a sign as the tagger reads them: unlike a
// [word] it keeps how it was written.
type token struct {
	start, end int32
	// hash is of its letters in lower case, shape of how it is written.
	hash, shape uint32
	// prefix and suffix are hashes of its first and last three letters.
	prefix, suffix uint32
	// known is what the gazetteer says of it, rule the number of the rule that
	// found it, from 1 on.
	known, rule uint32
	// capital tokens have a capital letter.
	capital bool
}

// tokensOf cuts text into tokens.
func tokensOf(to []token, text string) []token {
	for i := 0; i < len(text); {
		if text[i] == ' ' {
			i++
			continue
		}
		r, size := utf8.DecodeRuneInString(text[i:])
		switch {
		case r == '\n':
			to = append(to, signToken(i, i+1, '\n'))
		case unicode.IsSpace(r):
		case isTokenRune(r):
			end := i + size
			for end < len(text) {
				if b := text[end]; b >= 'a' && b <= 'z' {
					end++
					continue
				}
				r, n := utf8.DecodeRuneInString(text[end:])
				if !isTokenRune(r) {
					break
				}
				end += n
			}
			to = append(to, wordToken(text, i, end))
			size = end - i
		default:
			to = append(to, signToken(i, i+size, r))
		}
		i += size
	}
	return to
}

func isTokenRune(r rune) bool {
	if r < utf8.RuneSelf {
		return r|0x20 >= 'a' && r|0x20 <= 'z' || r >= '0' && r <= '9'
	}
	return unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.Is(unicode.Mn, r)
}

func signToken(start, end int, r rune) token {
	h := hashSeed ^ uint32(r)*hashPrime
	return token{start: int32(start), end: int32(end), hash: h, shape: uint32(r)<<8 | 1}
}

// telling reports whether a token may be part of a name by itself.
func (t *token) telling() bool {
	sign := t.shape&1 == 1
	return t.rule != 0 || t.known != 0 || !sign && t.shape>>8 != smallShape
}

// smallShape is the shape of a word of small letters.
const smallShape = 1

// wordToken hashes a word and how it is written: capitals, digits and small
// letters in runs, and the number of digits.
func wordToken(text string, start, end int) token {
	var lower [wordMax]byte
	n := 0
	var shape, digits uint32
	last := uint32(0)
	capital := false
	for _, r := range text[start:end] {
		kind := uint32(1)
		switch {
		case r >= 'a' && r <= 'z':
		case r >= '0' && r <= '9':
			kind = 2
			digits++
		case unicode.IsUpper(r):
			kind = 3
			capital = true
			r = unicode.ToLower(r)
		}
		if kind != last {
			shape = shape*4 + kind
			last = kind
		}
		if r < utf8.RuneSelf && n < len(lower) {
			lower[n] = byte(r)
			n++
		} else if n+utf8.UTFMax <= len(lower) {
			n += utf8.EncodeRune(lower[n:], r)
		}
	}
	length := uint32(min(end-start, 3))
	t := token{start: int32(start), end: int32(end), hash: hashOf(lower[:n]),
		shape: shape<<8 | min(digits, 15)<<4 | length<<1}
	t.capital = capital
	t.prefix, t.suffix = hashOf(lower[:min(n, 3)]), hashOf(lower[max(0, n-3):n])
	if gazetted[t.hash>>knownShift] {
		t.known = theGazetteer[t.hash]
	}
	return t
}

//go:embed gazetteer.txt
var gazetteerText string

// theGazetteer holds sets of classes by the hash of a word.
var theGazetteer = readGazetteer(gazetteerText)

// gazetted[h>>knownShift] is false if no word of the gazetteer has a hash like h.
var gazetted = func() *[1 << 16]bool {
	var t [1 << 16]bool
	for h := range theGazetteer {
		t[h>>knownShift] = true
	}
	return &t
}()

func readGazetteer(text string) map[uint32]uint32 {
	bits := map[string]uint32{}
	known := map[uint32]uint32{}
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) == 0 || fields[0] == "#" {
			continue
		}
		if _, ok := bits[fields[0]]; !ok {
			bits[fields[0]] = 1 << len(bits)
		}
		for _, w := range fields[1:] {
			known[hashOf([]byte(w))] |= bits[fields[0]]
		}
	}
	return known
}
