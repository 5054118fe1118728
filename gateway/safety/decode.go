package safety

import (
	"encoding/base64"
	"encoding/hex"
	"strings"
	"unicode/utf8"
)

// readAll reads a text, what is hidden in it in code, and words that are
// written letter by letter. Hidden words have the offsets of their code.
func (p *page) readAll(text string) {
	p.reset()
	p.read(text, 0, 0)
	p.joinLetters()
	decoded := 0
	for from := 0; from < len(text) && decoded < decodedMax; {
		start, end := codeRun(text, from)
		if start < 0 {
			break
		}
		from = end
		if plain, ok := decode(text[start:end]); ok {
			decoded++
			p.readHidden(plain, start, end)
		}
	}
	if turned, ok := p.turned(text); ok {
		p.readHidden(turned, 0, len(text))
	}
}

// decodedMax bounds how many pieces of code are read, codeMin and codeMax their length.
const (
	decodedMax = 16
	codeMin    = 16
	codeMax    = 16 << 10
)

func (p *page) readHidden(plain string, start, end int) {
	from := len(p.words)
	p.read(plain, 0, hidden)
	for i := from; i < len(p.words); i++ {
		p.words[i].start, p.words[i].end = int32(start), int32(end)
	}
}

// joinLetters appends a word for each run of single letters, as in "k i l l".
func (p *page) joinLetters() {
	n := len(p.words)
	for i := 0; i < n; {
		j := i
		for j < n && p.words[j].to-p.words[j].from == 1 && isAlphaAt(string(p.text(j)), 0) {
			j++
		}
		if j-i >= 4 {
			p.joinRun(i, j)
		}
		i = max(j, i+1)
	}
}

func (p *page) joinRun(i, j int) {
	from := int32(len(p.letters))
	for k := i; k < min(j, i+wordMax); k++ {
		p.letters = append(p.letters, p.text(k)...)
	}
	p.words = append(p.words, word{
		from:  from,
		to:    int32(len(p.letters)),
		start: p.words[i].start,
		end:   p.words[j-1].end,
		mark:  masked,
	})
	p.classify(len(p.words) - 1)
}

// codeRun finds the next run of characters that may be code, from an offset on.
func codeRun(text string, from int) (start, end int) {
	for i := from; i < len(text); i++ {
		if !isCode(text[i]) {
			continue
		}
		j := i
		for j < len(text) && isCode(text[j]) {
			j++
		}
		if j-i >= codeMin && j-i <= codeMax {
			return i, j
		}
		i = j
	}
	return -1, -1
}

func isCode(b byte) bool {
	return b|0x20 >= 'a' && b|0x20 <= 'z' || b >= '0' && b <= '9' || b == '+' || b == '/' || b == '=' || b == '-' ||
		b == '_'
}

// decode returns the text that a piece of code stands for, if it is one.
func decode(code string) (string, bool) {
	if plain, err := hex.DecodeString(strings.TrimPrefix(code, "0x")); err == nil && isProse(plain) {
		return string(plain), true
	}
	code = strings.TrimRight(code, "=")
	encoding := base64.RawStdEncoding
	if strings.ContainsAny(code, "-_") {
		encoding = base64.RawURLEncoding
	}
	plain, err := encoding.DecodeString(code[:len(code)-len(code)%4])
	if err == nil && isProse(plain) {
		return string(plain), true
	}
	return "", false
}

// isProse reports whether bytes are natural text: readable, and
// most of it letters and spaces.
func isProse(b []byte) bool {
	if len(b) < 8 || !utf8.Valid(b) {
		return false
	}
	plain := 0
	for _, c := range b {
		switch {
		case c < ' ' && c != '\n' && c != '\t' && c != '\r':
			return false
		case c|0x20 >= 'a' && c|0x20 <= 'z', c == ' ', c >= 0x80:
			plain++
		}
	}
	return plain*10 >= len(b)*8
}

// turnedMax bounds the texts that are tried backwards and rotated.
const turnedMax = 2000

// turned returns a text written backwards or rotated by thirteen letters, if
// that way it has more of the words that every English text has.
func (p *page) turned(text string) (string, bool) {
	if len(text) > turnedMax || len(p.words) < 4 {
		return "", false
	}
	plain := 0
	for i := range p.words {
		if commonHashes[p.words[i].hash] {
			plain++
		}
	}
	if plain*plainShare >= len(p.words) {
		return "", false
	}
	for _, other := range []string{rotated(text), reversed(text)} {
		if n := common(other); n >= 2 && n > 2*plain+1 {
			return other, true
		}
	}
	return "", false
}

// plainShare is the share of common words, one in plainShare, from which a text
// is read as it stands.
const plainShare = 8

var commonHashes = hashesOf(commonWords)

func hashesOf(words map[string]bool) map[uint32]bool {
	hashes := map[uint32]bool{}
	for w := range words {
		hashes[hashOf([]byte(w))] = true
	}
	return hashes
}

var commonWords = wordSet("the", "of", "and", "to", "in", "is", "you", "that", "it", "for", "on", "are", "as", "with",
	"your", "what", "this",
	"all", "how", "me", "do", "not", "tell", "was", "be", "have", "from", "ignore", "instructions", "previous",
	"password", "make")

func common(text string) int {
	n := 0
	for w := range strings.FieldsFuncSeq(strings.ToLower(text), func(r rune) bool { return r < 'a' || r > 'z' }) {
		if commonWords[w] {
			n++
		}
	}
	return n
}

func rotated(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z':
			return 'a' + (r-'a'+13)%26
		case r >= 'A' && r <= 'Z':
			return 'A' + (r-'A'+13)%26
		}
		return r
	}, text)
}

func reversed(text string) string {
	runes := []rune(text)
	for i, j := 0, len(runes)-1; i < j; i, j = i+1, j-1 {
		runes[i], runes[j] = runes[j], runes[i]
	}
	return string(runes)
}
