package jinja

import (
	"slices"
	"strings"
	"unicode"
)

// A Span is a range of bytes of a text.
type Span struct{ Start, End int }

// A Text is a string that records which of its bytes the template's author
// wrote. The other bytes are data: they came from the conversation or were
// computed from it. Only bytes of the author may later be read as control
// tokens, so data cannot forge the structure of a prompt.
//
// A plain Go string is data throughout. An operation that does
// not handle provenance returns a plain string, so a mistake can only turn the
// author's text into data, never data into the author's text.
type Text struct {
	text string
	// own lists the author's bytes, in order and without overlap, unless whole
	// says that all bytes are the author's.
	own   []Span
	whole bool
}

// Own returns text as written by the template's author. Use it for values that
// do not come from a request, such as the model's special tokens.
func Own(text string) *Text { return &Text{text: text, whole: true} }

// Concat joins strings and Texts. Each part keeps its provenance.
func Concat(parts ...Value) Value {
	var b textBuffer
	for _, part := range parts {
		t, _ := textOf(part)
		b.add(t)
	}
	return b.value()
}

// String returns the text without its provenance.
func (t Text) String() string { return t.text }

// Spans lists the bytes that the template's author wrote, in order.
func (t Text) Spans() []Span {
	if t.whole && t.text != "" {
		return []Span{{0, len(t.text)}}
	}
	return t.own
}

// textOf returns a string of any kind with its provenance.
func textOf(v Value) (Text, bool) {
	switch v := v.(type) {
	case string:
		return Text{text: v}, true
	case *Text:
		return *v, true
	}
	return Text{}, false
}

// value returns t as a template value: a plain string where all of it is data.
func (t Text) value() Value {
	if t.isData() {
		return t.text
	}
	return &t
}

func (t Text) isData() bool { return !t.whole && len(t.own) == 0 }

// Cut returns the bytes from start to end.
func (t Text) Cut(start, end int) Text {
	part := Text{text: t.text[start:end], whole: t.whole}
	if t.whole || len(t.own) == 0 {
		return part
	}
	first, _ := slices.BinarySearchFunc(t.own, start, func(s Span, at int) int { return s.End - at })
	for _, s := range t.own[first:] {
		s = Span{max(s.Start, start) - start, min(s.End, end) - start}
		if s.Start >= end-start {
			break
		}
		if s.Start < s.End {
			part.own = append(part.own, s)
		}
	}
	return authorSpans(part.own).of(part.text)
}

// from returns everything from start on.
func (t Text) from(start int) Text { return t.Cut(start, len(t.text)) }

// found returns part, which must be the first occurrence of itself in t.
func (t Text) found(part string) Text {
	if t.isData() || t.whole {
		return Text{text: part, whole: t.whole}
	}
	at := strings.Index(t.text, part)
	return t.Cut(at, at+len(part))
}

// authorSpans collects the spans of a text that grows.
type authorSpans []Span

// add records the author's bytes of t, which begins at byte start.
func (a *authorSpans) add(t Text, start int) {
	if t.whole {
		a.mark(Span{start, start + len(t.text)})
	}
	for _, s := range t.own {
		a.mark(Span{start + s.Start, start + s.End})
	}
}

func (a *authorSpans) mark(s Span) {
	if s.Start == s.End {
		return
	}
	if last := len(*a) - 1; last >= 0 && (*a)[last].End == s.Start {
		(*a)[last].End = s.End
		return
	}
	*a = append(*a, s)
}

// of gives a text its spans.
func (a authorSpans) of(text string) Text {
	if len(a) == 1 && a[0] == (Span{0, len(text)}) {
		return Text{text: text, whole: true}
	}
	return Text{text: text, own: a}
}

// A textBuffer collects text and its provenance.
type textBuffer struct {
	text []byte
	own  authorSpans
}

// add appends t. It reports whether the provenance took a further span.
func (b *textBuffer) add(t Text) (grew bool) {
	spans := len(b.own)
	b.own.add(t, len(b.text))
	b.text = append(b.text, t.text...)
	return len(b.own) > spans
}

func (b *textBuffer) result() Text { return b.own.of(string(b.text)) }

func (b *textBuffer) value() Value { return b.result().value() }

// isSpace is Python's str.isspace for one character, which is also \s in its
// regular expressions.
func isSpace(r rune) bool {
	return r == ' ' || (r >= '\t' && r <= '\r') || (r >= 0x1c && r <= 0x1f) || (r > 127 && unicode.IsSpace(r))
}
