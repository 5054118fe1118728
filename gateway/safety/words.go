package safety

import (
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// A word is a run of letters and digits as it is judged: lower case, without
// accents, stretching and look-alike letters.
type word struct {
	// from and to are its bytes in the page's letters.
	from, to int32
	// start and end are its bytes in the text.
	start, end int32
	hash       uint32
	classes    classes
	mark       mark
}

// A mark is what the way a word is written says.
type mark uint8

const (
	// first words begin a sentence.
	first mark = 1 << iota
	// loud words are all capitals.
	loud
	// masked words had letters replaced, stretched or hidden.
	masked
	// asked words come before a question mark, stressed ones before an
	// exclamation mark.
	asked
	stressed
	// hidden words were written in characters that are not shown, or in code.
	hidden
)

// A page is a text cut into words. It is reused from text to text.
type page struct {
	letters []byte
	words   []word
	// current is the word being read.
	current lettering
}

// A lettering is a word while it is read.
type lettering struct {
	start          int
	ascii, foreign bool
	upper, lower   int
	odd            bool // has look-alikes, symbols for letters, or is stretched
	last           rune
	repeats        int
	mark           mark
}

func (p *page) reset() {
	p.letters, p.words, p.current = p.letters[:0], p.words[:0], lettering{}
}

// text returns the letters of word i.
func (p *page) text(i int) []byte { return p.letters[p.words[i].from:p.words[i].to] }

// read cuts text into words and appends them; offsets count from base. Every
// word gets extra as a mark.
func (p *page) read(text string, base int, extra mark) {
	begin := first
	open := false
	from := int32(len(p.letters))
	finish := func(end int) {
		if open {
			p.finish(from, base+end, extra)
			from, open, begin = int32(len(p.letters)), false, 0
		}
	}
	for i := 0; i < len(text); {
		if b := text[i]; open && b >= 'a' && b <= 'z' && rune(b) != p.current.last {
			p.small(b)
			i++
			continue
		}
		r, size := rune(text[i]), 1
		if r >= utf8.RuneSelf {
			r, size = utf8.DecodeRuneInString(text[i:])
		}
		kind := kindOf(r, text, i, open)
		switch kind {
		case letter, single:
			if kind == single {
				finish(i)
			}
			if !open {
				open = true
				p.current = lettering{start: base + i, mark: begin}
			}
			p.letter(r)
			if kind == single {
				finish(i + size)
			}
		case unseen:
			p.current.odd = true
		case sentence:
			finish(i)
			p.punctuate(r)
			begin = first
		case gap:
			finish(i)
		}
		i += size
	}
	finish(len(text))
}

// punctuate records in the last word of a sentence how it ended.
func (p *page) punctuate(r rune) {
	if len(p.words) == 0 {
		return
	}
	last := &p.words[len(p.words)-1]
	switch r {
	case '?', '؟', '？':
		last.mark |= asked
	case '!', '！':
		last.mark |= stressed
	}
}

// letter adds a character to the current word.
func (p *page) letter(r rune) {
	c := &p.current
	switch {
	case r < utf8.RuneSelf:
		p.letterASCII(byte(r))
		return
	case r == '’':
		return
	case r >= 0xE0020 && r <= 0xE007E:
		c.mark |= hidden
		p.letterASCII(byte(r - 0xE0000))
		return
	}
	if int(r) < len(bases) && bases[r] != 0 {
		p.decomposed(r, bases[r])
		return
	}
	var decomposed [utf8.UTFMax * 4]byte
	var one [utf8.UTFMax]byte
	n := utf8.EncodeRune(one[:], r)
	for _, d := range string(norm.NFKD.Append(decomposed[:0], one[:n]...)) {
		if !unicode.Is(unicode.Mn, d) {
			p.decomposed(r, d)
		}
	}
}

// decomposed adds d, which is a part of the character r.
func (p *page) decomposed(r, d rune) {
	c := &p.current
	if d < utf8.RuneSelf {
		c.odd = c.odd || !unicode.Is(unicode.Latin, r)
		p.letterASCII(byte(d))
		return
	}
	c.foreign = true
	p.put(unicode.ToLower(d))
}

// bases are the letters without their accents of what most alphabets have, 0
// where there is none or more than one.
var bases = func() (t [0x600]rune) {
	for r := rune(utf8.RuneSelf); int(r) < len(t); r++ {
		var parts []rune
		for _, d := range norm.NFKD.String(string(r)) {
			if !unicode.Is(unicode.Mn, d) {
				parts = append(parts, d)
			}
		}
		if len(parts) == 1 {
			t[r] = parts[0]
		}
	}
	return t
}()

func (p *page) letterASCII(b byte) {
	c := &p.current
	switch {
	case b >= 'A' && b <= 'Z':
		c.upper++
		c.ascii = true
		b += 'a' - 'A'
	case b >= 'a' && b <= 'z':
		c.lower++
		c.ascii = true
	case b == '\'':
		return
	case b < '0' || b > '9':
		c.odd = true
	}
	p.put(rune(b))
}

// small adds a small letter that is not the one before.
func (p *page) small(b byte) {
	c := &p.current
	c.lower++
	c.ascii = true
	c.last, c.repeats = rune(b), 0
	p.letters = append(p.letters, b)
}

// put appends a letter unless it stretches the word: of three and more equal
// letters in a row one is kept.
func (p *page) put(r rune) {
	c := &p.current
	if r == c.last && !(r >= '0' && r <= '9') {
		c.repeats++
		if c.repeats == 2 {
			p.letters = p.letters[:len(p.letters)-utf8.RuneLen(r)]
			c.odd = true
		}
		if c.repeats >= 2 {
			return
		}
	} else {
		c.last, c.repeats = r, 0
	}
	p.letters = utf8.AppendRune(p.letters, r)
}

// wordMax is the length from which the rest of a word is left out.
const wordMax = 48

// finish ends the current word, whose letters begin at from.
func (p *page) finish(from int32, end int, extra mark) {
	c := &p.current
	if c.ascii && c.foreign {
		p.unmask(from)
	}
	if len(p.letters) > int(from)+wordMax {
		p.letters = p.letters[:from+wordMax]
	}
	if len(p.letters) == int(from) {
		return
	}
	w := word{
		from:  from,
		to:    int32(len(p.letters)),
		start: int32(c.start),
		end:   int32(end),
		mark:  c.mark | extra,
	}
	if c.upper >= 3 && c.lower == 0 {
		w.mark |= loud
	}
	if c.odd {
		w.mark |= masked
	}
	p.words = append(p.words, w)
	p.classify(len(p.words) - 1)
}

// unmask replaces letters that only look Latin in a word that has Latin ones.
func (p *page) unmask(from int32) {
	old := string(p.letters[from:])
	p.letters = p.letters[:from]
	for _, r := range old {
		if l, ok := lookalikes[r]; ok {
			r = l
			p.current.odd = true
		}
		p.letters = utf8.AppendRune(p.letters, r)
	}
}

// lookalikes are letters of other scripts that are drawn like a Latin one.
var lookalikes = map[rune]rune{
	'а': 'a', 'в': 'b', 'с': 'c', 'ԁ': 'd', 'е': 'e', 'ғ': 'f', 'һ': 'h', 'і': 'i', 'ј': 'j', 'к': 'k', 'ӏ': 'l',
	'м': 'm',
	'н': 'h', 'о': 'o', 'р': 'p', 'ԛ': 'q', 'г': 'r', 'ѕ': 's', 'т': 't', 'у': 'y', 'ѵ': 'v', 'ԝ': 'w', 'х': 'x',
	'ь': 'b',
	'α': 'a', 'β': 'b', 'ϲ': 'c', 'ε': 'e', 'η': 'n', 'ι': 'i', 'κ': 'k', 'ν': 'v', 'ο': 'o', 'ρ': 'p', 'τ': 't',
	'υ': 'u',
	'χ': 'x', 'ω': 'w', 'ı': 'i', 'ɑ': 'a', 'ɡ': 'g', 'ɩ': 'i', 'ո': 'n', 'օ': 'o', 'ս': 'u', 'ց': 'g', 'հ': 'h',
	'ø': 'o', 'đ': 'd', 'ł': 'l',
}

type kind uint8

const (
	gap kind = iota
	letter
	// single characters are words of their own, as in Chinese.
	single
	// sentence characters end a sentence.
	sentence
	// unseen characters are not shown and part no word.
	unseen
)

// kindOf returns what the character at i does to a word that is open or not.
func kindOf(r rune, text string, i int, open bool) kind {
	if r < utf8.RuneSelf {
		return kindOfASCII(byte(r), text, i, open)
	}
	switch {
	case r == 0x200B, r == 0x200C, r == 0x200D, r == 0x2060, r == 0xFEFF, r == 0x00AD, r >= 0xFE00 && r <= 0xFE0F,
		r == 0x180E:
		return unseen
	case r == 0xE0020:
		return gap
	case r > 0xE0020 && r <= 0xE007E:
		return letter
	case r >= 0x0E00 && unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai):
		return single
	case unicode.IsLetter(r), unicode.IsDigit(r), unicode.Is(unicode.Mn, r), unicode.Is(unicode.Mc, r):
		return letter
	case r == '’' && open:
		return letter
	case r == '。', r == '？', r == '！', r == '؟':
		return sentence
	case unicode.Is(unicode.So, r):
		return single
	}
	return gap
}

func kindOfASCII(b byte, text string, i int, open bool) kind {
	switch {
	case b >= 'a' && b <= 'z', b >= 'A' && b <= 'Z', b >= '0' && b <= '9':
		return letter
	case b == '.', b == '?', b == '\n', b == ':':
		return sentence
	case b == '!':
		if open && isAlphaAt(text, i+1) {
			return letter
		}
		return sentence
	case b == '\'' && open:
		return letter
	case b == '@' || b == '$':
		// As in "@ss" and "a$$", but not as in "$20".
		if isAlphaAt(text, i+1) && (open || b == '@' || isAlphaAt(text, i+2)) || open && text[i-1] == b ||
			open && i+1 < len(text) && text[i+1] == b {
			return letter
		}
	case b == '*' && open:
		// As in "f*ck", but not as in "**bold**" or "a * b".
		if isAlphaAt(text, i+1) || i+1 < len(text) && text[i+1] == '*' && isAlphaAt(text, i+2) {
			return letter
		}
	}
	return gap
}

func isAlphaAt(text string, i int) bool {
	return i < len(text) && (text[i]|0x20 >= 'a' && text[i]|0x20 <= 'z')
}
