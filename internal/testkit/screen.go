package testkit

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/width"
)

// A Screen is what a terminal would show: it obeys the control sequences that
// our programs write, breaks lines as terminals do, and breaks them anew when
// its width changes. It panics on sequences it does not know, so that a test
// notices.
type Screen struct {
	columns, rows int
	lines         []screenLine // all that was ever shown; the last rows of them are visible
	row, column   int          // of the cursor, row counts from the first line ever
	pending       []byte
	styled        bool
}

// A screenLine is one row. If it is broken, the next row is the rest of it.
type screenLine struct {
	cells  []string // "" is the right half of a wide character
	broken bool
}

// NewScreen returns an empty screen.
func NewScreen(columns, rows int) *Screen {
	return &Screen{columns: columns, rows: rows, lines: make([]screenLine, 1)}
}

// Write shows bytes that a program has written.
func (s *Screen) Write(p []byte) (int, error) {
	s.pending = append(s.pending, p...)
	for len(s.pending) > 0 {
		n := s.obey()
		if n == 0 {
			break
		}
		s.pending = s.pending[n:]
	}
	return len(p), nil
}

// Text returns every row ever shown, without spaces at their ends.
func (s *Screen) Text() string {
	var rows []string
	for _, l := range s.lines {
		rows = append(rows, strings.TrimRight(l.text(), " "))
	}
	return strings.TrimRight(strings.Join(rows, "\n"), "\n")
}

// Copied returns what a user would copy from the screen: broken lines are
// joined again.
func (s *Screen) Copied() string {
	var out strings.Builder
	for _, l := range s.lines {
		text := l.text()
		if l.broken {
			out.WriteString(text)
			continue
		}
		out.WriteString(strings.TrimRight(text, " ") + "\n")
	}
	return strings.TrimRight(out.String(), "\n")
}

// Cursor returns the row, counted from the first ever shown, and the column of
// the cursor.
func (s *Screen) Cursor() (row, column int) { return s.row, s.column }

// Styled reports whether any style was ever selected.
func (s *Screen) Styled() bool { return s.styled }

func (l *screenLine) text() string {
	var out strings.Builder
	for i, c := range l.cells {
		if c == "" && (i == 0 || runeCells(l.cells[i-1]) != 2) {
			c = " "
		}
		out.WriteString(c)
	}
	return out.String()
}

func runeCells(text string) int {
	r, _ := utf8.DecodeRuneInString(text)
	switch {
	case text == "":
		return 1
	case unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf):
		return 0
	}
	switch width.LookupRune(r).Kind() {
	case width.EastAsianWide, width.EastAsianFullwidth:
		return 2
	}
	return 1
}

// obey takes one character or sequence and returns its length, 0 if it is not
// complete.
func (s *Screen) obey() int {
	switch c := s.pending[0]; {
	case c == 0x1b:
		return s.sequence()
	case c == '\r':
		s.column = 0
	case c == '\n':
		s.row++
		s.grow()
	case c == '\b':
		s.column = max(0, min(s.column, s.columns-1)-1)
	case c == '\t':
		s.column = min(s.columns-1, s.column/8*8+8)
	case c == 0x07:
	case c < 0x20:
		panic(fmt.Sprintf("the screen was sent the control character %#x", c))
	case !utf8.FullRune(s.pending):
		return 0
	default:
		_, n := utf8.DecodeRune(s.pending)
		s.put(string(s.pending[:n]))
		return n
	}
	return 1
}

func (s *Screen) grow() {
	for len(s.lines) <= s.row {
		s.lines = append(s.lines, screenLine{})
	}
}

func (s *Screen) put(text string) {
	n := runeCells(text)
	if n == 0 {
		if at := min(s.column, len(s.lines[s.row].cells)) - 1; at >= 0 {
			s.lines[s.row].cells[at] += text
		}
		return
	}
	if s.column+n > s.columns {
		s.lines[s.row].broken = true
		s.row, s.column = s.row+1, 0
		s.grow()
	}
	l := &s.lines[s.row]
	for len(l.cells) < s.column+n {
		l.cells = append(l.cells, "")
	}
	l.cells[s.column] = text
	if n == 2 {
		l.cells[s.column+1] = ""
	}
	s.column += n
}

// sequence obeys the sequence at the start of what is pending.
func (s *Screen) sequence() int {
	if len(s.pending) < 2 {
		return 0
	}
	if s.pending[1] != '[' {
		panic(fmt.Sprintf("the screen does not know the sequence %q", s.pending[:2]))
	}
	for i := 2; i < len(s.pending); i++ {
		if c := s.pending[i]; c >= 0x40 && c <= 0x7e {
			s.control(string(s.pending[2:i]), c)
			return i + 1
		}
	}
	return 0
}

func (s *Screen) control(parameters string, command byte) {
	n, err := strconv.Atoi(parameters)
	if err != nil || n == 0 {
		n = 1
	}
	at := min(s.column, s.columns-1)
	switch command {
	case 'A':
		s.row, s.column = max(s.top(), s.row-n), at
	case 'C':
		s.column = min(s.columns-1, at+n)
	case 'D':
		s.column = max(0, at-n)
	case 'H':
		s.row, s.column = s.top(), 0
	case 'J', 'K':
		s.clear(command, parameters)
	case 'm':
		s.styled = s.styled || (parameters != "" && parameters != "0")
	case 'h', 'l':
	default:
		panic(fmt.Sprintf("the screen does not know the sequence %q", "\x1b["+parameters+string(command)))
	}
}

func (s *Screen) top() int { return max(0, len(s.lines)-s.rows) }

func (s *Screen) clear(command byte, parameters string) {
	if parameters == "2" {
		for i := s.top(); i < len(s.lines); i++ {
			s.lines[i] = screenLine{}
		}
		return
	}
	l := &s.lines[s.row]
	l.cells, l.broken = l.cells[:min(len(l.cells), min(s.column, s.columns-1))], false
	if command == 'J' {
		for i := s.row + 1; i < len(s.lines); i++ {
			s.lines[i] = screenLine{}
		}
	}
}

// Resize changes the size of the screen: lines that it had broken are joined and
// broken anew, and the cursor stays at its character.
func (s *Screen) Resize(columns, rows int) {
	old, row, column := s.lines, s.row, s.column
	s.lines, s.columns, s.rows = nil, columns, rows
	for i := 0; i < len(old); {
		var all []string
		cursor := -1
		for more := true; more; i++ {
			if i == row {
				cursor = len(all) + column
			}
			all = append(all, old[i].cells...)
			more = old[i].broken && i+1 < len(old)
		}
		first := len(s.lines)
		for len(all) > columns {
			s.lines = append(s.lines, screenLine{all[:columns:columns], true})
			all = all[columns:]
		}
		s.lines = append(s.lines, screenLine{cells: all})
		if cursor >= 0 {
			s.row, s.column = first+cursor/columns, cursor%columns
		}
	}
	for len(s.lines) > s.row+1 && len(s.lines[len(s.lines)-1].cells) == 0 {
		s.lines = s.lines[:len(s.lines)-1]
	}
	s.grow()
}
