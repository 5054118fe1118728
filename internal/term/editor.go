package term

import (
	"slices"
	"strings"
	"unicode"
)

// An EditorAction is what a key asks of the caller of the editor.
type EditorAction int

const (
	// Edited asks to draw the text again.
	Edited EditorAction = iota
	// Submitted: the text is complete.
	Submitted
	// Interrupted: the text is to be thrown away. There may be none.
	Interrupted
	// Ended: there is no text and none will come.
	Ended
	// Cleared asks for an empty screen.
	Cleared
	// Suspended asks to stop the program until it is continued.
	Suspended
	// Elsewhere asks to let the user's own editor change the text.
	Elsewhere
)

// An Editor is a text that is being typed. It may have several lines.
type Editor struct {
	// Complete returns what may stand in place of the text before the cursor;
	// nil completes nothing.
	Complete func(before string) []string

	text    []rune
	at      int // the cursor stands before text[at]
	killed  []rune
	history *History
	entry   int    // which entry of the history is shown; its length: none
	draft   []rune // what was typed before the history was looked at
	search  *search
}

// A search looks through the history for a text, newest first.
type search struct {
	wanted []rune
	entry  int // where it was found; its length: nowhere
	draft  []rune
}

// NewEditor returns an editor without text. The history may be nil.
func NewEditor(h *History) *Editor {
	if h == nil {
		h = &History{}
	}
	e := &Editor{history: h}
	e.Set("")
	return e
}

// Text returns what was typed.
func (e *Editor) Text() string { return string(e.text) }

// Set replaces the text and puts the cursor at its end.
func (e *Editor) Set(text string) {
	e.text = []rune(text)
	e.at = len(e.text)
	e.entry, e.draft, e.search = len(e.history.entries), nil, nil
}

// Press applies a key.
func (e *Editor) Press(k Key) EditorAction {
	if e.search != nil && e.searching(k) {
		return Edited
	}
	switch k.Kind {
	case Insert:
		e.insert([]rune(k.Text))
	case Newline:
		e.insert([]rune{'\n'})
	case Enter:
		return e.enter()
	case Complete:
		e.complete()
	case Search:
		e.search = &search{entry: len(e.history.entries), draft: e.text}
	case Yank:
		e.insert(e.killed)
	case Transpose:
		e.transpose()
	case Interrupt:
		return Interrupted
	case EndOfInput:
		if len(e.text) == 0 {
			return Ended
		}
		e.remove(e.at, after(e.text, e.at))
	case Redraw:
		return Cleared
	case Suspend:
		return Suspended
	case OtherEditor:
		return Elsewhere
	default:
		e.move(k.Kind)
		e.erase(k.Kind)
	}
	return Edited
}

// move applies the keys that move the cursor.
func (e *Editor) move(k Kind) {
	switch k {
	case Left:
		e.at = before(e.text, e.at)
	case Right:
		e.at = after(e.text, e.at)
	case Home:
		e.at = e.lineStart(e.at)
	case End:
		e.at = e.lineEnd(e.at)
	case WordLeft:
		e.at = e.wordLeft()
	case WordRight:
		e.at = e.wordRight()
	case Up:
		if start := e.lineStart(e.at); start > 0 {
			e.at = e.sameColumn(e.lineStart(start-1), e.at-start)
		} else {
			e.browse(-1)
		}
	case Down:
		if end := e.lineEnd(e.at); end < len(e.text) {
			e.at = e.sameColumn(end+1, e.at-e.lineStart(e.at))
		} else {
			e.browse(1)
		}
	case Previous:
		e.browse(-1)
	case Next:
		e.browse(1)
	}
}

// erase applies the keys that delete.
func (e *Editor) erase(k Kind) {
	switch k {
	case Backspace:
		e.remove(before(e.text, e.at), e.at)
	case Delete:
		e.remove(e.at, after(e.text, e.at))
	case KillWordLeft:
		e.kill(e.wordLeft(), e.at)
	case KillWordRight:
		e.kill(e.at, e.wordRight())
	case KillToStart:
		e.kill(e.lineStart(e.at), e.at)
	case KillToEnd:
		e.kill(e.at, max(e.lineEnd(e.at), min(e.at+1, len(e.text)))) // at the end of a line, the line break
	}
}

func (e *Editor) insert(text []rune) {
	e.text = slices.Insert(e.text, e.at, text...)
	e.at += len(text)
}

func (e *Editor) remove(from, to int) {
	e.text = slices.Delete(slices.Clone(e.text), from, to)
	e.at = from
}

func (e *Editor) kill(from, to int) {
	if from < to {
		e.killed = slices.Clone(e.text[from:to])
		e.remove(from, to)
	}
}

func (e *Editor) lineStart(at int) int {
	for at > 0 && e.text[at-1] != '\n' {
		at--
	}
	return at
}

func (e *Editor) lineEnd(at int) int {
	for at < len(e.text) && e.text[at] != '\n' {
		at++
	}
	return at
}

// sameColumn returns the position of column in the line that starts at start, or its
// end.
func (e *Editor) sameColumn(start, column int) int { return min(start+column, e.lineEnd(start)) }

func isWord(r rune) bool {
	return unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.In(r, unicode.Mn)
}

func (e *Editor) wordLeft() int {
	i := e.at
	for i > 0 && !isWord(e.text[i-1]) {
		i--
	}
	for i > 0 && isWord(e.text[i-1]) {
		i--
	}
	return i
}

func (e *Editor) wordRight() int {
	i := e.at
	for i < len(e.text) && !isWord(e.text[i]) {
		i++
	}
	for i < len(e.text) && isWord(e.text[i]) {
		i++
	}
	return i
}

// transpose exchanges the two characters around the cursor.
func (e *Editor) transpose() {
	middle := e.at
	if middle == len(e.text) {
		middle = before(e.text, middle)
	}
	first, last := before(e.text, middle), after(e.text, middle)
	if first == middle {
		return
	}
	e.text = slices.Concat(e.text[:first], e.text[middle:last], e.text[first:middle], e.text[last:])
	e.at = last
}

// enter ends the text, or begins a new line of one that is not complete: after
// a backslash, and in a block that three quotation marks opened.
func (e *Editor) enter() EditorAction {
	if e.at == len(e.text) && e.at > 0 && e.text[e.at-1] == '\\' {
		e.remove(e.at-1, e.at)
		e.insert([]rune{'\n'})
		return Edited
	}
	if text := strings.TrimSpace(e.Text()); strings.HasPrefix(text, quotes) && strings.Count(text, quotes) == 1 {
		e.at = len(e.text)
		e.insert([]rune{'\n'})
		return Edited
	}
	return Submitted
}

const quotes = `"""`

// Unquote returns the text of a block between three quotation marks, and any
// other text as it is.
func Unquote(text string) string {
	inner, opened := strings.CutPrefix(strings.TrimSpace(text), quotes)
	inner, closed := strings.CutSuffix(inner, quotes)
	if !opened || !closed {
		return text
	}
	return strings.TrimSuffix(strings.TrimPrefix(inner, "\n"), "\n")
}

// browse shows another entry of the history, or at its end what was typed.
func (e *Editor) browse(by int) {
	entries := e.history.entries
	to := e.entry + by
	if to < 0 || to > len(entries) {
		return
	}
	if e.entry == len(entries) {
		e.draft = e.text
	}
	e.entry, e.text = to, e.draft
	if to < len(entries) {
		e.text = []rune(entries[to])
	}
	e.at = len(e.text)
}

// complete puts in what all completions have in common.
func (e *Editor) complete() {
	if e.Complete == nil {
		return
	}
	options := e.Complete(string(e.text[:e.at]))
	if len(options) == 0 {
		return
	}
	common := options[0]
	for _, o := range options[1:] {
		for !strings.HasPrefix(o, common) {
			common = string([]rune(common)[:len([]rune(common))-1])
		}
	}
	if typed := string(e.text[:e.at]); strings.HasPrefix(common, typed) {
		e.insert([]rune(common[len(typed):]))
	}
}

// searching applies a key to the search, and reports false if it ended the
// search and is still to be applied to the text found.
func (e *Editor) searching(k Key) bool {
	s := e.search
	switch k.Kind {
	case Insert:
		s.wanted = append(s.wanted, []rune(k.Text)...)
		s.find(e, s.entry)
	case Backspace:
		s.wanted = s.wanted[:before(s.wanted, len(s.wanted))]
		s.find(e, len(e.history.entries)-1)
	case Search:
		s.find(e, s.entry-1)
	case Escape, Interrupt, OtherEditor:
		e.Set(string(s.draft))
	default:
		e.search = nil
		return false
	}
	return true
}

// find shows the newest entry that has what is wanted, not newer than from.
func (s *search) find(e *Editor, from int) {
	for i := min(from, len(e.history.entries)-1); i >= 0; i-- {
		if strings.Contains(e.history.entries[i], string(s.wanted)) {
			s.entry = i
			e.text = []rune(e.history.entries[i])
			e.at = len(e.text)
			return
		}
	}
}

// searched returns what is being searched for, and whether anything is.
func (e *Editor) searched() (string, bool) {
	if e.search == nil {
		return "", false
	}
	return string(e.search.wanted), true
}
