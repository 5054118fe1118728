package jinja

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// filterWordWrap breaks each line of a text at a width, as Python's textwrap
// does without touching white space inside lines.
func filterWordWrap(in *interp, v Value, args callArgs) (Value, error) {
	values, err := args.params("wordwrap", "width", "break_long_words", "wrapstring", "break_on_hyphens")
	if err != nil {
		return nil, err
	}
	s, err := textArg(v)
	if err != nil {
		return nil, err
	}
	wrap := wrapper{breakLong: boolOr(values[1], true), onHyphens: boolOr(values[3], true)}
	if wrap.width, err = intOr("wordwrap", values[0], 79); err != nil {
		return nil, err
	}
	if wrap.width <= 0 {
		return nil, valueErrorf("invalid width %d (must be > 0)", wrap.width)
	}
	if values[2] == nil {
		values[2] = absent{}
	}
	sep, err := strOr("wordwrap", values[2], "\n")
	if err != nil {
		return nil, err
	}
	// One line per character is the worst case.
	if err := in.timesString(16+len(sep), len(s)); err != nil {
		return nil, err
	}
	var paragraphs []string
	for _, line := range splitLines(s, false) {
		paragraphs = append(paragraphs, strings.Join(wrap.wrap(line), sep))
	}
	return in.joinStrings(paragraphs, sep)
}

type wrapper struct {
	width     int
	breakLong bool
	onHyphens bool
}

// wrap breaks one paragraph into lines.
func (w wrapper) wrap(text string) []string {
	chunks := w.chunks(text)
	var lines []string
	for len(chunks) > 0 {
		if len(lines) > 0 && strings.TrimFunc(chunks[0], isSpace) == "" {
			chunks = chunks[1:]
		}
		var line []string
		size := 0
		for len(chunks) > 0 {
			n := utf8.RuneCountInString(chunks[0])
			if size+n > w.width {
				break
			}
			line, size, chunks = append(line, chunks[0]), size+n, chunks[1:]
		}
		if len(chunks) > 0 && utf8.RuneCountInString(chunks[0]) > w.width {
			line, chunks = w.breakChunk(line, chunks, size)
		}
		if len(line) > 0 && strings.TrimFunc(line[len(line)-1], isSpace) == "" {
			line = line[:len(line)-1]
		}
		if len(line) > 0 {
			lines = append(lines, strings.Join(line, ""))
		}
	}
	return lines
}

// breakChunk adds to the line what fits of a chunk that is longer than a
// line. That may be nothing: the empty piece then takes the place of the
// white space before it when the end of the line is trimmed, as in Python.
func (w wrapper) breakChunk(line, chunks []string, used int) ([]string, []string) {
	if !w.breakLong {
		if len(line) == 0 {
			return append(line, chunks[0]), chunks[1:]
		}
		return line, chunks
	}
	head := runeSlice(chunks[0], 0, w.width-used)
	if w.onHyphens {
		if at := strings.LastIndexByte(head, '-'); at > 0 && strings.Trim(head[:at], "-") != "" {
			head = head[:at+1]
		}
	}
	chunks[0] = chunks[0][len(head):]
	return append(line, head), chunks
}

// chunks splits a text into words and the white space between them, and
// words after their hyphens.
func (w wrapper) chunks(text string) []string {
	var chunks []string
	for text != "" {
		first, _ := utf8.DecodeRuneInString(text)
		inSpace := isSpace(first)
		end := strings.IndexFunc(text, func(r rune) bool { return isSpace(r) != inSpace })
		if end < 0 {
			end = len(text)
		}
		word := text[:end]
		text = text[end:]
		for w.onHyphens && !inSpace {
			at := hyphenBreak(word)
			if at < 0 {
				break
			}
			chunks = append(chunks, word[:at])
			word = word[at:]
		}
		chunks = append(chunks, word)
	}
	return chunks
}

// hyphenBreak returns the place after the first hyphen between two letters.
func hyphenBreak(word string) int {
	for i := 1; i+1 < len(word); i++ {
		if word[i] != '-' {
			continue
		}
		before, _ := utf8.DecodeLastRuneInString(word[:i])
		after := []rune(word[i+1 : min(len(word), i+9)])
		if i >= 2 && unicode.IsLetter(before) && len(after) >= 2 && unicode.IsLetter(after[0]) && unicode.IsLetter(after[1]) {
			return i + 1
		}
	}
	return -1
}
