package token

import "strings"

// A scanner finds the next match of a split pattern at or after pos, or start < 0. pos is less than len(s).
type scanner func(s string, pos int) (start, end int)

// runOf returns the end of the run of characters at i that have one of the wanted properties.
func runOf(s string, i int, wanted class) int {
	for i < len(s) {
		c, width := classAt(s, i)
		if c&wanted == 0 {
			break
		}
		i += width
	}
	return i
}

// runWithout returns the end of the run of characters at i that have none of the properties.
func runWithout(s string, i int, unwanted class) int {
	for i < len(s) {
		c, width := classAt(s, i)
		if c&unwanted != 0 {
			break
		}
		i += width
	}
	return i
}

// numbersUpTo returns the end of at most limit numbers at i.
func numbersUpTo(s string, i, limit int) int {
	for ; limit > 0 && i < len(s); limit-- {
		c, width := classAt(s, i)
		if c&number == 0 {
			break
		}
		i += width
	}
	return i
}

// contraction returns the length of 's, 't, 're, 've, 'm, 'll or 'd at s[i], or 0.
func contraction(s string, i int, anyCase, folds bool) int {
	if i+1 >= len(s) || s[i] != '\'' {
		return 0
	}
	a := s[i+1]
	if folds && a == 0xC5 && i+2 < len(s) && s[i+2] == 0xBF {
		return 3 // the long s folds to s
	}
	b := byte(0)
	if i+2 < len(s) {
		b = s[i+2]
	}
	if anyCase {
		a, b = lowerASCII(a), lowerASCII(b)
	}
	switch {
	case a == 's' || a == 't' || a == 'm' || a == 'd':
		return 2
	case (a == 'r' || a == 'v') && b == 'e' || a == 'l' && b == 'l':
		return 3
	}
	return 0
}

func lowerASCII(b byte) byte {
	if 'A' <= b && b <= 'Z' {
		b += 'a' - 'A'
	}
	return b
}

// spacesBefore matches \s+(?!\S)|\s+ at pos, where a space is: a run leaves its last character to the word that
// follows.
func spacesBefore(s string, pos int) int {
	end, last := pos, pos
	for end < len(s) {
		c, width := classAt(s, end)
		if c&space == 0 {
			break
		}
		last = end
		end += width
	}
	if end < len(s) && last > pos {
		return last
	}
	return end
}

// linesOrSpaces matches \s*[\r\n]+|\s+(?!\S)|\s+ at pos, where a space is.
func linesOrSpaces(s string, pos int) int {
	end, last, line := pos, pos, 0
	for end < len(s) {
		c, width := classAt(s, end)
		if c&space == 0 {
			break
		}
		last = end
		end += width
		if c&newline != 0 {
			line = end
		}
	}
	switch {
	case line > 0:
		return line
	case end < len(s) && last > pos:
		return last
	}
	return end
}

func scanGPT2(s string, pos int) (start, end int) {
	if n := contraction(s, pos, false, false); n > 0 {
		return pos, pos + n
	}
	at := pos
	if s[at] == ' ' && at+1 < len(s) {
		at++
	}
	c, width := classAt(s, at)
	switch {
	case c&space != 0:
		return pos, spacesBefore(s, pos)
	case c&letter != 0:
		return pos, runOf(s, at+width, letter)
	case c&number != 0:
		return pos, runOf(s, at+width, number)
	}
	return pos, runWithout(s, at+width, space|letter|number)
}

// scanLineEnd finds \s+$, where $ is before any line feed. The engine would read a long run of spaces once for each
// of them.
func scanLineEnd(s string, pos int) (start, end int) {
	for pos < len(s) {
		start = runWithout(s, pos, space)
		end = runOf(s, start, space)
		if end == len(s) && start < end {
			return start, end
		}
		if line := strings.LastIndexByte(s[start:end], '\n'); line > 0 {
			return start, start + line
		}
		pos = end
	}
	return -1, -1
}

// scanNumbers finds \p{N}{1,limit}.
func scanNumbers(limit int) scanner {
	return func(s string, pos int) (start, end int) {
		pos = runWithout(s, pos, number)
		if pos == len(s) {
			return -1, -1
		}
		return pos, numbersUpTo(s, pos, limit)
	}
}

// lineWords scans the patterns of Llama 3, Qwen 2 and their kin.
type lineWords struct {
	digitsMax int
	word      class // what words are made of
	folds     bool  // whether contractions fold beyond ASCII
}

func (p lineWords) scan(s string, pos int) (start, end int) {
	if n := contraction(s, pos, true, p.folds); n > 0 {
		return pos, pos + n
	}
	c, width := classAt(s, pos)
	if c&(letter|number|newline) == 0 {
		if word := pos + width; word < len(s) {
			if next, w := classAt(s, word); next&p.word != 0 {
				return pos, runOf(s, word+w, p.word)
			}
		}
	}
	switch {
	case c&p.word != 0:
		return pos, runOf(s, pos+width, p.word)
	case c&number != 0:
		return pos, numbersUpTo(s, pos, p.digitsMax)
	}
	if end := punctuated(s, pos, space|p.word|number); end > pos {
		return pos, runOf(s, end, newline)
	}
	return pos, linesOrSpaces(s, pos)
}

// punctuated matches ` ?[^…]+` where … are the properties in not; it returns pos when there is no match.
func punctuated(s string, pos int, not class) int {
	at := pos
	if s[at] == ' ' {
		at++
	}
	end := runWithout(s, at, not)
	if end == at {
		return pos
	}
	return end
}
