package answer

import (
	"sort"
	"strings"
)

// A Reader separates what a model writes in one choice: thoughts, text, and
// calls of tools. It works byte by byte, so that the result does not depend on
// how the text is cut into pieces, and holds back only what may still turn out
// to be part of a marker. A call is shown from the first byte of its arguments
// on. What looks like a call and turns out to be none is text: nothing is lost.
type Reader struct {
	syntax   *toolSyntax // nil if nothing is a call
	thoughts *thoughtMarks
	newID    func() string

	state readState
	// begin looks for the opening of calls, closing for the end of thoughts.
	begin, closing stopMatch
	// held is what may still be a marker or the head of a call.
	// It begins with blank bytes of space.
	held  []byte
	blank int
	// step is the place in the syntax's steps, name and id what was read there.
	step     int
	name, id []byte
	value    objectScan
	// calls counts the calls that have begun, complete those whose arguments are.
	calls, complete int
	// onlyCalls: the answer is nothing but calls. silent: space is dropped if a
	// call or the end follows. trim: space is dropped whatever follows.
	onlyCalls, silent, trim bool

	// known is how many bytes are told apart, contents which of them are text.
	known    int
	contents []textRange
	out      []Piece
	kind     partKind
	buffer   []byte
}

// A readState is what a reader is in the middle of.
type readState int

const (
	// readStart is before the first byte that is not a space.
	readStart readState = iota
	readText
	readThoughts
	// readHead is inside a call, before its arguments; readTail is after them.
	readHead
	readArguments
	readTail
	// readNext is between the calls of a list.
	readNext
)

// A partKind is what bytes turned out to be.
type partKind int

const (
	partText partKind = iota
	partThought
	partArguments
)

// A textRange is a range of bytes of the choice's text.
type textRange struct{ from, to int }

// newReader reads the answer to a prompt. Thinking says that the prompt ends
// inside thoughts.
func newReader(syntax *toolSyntax, thoughts *thoughtMarks, thinking bool, newID func() string) *Reader {
	r := &Reader{syntax: syntax, thoughts: thoughts, newID: newID}
	if syntax != nil {
		r.begin = newStopMatch(syntax.begin)
	}
	if thoughts != nil {
		r.closing = newStopMatch(thoughts.shut)
	}
	if thinking {
		r.state = readThoughts
	}
	return r
}

// expectCalls says whether the answer is nothing but calls.
func (r *Reader) expectCalls(only bool) *Reader {
	r.onlyCalls = only
	return r
}

// read takes more text.
func (r *Reader) read(text string) {
	for i := range len(text) {
		r.feed(text[i])
	}
}

// thinks reports whether it is in the middle of thoughts.
func (r *Reader) thinks() bool { return r.state == readThoughts }

// end says that no more follows. Cut says that the model would have continued: a
// call that was cut off in its head is not shown, because no client could use
// it.
func (r *Reader) end(cut bool) {
	switch {
	case r.state == readThoughts:
		r.releaseFirst(partThought, len(r.held))
	case (r.silent || r.trim) && r.blank == len(r.held):
		r.drop()
	case cut && (r.onlyCalls || r.state > readThoughts):
		r.drop()
	default:
		r.releaseFirst(partText, len(r.held))
	}
}

// pieces returns what has become certain since it was last called, at least
// one piece.
func (r *Reader) pieces() []Piece {
	r.flush()
	out := r.out
	r.out = nil
	if len(out) == 0 {
		out = []Piece{{}}
	}
	return out
}

func (r *Reader) feed(b byte) {
	switch r.state {
	case readStart:
		r.feedStart(b)
	case readText:
		r.feedText(b)
	case readThoughts:
		r.feedThoughts(b)
	case readArguments:
		r.feedArguments(b)
	case readHead, readTail:
		r.feedStep(b)
	case readNext:
		r.feedNext(b)
	}
}

// feedStart takes space until it is clear whether the answer begins with
// thoughts, or with a call where only there one can be.
func (r *Reader) feedStart(b byte) {
	r.hold(b)
	begun := string(r.held[r.blank:])
	if begun == "" {
		return
	}
	if r.thoughts != nil && strings.HasPrefix(r.thoughts.Open, begun) {
		if begun == r.thoughts.Open {
			r.drop()
			r.state = readThoughts
		}
		return
	}
	if r.syntax != nil && r.syntax.onlyFirst {
		switch open, whole := r.syntax.opening(begun); {
		case whole:
			r.enterCall()
			return
		case open:
			return
		}
	}
	r.leaveStart()
}

// leaveStart reads what is held as text. After thoughts it begins with its
// first character that is not a space.
func (r *Reader) leaveStart() {
	again := r.held
	if r.trim {
		again = again[r.blank:]
		r.known += r.blank
	}
	r.held, r.blank, r.trim = nil, 0, false
	r.state = readText
	for _, b := range again {
		r.feed(b)
	}
}

func (r *Reader) feedText(b byte) {
	r.hold(b)
	if r.syntax == nil || r.syntax.onlyFirst {
		r.settle(len(r.held))
		return
	}
	if !r.begin.advance(b) {
		r.settle(len(r.held) - r.begin.matched)
		return
	}
	if text := len(r.held) - len(r.syntax.begin); !r.silent || r.blank < text {
		r.releaseFirst(partText, text)
	}
	r.enterCall()
}

// settle shows the first bytes of what is held, unless they are space that a
// call may follow.
func (r *Reader) settle(certain int) {
	if r.silent && r.blank >= certain {
		return
	}
	r.silent = false
	r.releaseFirst(partText, certain)
}

// hold keeps a byte until it is known what it is part of.
func (r *Reader) hold(b byte) {
	if r.blank == len(r.held) && isSpaceByte(b) {
		r.blank++
	}
	r.held = append(r.held, b)
}

func (r *Reader) feedThoughts(b byte) {
	r.hold(b)
	if !r.closing.advance(b) {
		r.releaseFirst(partThought, len(r.held)-r.closing.matched)
		return
	}
	r.releaseFirst(partThought, len(r.held)-len(r.thoughts.shut))
	r.drop()
	r.closing.matched = 0
	r.thoughts, r.state, r.trim = nil, readStart, true
}

// enterCall begins to read a call whose opening is held.
func (r *Reader) enterCall() {
	r.begin.matched = 0
	r.state, r.step = readHead, 0
	r.name, r.id = r.name[:0], r.id[:0]
}

// feedStep takes a byte of a call outside its arguments.
func (r *Reader) feedStep(b byte) {
	for r.step < len(r.syntax.steps) {
		s := r.syntax.steps[r.step]
		took, moved := r.take(s, b)
		if moved {
			r.step++
		}
		switch {
		case r.state == readArguments:
			r.feedArguments(b)
			return
		case took:
			r.held = append(r.held, b)
			if r.step == len(r.syntax.steps) {
				r.leaveCall()
			}
			return
		case !moved:
			r.fail(b)
			return
		}
	}
	r.leaveCall()
	r.feed(b)
}

// take offers b to a step: whether the step took it, and whether it is over.
func (r *Reader) take(s callStep, b byte) (took, moved bool) {
	switch s.kind {
	case stepByte:
		return b == s.b, b == s.b
	case stepSpace:
		return isSpaceByte(b), !isSpaceByte(b)
	case stepName, stepID:
		into := &r.name
		if s.kind == stepID {
			into = &r.id
		}
		if isNameByte(b) && len(*into) < nameBytesMax {
			*into = append(*into, b)
			return true, false
		}
		return false, len(*into) > 0
	}
	if b == '{' {
		r.showCall()
	}
	return false, b == '{'
}

// fail finds that the held text is not a call.
func (r *Reader) fail(b byte) {
	again := append(r.held, b)
	r.held, r.blank = nil, 0
	wasTail := r.state == readTail
	r.state, r.silent = readText, false
	if !wasTail {
		r.tell(partText, again[0])
		again = again[1:]
	}
	for _, b := range again {
		r.feed(b)
	}
}

// showCall shows that a call has begun: from here on it cannot be anything
// else.
func (r *Reader) showCall() {
	r.drop()
	r.flush()
	id := string(r.id)
	if id == "" {
		id = r.newID()
	}
	r.out = Join(r.out, Piece{Calls: []CallPiece{{Index: r.calls, ID: id, Name: string(r.name)}}})
	r.calls++
	r.state, r.value = readArguments, objectScan{}
}

func (r *Reader) feedArguments(b byte) {
	r.tell(partArguments, b)
	if r.value.ends(b) {
		r.complete++
		r.state = readTail
		if r.step == len(r.syntax.steps) {
			r.leaveCall()
		}
	}
}

// leaveCall has read a whole call.
func (r *Reader) leaveCall() {
	r.drop()
	r.state, r.silent = readText, true
	if r.syntax.list {
		r.state = readNext
	}
}

// feedNext takes what stands between the calls of a list, and its end.
func (r *Reader) feedNext(b byte) {
	switch {
	case isSpaceByte(b):
		r.held = append(r.held, b)
	case b == ',':
		r.held = append(r.held, b)
		r.enterCall()
	case b == ']':
		r.held = append(r.held, b)
		r.drop()
		r.state, r.silent = readText, true
	default:
		again := append(r.held, b)
		r.held, r.blank, r.state, r.silent = nil, 0, readText, false
		for _, b := range again {
			r.feed(b)
		}
	}
}

// releaseFirst shows the first n bytes of what is held.
func (r *Reader) releaseFirst(kind partKind, n int) {
	for _, b := range r.held[:n] {
		r.tell(kind, b)
	}
	r.held = append(r.held[:0], r.held[n:]...)
	r.blank = 0
}

// drop forgets what is held: it was syntax.
func (r *Reader) drop() {
	r.known += len(r.held)
	r.held, r.blank = r.held[:0], 0
}

// tell shows one byte.
func (r *Reader) tell(kind partKind, b byte) {
	if kind != r.kind {
		r.flush()
		r.kind = kind
	}
	r.buffer = append(r.buffer, b)
	if kind == partText {
		if n := len(r.contents); n > 0 && r.contents[n-1].to == r.known {
			r.contents[n-1].to++
		} else {
			r.contents = append(r.contents, textRange{r.known, r.known + 1})
		}
	}
	r.known++
}

// flush puts what was shown into a piece.
func (r *Reader) flush() {
	if len(r.buffer) == 0 {
		return
	}
	text := string(r.buffer)
	r.buffer = r.buffer[:0]
	p := Piece{Text: text}
	switch r.kind {
	case partThought:
		p = Piece{Reasoning: text}
	case partArguments:
		p = Piece{Calls: []CallPiece{{Index: r.calls - 1, Arguments: text}}}
	}
	r.out = Join(r.out, p)
}

// isContent reports whether the byte at an offset was shown as text.
func (r *Reader) isContent(offset int) bool {
	i := sort.Search(len(r.contents), func(i int) bool { return r.contents[i].to > offset })
	return i < len(r.contents) && r.contents[i].from <= offset
}

// An objectScan finds the end of a JSON object.
type objectScan struct {
	depth           int
	quoted, escaped bool
}

// ends takes the next byte and reports whether it closes the object.
func (s *objectScan) ends(b byte) bool {
	switch {
	case s.escaped:
		s.escaped = false
	case s.quoted:
		s.escaped, s.quoted = b == '\\', b != '"'
	case b == '"':
		s.quoted = true
	case b == '{' || b == '[':
		s.depth++
	case b == '}' || b == ']':
		s.depth--
		return s.depth == 0
	}
	return false
}

func isSpaceByte(b byte) bool { return b == ' ' || b == '\n' || b == '\t' || b == '\r' }

func isNameByte(b byte) bool {
	return b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || b >= '0' && b <= '9' || b == '_' || b == '-' || b == '.'
}
