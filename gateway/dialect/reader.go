package dialect

import (
	"sort"
	"strings"
)

// A Reader separates what a model writes in one choice: thoughts, text, and calls of tools. It works byte by byte, so
// that the result does not depend on how the text is cut into pieces, and holds back only what may still turn out to
// be part of a marker. A call is shown from the first byte of its arguments on. What looks like a call and turns out
// to be none is text: nothing is lost.
type Reader struct {
	readTask
	thoughts *Thoughts
	state    readState
	// marks look for the opening of calls and, behind it, for the marks that are dropped; closing for the end of
	// thoughts or of a value.
	marks   []Match
	closing Match
	// held is what may still be a marker or the head of a call. It begins with blank bytes of space.
	held  []byte
	blank int
	call  callReader
	// silent: space is dropped if a call or the end follows. trim: space is dropped whatever follows.
	silent, trim bool
	findings
}

// A readTask is what a reader is asked to read.
type readTask struct {
	dialect *Syntax
	// calls says that there are tools; without any, nothing is a call.
	calls   bool
	newID   func() string
	schemas map[string]*schema
	// onlyCalls: the answer is nothing but calls.
	onlyCalls bool
}

// A findings is what a reader has found.
type findings struct {
	// begun counts the calls that have begun, complete those whose arguments are.
	begun, complete int
	// known is how many bytes are told apart, contents which of them are text.
	known    int
	contents []textRange
	out      []Fragment
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
	// readHeader is before the content of a message inside the answer.
	readHeader
	// readHead is inside a call, before its arguments; readTail is after them.
	readHead
	readArguments
	// readMembers is between the members of arguments, readMember and readValue are inside one. readBody is inside
	// arguments that are read as a whole.
	readMembers
	readMember
	readValue
	readBody
	readTail
	// readNext is between the calls of a section.
	readNext
)

// A partKind is what bytes turned out to be.
type partKind int

const (
	partText partKind = iota
	partThought
	partArguments
)

// A Fragment is what came next in a choice: thoughts, text, or a fragment of a call.
type Fragment struct {
	Thoughts, Text string
	Call           *CallFragment
}

// A CallFragment is a fragment of a call. The first of an index has its id and name.
type CallFragment struct {
	Index     int
	ID, Name  string
	Arguments string
}

// A textRange is a range of bytes of the choice's text.
type textRange struct{ from, to int }

// newReader reads the answer to a prompt. Thinking says that the prompt ends inside thoughts.
func newReader(d *Syntax, tools []Tool, thoughts *Thoughts, thinking bool, newID func() string) *Reader {
	r := &Reader{thoughts: thoughts}
	r.readTask = readTask{dialect: d, calls: tools != nil, newID: newID, schemas: map[string]*schema{}}
	for _, t := range tools {
		r.schemas[t.Name] = parseSchema(t.Schema)
	}
	if r.calls && !d.onlyFirst && (d.frames == nil || d.frames.call == "") {
		r.marks = append(r.marks, NewMatch(d.begin))
	} else {
		r.marks = append(r.marks, Match{})
	}
	for _, mark := range d.drops {
		r.marks = append(r.marks, NewMatch(mark))
	}
	if thoughts != nil {
		r.closing = NewMatch(thoughts.shut)
	}
	switch {
	case thinking:
		r.state = readThoughts
	case d.frames != nil:
		r.state = readHeader
	case d.primer != "":
		r.known = -len(d.primer)
		r.Read(d.primer)
	}
	return r
}

// expectCalls says whether the answer is nothing but calls.
func (r *Reader) expectCalls(only bool) *Reader {
	r.onlyCalls = only
	return r
}

// NewThoughtReader reads nothing but thoughts at the beginning of an answer, as r does.
func (r *Reader) NewThoughtReader() *Reader {
	return newReader(Table[0], nil, r.thoughts, false, nil)
}

// Read takes more text.
func (r *Reader) Read(text string) {
	for i := range len(text) {
		r.feed(text[i])
	}
}

// Thinks reports whether it is in the middle of thoughts.
func (r *Reader) Thinks() bool { return r.state == readThoughts }

// Known returns how many bytes are told apart.
func (r *Reader) Known() int { return r.known }

// Complete returns how many calls have all of their arguments.
func (r *Reader) Complete() int { return r.complete }

// End says that no more follows. Cut says that the model would have continued: a call that was cut off in its head is
// not shown, because no client could use it.
func (r *Reader) End(cut bool) {
	if r.state == readBody && !cut {
		r.endBody()
	}
	switch {
	case r.state == readThoughts:
		r.releaseFirst(partThought, len(r.held))
	case r.state == readHeader && (len(r.held) == 0 || strings.HasPrefix(string(r.held), "<|")):
		r.drop()
	case r.dialect.primer != "" && string(r.held) == r.dialect.primer:
		r.drop()
	case (r.silent || r.trim) && r.blank == len(r.held):
		r.drop()
	case cut && (r.onlyCalls || r.state > readThoughts), r.state == readValue, r.state == readBody:
		r.drop()
	default:
		r.releaseFirst(partText, len(r.held))
	}
}

// Parts returns what has become certain since it was last called.
func (r *Reader) Parts() []Fragment {
	r.flush()
	out := r.out
	r.out = nil
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
	case readHeader:
		r.feedHeader(b)
	case readHead, readTail:
		r.feedStep(b)
	case readArguments:
		r.feedArguments(b)
	case readMembers:
		r.feedMembers(b)
	case readMember:
		r.feedMember(b)
	case readValue:
		r.feedValue(b)
	case readBody:
		r.feedBody(b)
	case readNext:
		r.feedNext(b)
	}
}

// feedStart takes space until it is clear whether the answer begins with thoughts, or with a call where only there one
// can be.
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
	if r.calls && r.dialect.onlyFirst {
		switch open, whole := r.dialect.opening(begun); {
		case whole:
			r.enterCall(r.dialect.first)
			return
		case open:
			return
		}
	}
	r.leaveStart()
}

// leaveStart reads what is held as text. After thoughts it begins with its first character that is not a space.
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
	longest := 0
	for i := range r.marks {
		m := &r.marks[i]
		if m.pattern == "" {
			continue
		}
		if !m.Advance(b) {
			longest = max(longest, m.matched)
			continue
		}
		text := len(r.held) - len(m.pattern)
		if !r.silent || r.blank < text {
			r.releaseFirst(partText, text)
		}
		r.forgetMarks()
		if i == 0 {
			r.enterCall(r.dialect.first)
			return
		}
		r.drop()
		if r.dialect.frames != nil {
			r.state = readHeader
		}
		return
	}
	r.settle(len(r.held) - longest)
}

func (r *Reader) forgetMarks() {
	for i := range r.marks {
		r.marks[i].matched = 0
	}
}

// settle shows the first bytes of what is held, unless they are space that a call may follow.
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
	if !r.closing.Advance(b) {
		r.releaseFirst(partThought, len(r.held)-r.closing.matched)
		return
	}
	r.releaseFirst(partThought, len(r.held)-len(r.thoughts.shut))
	r.drop()
	r.closing.matched = 0
	if r.dialect.frames != nil {
		r.state = readHeader
		return
	}
	r.thoughts, r.state, r.trim = nil, readStart, true
}

// headerBytesMax bounds the header of a message inside an answer.
const headerBytesMax = 256

// feedHeader takes the header of a message, which says what the message is.
func (r *Reader) feedHeader(b byte) {
	r.held = append(r.held, b)
	f := r.dialect.frames
	header, found := strings.CutSuffix(string(r.held), f.message)
	if !found {
		if len(r.held) > headerBytesMax {
			r.state = readText
			r.releaseFirst(partText, len(r.held))
		}
		return
	}
	_, name, isCall := strings.Cut(header, f.call)
	switch {
	case f.call != "" && isCall && r.calls:
		name = name[:countNameBytes(name)]
		r.call = callReader{name: []byte(name), steps: []readStep{{kind: stepSpace}, {kind: stepArguments}}}
		r.state = readHead
	case r.thoughts != nil && strings.Contains(header, f.thought):
		r.drop()
		r.state = readThoughts
	default:
		r.drop()
		r.state = readText
	}
}

func countNameBytes(text string) int {
	for i := range len(text) {
		if !isNameByte(text[i]) {
			return i
		}
	}
	return len(text)
}

// releaseFirst shows the first n bytes of what is held.
func (r *Reader) releaseFirst(kind partKind, n int) {
	for _, b := range r.held[:n] {
		r.show(kind, b)
	}
	r.held = append(r.held[:0], r.held[n:]...)
	r.blank = 0
}

// drop forgets what is held: it was syntax.
func (r *Reader) drop() {
	r.known += len(r.held)
	r.held, r.blank = r.held[:0], 0
}

// show shows one byte.
func (r *Reader) show(kind partKind, b byte) {
	if r.known < 0 { // the prompt wrote it
		r.known++
		return
	}
	r.enter(kind)
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

// put adds a part of arguments that need not stand in the answer like that.
func (r *Reader) put(text string) {
	r.enter(partArguments)
	r.buffer = append(r.buffer, text...)
}

// enter begins another kind of part.
func (r *Reader) enter(kind partKind) {
	if kind != r.kind {
		r.flush()
		r.kind = kind
	}
}

// flush puts what was shown into a part.
func (r *Reader) flush() {
	if len(r.buffer) == 0 {
		return
	}
	text := string(r.buffer)
	r.buffer = r.buffer[:0]
	p := Fragment{Text: text}
	switch r.kind {
	case partThought:
		p = Fragment{Thoughts: text}
	case partArguments:
		p = Fragment{Call: &CallFragment{Index: r.begun - 1, Arguments: text}}
	}
	r.out = append(r.out, p)
}

// ContentBefore returns how many of the bytes before an offset were shown as text.
func (r *Reader) ContentBefore(offset int) (n int) {
	for _, c := range r.contents {
		n += max(0, min(c.to, offset)-c.from)
	}
	return n
}

// IsContent reports whether the byte at an offset was shown as text.
func (r *Reader) IsContent(offset int) bool {
	i := sort.Search(len(r.contents), func(i int) bool { return r.contents[i].to > offset })
	return i < len(r.contents) && r.contents[i].from <= offset
}
