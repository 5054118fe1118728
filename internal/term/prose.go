package term

import (
	"fmt"
	"strings"
	"unicode"
)

// A Prose turns an answer into what is written to a terminal, piece by piece as
// it comes. Nothing is held back but a mark whose meaning the next character
// decides.
//
// What the model wrote stays what it wrote: marks such as ** are shown, paler,
// not taken away, so that a copy from the screen is the markdown itself. Lines
// are broken between words only. Code, tables and words longer than a line are
// left to the terminal to break, which joins them again when they are copied.
type Prose struct {
	// Columns is the width of the screen. It may change at any time.
	Columns int
	// Color allows styles.
	Color bool

	out  strings.Builder
	mode proseMode
	// line is the beginning of a line that may become a heading or a fence.
	line []rune
	// run is a run of marks that waits for the character after it.
	run  []rune
	last rune // the character before run
	// fence is what closes a block of code.
	fence string
	// spans are the styles that marks have opened; ticks is the length of the
	// run of backticks that closes inline code.
	bold, italic, heading bool
	ticks                 int
	escaped               bool
	style                 string // as last written

	// The cursor stands after column cells. The word before it takes wordCells
	// cells, was written as word and began in the style wordStyle.
	column, wordCells int
	word              strings.Builder
	wordStyle         string
}

type proseMode int

const (
	atStart proseMode = iota // of a line
	inLine
	// These are not wrapped.
	inTable
	inFence // the line that opens or closes a block of code
	inCode  // a line of such a block
)

// Add takes the next piece of the answer and returns what to write.
func (p *Prose) Add(text string) string {
	for _, r := range strings.ToValidUTF8(text, "\uFFFD") {
		if r == '\r' {
			continue
		}
		p.take(r)
	}
	return p.flush()
}

// End returns what closes the answer: what was held back, and a line break if
// there was none.
func (p *Prose) End() string {
	p.begin()
	p.decide(' ')
	p.setStyle("")
	if p.column > 0 {
		p.out.WriteByte('\n')
	}
	out := p.flush()
	*p = Prose{Columns: p.Columns, Color: p.Color}
	return out
}

func (p *Prose) flush() string {
	out := p.out.String()
	p.out.Reset()
	return out
}

func (p *Prose) take(r rune) {
	switch {
	case r == '\n':
		p.newline()
	case p.mode == atStart:
		p.line = append(p.line, r)
		if !p.undecided() {
			p.begin()
		}
	case p.mode == inLine:
		p.inline(r)
	default:
		p.raw(r)
	}
}

// undecided reports whether the beginning of the line may still become more
// than text.
func (p *Prose) undecided() bool {
	text := strings.TrimLeft(string(p.line), " ")
	if len(p.line)-len(text) > 3 {
		return false
	}
	for _, marks := range []string{"#", "`", "~"} {
		if rest := strings.TrimLeft(text, marks); rest == "" {
			return true
		}
	}
	return false
}

// begin decides what kind of line this is, and writes its beginning.
func (p *Prose) begin() {
	if p.mode != atStart {
		return
	}
	line := p.line
	p.line = nil
	text := strings.TrimLeft(string(line), " ")
	hashes := len(text) - len(strings.TrimLeft(text, "#"))
	switch {
	case p.fence != "":
		p.mode = inCode
		if fenceOf(text) != "" && strings.HasPrefix(text, p.fence) {
			p.mode, p.fence = inFence, ""
		}
	case fenceOf(text) != "":
		p.mode, p.fence = inFence, fenceOf(text)
	case strings.HasPrefix(text, "|"):
		p.mode = inTable
	default:
		p.mode = inLine
		p.heading = hashes >= 1 && hashes <= 6 && strings.HasPrefix(text[hashes:], " ")
	}
	for _, r := range line {
		if p.mode == inLine {
			p.inline(r)
		} else {
			p.raw(r)
		}
	}
}

// fenceOf returns the marks that open or close a block of code, if there are
// three or more.
func fenceOf(text string) string {
	for _, mark := range []string{"`", "~"} {
		if n := len(text) - len(strings.TrimLeft(text, mark)); n >= 3 {
			return text[:n]
		}
	}
	return ""
}

// newline ends a line. Styles do not continue on the next one: an answer may open
// what it never closes.
func (p *Prose) newline() {
	p.begin()
	p.decide('\n')
	p.bold, p.italic, p.heading, p.ticks, p.escaped = false, false, false, 0, false
	p.setStyle("")
	p.breakLine()
	p.mode, p.last = atStart, '\n'
}

func (p *Prose) breakLine() {
	p.out.WriteByte('\n')
	p.column = 0
	p.endWord()
}

// inline takes a character of a line of text.
func (p *Prose) inline(r rune) {
	isMark := r == '*' || r == '_' || r == '`'
	if isMark && !p.escaped && (len(p.run) == 0 || p.run[0] == r) {
		p.run = append(p.run, r)
		return
	}
	p.decide(r)
	if isMark && !p.escaped {
		p.run = append(p.run, r)
		return
	}
	p.escaped = r == '\\' && !p.escaped && p.ticks == 0
	p.put(r, p.current())
	p.last = r
}

// decide gives the run of marks before next its meaning, and writes it.
func (p *Prose) decide(next rune) {
	run := p.run
	if len(run) == 0 {
		return
	}
	p.run = nil
	opens, closes := flanks(p.last, next, run[0])
	style := pale
	switch {
	case run[0] == '`' && p.ticks == 0:
		p.ticks = len(run)
	case run[0] == '`' && p.ticks == len(run):
		p.ticks = 0
	case p.ticks > 0 || !p.toggle(len(run), opens, closes):
		style = p.current()
	}
	for _, r := range run {
		p.put(r, style)
	}
	p.last = run[0]
}

// flanks reports whether marks between two characters can open and close a
// style: they touch the text they mark, and an underscore is not a mark within
// a word.
func flanks(previous, next, mark rune) (opens, closes bool) {
	space := func(r rune) bool { return r == 0 || unicode.IsSpace(r) }
	opens, closes = !space(next), !space(previous)
	if mark == '_' && isWord(previous) && isWord(next) {
		return false, false
	}
	return opens, closes
}

// toggle opens or closes the styles of a number of marks, and reports whether it did.
func (p *Prose) toggle(marks int, opens, closes bool) bool {
	change := func(on *bool) bool {
		if *on && closes {
			*on = false
			return true
		}
		if !*on && opens {
			*on = true
			return true
		}
		return false
	}
	switch marks {
	case 1:
		return change(&p.italic)
	case 2:
		return change(&p.bold)
	case 3:
		bold, italic := change(&p.bold), change(&p.italic)
		return bold || italic
	}
	return false
}

// The styles, as the numbers that select them.
const (
	pale      = "2"
	strong    = "1"
	slanted   = "3"
	codeColor = "36"
)

// current is the style of text at this place.
func (p *Prose) current() string {
	var all []string
	if p.bold || p.heading {
		all = append(all, strong)
	}
	if p.italic {
		all = append(all, slanted)
	}
	if p.ticks > 0 {
		all = append(all, codeColor)
	}
	return strings.Join(all, ";")
}

func (p *Prose) setStyle(style string) {
	if !p.Color || style == p.style {
		return
	}
	p.style = style
	p.emit(sgr(style))
}

func sgr(style string) string {
	if style == "" {
		return "\x1b[0m"
	}
	return "\x1b[0;" + style + "m"
}

// emit writes a text that belongs to the word, if there is one.
func (p *Prose) emit(text string) {
	p.out.WriteString(text)
	p.word.WriteString(text)
}

func (p *Prose) endWord() {
	p.word.Reset()
	p.wordCells, p.wordStyle = 0, p.style
}

// raw writes a character of a line that is not wrapped.
func (p *Prose) raw(r rune) {
	style := pale
	switch {
	case p.mode == inCode:
		style = codeColor
	case p.mode == inTable && r != '|':
		style = ""
	}
	p.setStyle(style)
	if r != '\t' {
		r = picture(r)
	}
	p.out.WriteRune(r)
	p.column++
}

// put writes a character of text and breaks the line before its word if that
// has no room. The last column stays free, so that the cursor always stands
// where it seems to.
func (p *Prose) put(r rune, style string) {
	if r == '\t' {
		r = ' '
	}
	r = picture(r)
	n, limit := runeCells(r), max(p.Columns-1, 1)
	if unicode.IsSpace(r) && r != '\u00a0' {
		p.space(r, limit, style)
		return
	}
	if n == 2 || p.column == 0 {
		p.endWord() // a wide character is a word of its own
	}
	if p.column+n > limit {
		p.wrap(n, limit)
	}
	p.setStyle(style)
	p.emit(string(r))
	p.column, p.wordCells = p.column+n, p.wordCells+n
	if n == 2 {
		p.endWord()
	}
}

func (p *Prose) space(r rune, limit int, style string) {
	p.setStyle(style)
	if p.column >= limit {
		p.breakLine()
	} else {
		p.out.WriteRune(r)
		p.column++
	}
	p.endWord()
}

// wrap makes room for n more cells of the word: the word goes to the next
// line, unless it would not fit there either.
func (p *Prose) wrap(n, limit int) {
	switch {
	case p.wordCells+n > limit || p.wordCells >= p.column:
		p.column %= max(p.Columns, 1) // the terminal breaks it
		return
	case p.wordCells == 0:
		p.breakLine()
		return
	}
	fmt.Fprintf(&p.out, "\x1b[%dD\x1b[K\n", p.wordCells)
	if p.Color {
		p.out.WriteString(sgr(p.wordStyle))
	}
	p.out.WriteString(p.word.String())
	p.column = p.wordCells
}
