package token

import "unicode/utf8"

// casedScanner scans the patterns of GPT-4o, Tekken and their kin, where a word ends where its letters change from
// lower to upper case.
type casedScanner struct {
	digitsMax  int
	contracted bool // whether a word takes the contraction after it
	folds      bool // whether contractions fold beyond ASCII
}

func (p casedScanner) scan(s string, pos int) (start, end int) {
	c, width := classAt(s, pos)
	if end := p.word(s, pos, c, width); end > 0 {
		if p.contracted {
			end += contraction(s, end, true, p.folds)
		}
		return pos, end
	}
	if c&number != 0 {
		return pos, numbersUpTo(s, pos, p.digitsMax)
	}
	if end := punctuated(s, pos, space|letter|number); end > pos {
		for end < len(s) && (s[end] == '\n' || s[end] == '\r' || s[end] == '/') {
			end++
		}
		return pos, end
	}
	return pos, linesOrSpaces(s, pos)
}

// word tries the two word alternatives in order, each first with and then without a leading character that is not
// part of the word.
func (p casedScanner) word(s string, pos int, c class, width int) int {
	mayLead := c&(letter|number|newline) == 0
	if c&mark == 0 && mayLead {
		return casedWord(s, pos+width)
	}
	if !mayLead {
		return casedWord(s, pos)
	}
	// A mark may lead a word or be its first character.
	for _, match := range []func(string, int) int{lowerEnding, upperStarting} {
		for _, at := range []int{pos + width, pos} {
			if end := match(s, at); end > 0 {
				return end
			}
		}
	}
	return 0
}

func casedWord(s string, pos int) int {
	if end := lowerEnding(s, pos); end > 0 {
		return end
	}
	return upperStarting(s, pos)
}

// lowerEnding matches U*L+ where U is upperLike and L lowerLike, or returns
// 0. The two sets overlap, so U* gives back its last character that is also L
// when no L follows.
func lowerEnding(s string, pos int) int {
	upperEnd, both := pos, 0
	for upperEnd < len(s) {
		c, width := classAt(s, upperEnd)
		if c&upperLike == 0 {
			break
		}
		upperEnd += width
		if c&lowerLike != 0 {
			both = upperEnd
		}
	}
	if end := runOf(s, upperEnd, lowerLike); end > upperEnd {
		return end
	}
	return both
}

// upperStarting matches U+L*, or returns 0.
func upperStarting(s string, pos int) int {
	upperEnd := runOf(s, pos, upperLike)
	if upperEnd == pos {
		return 0
	}
	return runOf(s, upperEnd, lowerLike)
}

// scanDeepSeek finds the words of DeepSeek V3. Numbers are cut out before and match nothing here.
func scanDeepSeek(s string, pos int) (start, end int) {
	for ; pos < len(s); pos = next(s, pos) {
		if end := matchDeepSeek(s, pos); end > pos {
			return pos, end
		}
	}
	return -1, -1
}

func next(s string, pos int) int {
	_, width := classAt(s, pos)
	return pos + width
}

func matchDeepSeek(s string, pos int) int {
	c, width := classAt(s, pos)
	if b := s[pos]; b < utf8.RuneSelf && c&(punct|symbol) != 0 {
		if end := asciiLetters(s, pos+1); end > pos+1 {
			return end
		}
	}
	if c&(newline|letter|punct|symbol) == 0 {
		if end := runOf(s, pos+width, letter|mark); end > pos+width {
			return end
		}
	}
	if c&(letter|mark) != 0 {
		return runOf(s, pos, letter|mark)
	}
	at := pos
	if s[at] == ' ' {
		at++
	}
	if end := runOf(s, at, punct|symbol); end > at {
		return runOf(s, end, newline)
	}
	if c&space != 0 {
		return linesOrSpaces(s, pos)
	}
	return pos
}

func asciiLetters(s string, i int) int {
	for i < len(s) && lowerASCII(s[i])-'a' < 26 {
		i++
	}
	return i
}

// scanDeepSeekHan finds runs of common Han characters and kana.
func scanDeepSeekHan(s string, pos int) (start, end int) {
	start = -1
	for pos < len(s) {
		if s[pos] < utf8.RuneSelf {
			if start >= 0 {
				break
			}
			pos++
			continue
		}
		r, width := utf8.DecodeRuneInString(s[pos:])
		han := 0x4E00 <= r && r <= 0x9FA5 || 0x3040 <= r && r <= 0x30FF
		if !han && start >= 0 {
			break
		}
		if han && start < 0 {
			start = pos
		}
		pos += width
	}
	return start, pos
}
