package jinja

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

var strMethods = map[string]method{
	"strip":      strStrip(strings.TrimFunc),
	"lstrip":     strStrip(strings.TrimLeftFunc),
	"rstrip":     strStrip(strings.TrimRightFunc),
	"split":      strSplit(false),
	"rsplit":     strSplit(true),
	"splitlines": strSplitLines,
	"startswith": strAffix("startswith", strings.HasPrefix),
	"endswith":   strAffix("endswith", strings.HasSuffix),
	"replace":    strReplace,
	"join":       strJoin,
	"find":       strFind("find", strings.Index),
	"rfind":      strFind("rfind", strings.LastIndex),
	"index":      strFind("index", strings.Index),
	"count":      strCount,
	"format":     strFormat,

	"removeprefix": func(_ *state, self Value, args callArgs) Value {
		t, prefix := selfText(self), args.bind("removeprefix", 1, "prefix/").str(0, "")
		return t.from(len(t.text) - len(strings.TrimPrefix(t.text, prefix))).value()
	},
	"removesuffix": func(_ *state, self Value, args callArgs) Value {
		t, suffix := selfText(self), args.bind("removesuffix", 1, "suffix/").str(0, "")
		return t.Cut(0, len(strings.TrimSuffix(t.text, suffix))).value()
	},

	"upper":      strConvert(toUpper),
	"lower":      strConvert(strings.ToLower),
	"title":      strConvert(toTitle),
	"capitalize": strConvert(capitalize),

	"isalpha": strTest(all(unicode.IsLetter)),
	"isdigit": strTest(all(unicode.IsDigit)),
	"isalnum": strTest(all(func(r rune) bool { return unicode.IsLetter(r) || unicode.IsNumber(r) })),
	"isspace": strTest(all(isSpace)),
}

func selfText(self Value) Text {
	t, _ := textOf(self)
	return t
}

// strConvert is a method without arguments that returns another text.
func strConvert(convert func(string) string) method {
	return func(r *state, self Value, args callArgs) Value {
		args.none("method")
		s, _ := asStr(self)
		r.allocString(3 * len(s)) // the other case may need three times the bytes
		return convert(s)
	}
}

// upperSpecial has the characters whose upper case is more than one
// character, which Go's simple mapping leaves alone.
var upperSpecial = strings.NewReplacer("ß", "SS", "ﬀ", "FF", "ﬁ", "FI", "ﬂ", "FL", "ﬃ", "FFI", "ﬄ", "FFL", "ﬅ", "ST",
	"ﬆ", "ST", "ŉ", "ʼN")

func toUpper(s string) string { return strings.ToUpper(upperSpecial.Replace(s)) }

// toTitle starts every run of letters with a capital.
func toTitle(s string) string {
	inWord := false
	return strings.Map(func(r rune) rune {
		wasInWord := inWord
		if inWord = unicode.ToUpper(r) != unicode.ToLower(r); wasInWord {
			return unicode.ToLower(r)
		}
		return unicode.ToTitle(r)
	}, s)
}

func capitalize(s string) string {
	first, size := utf8.DecodeRuneInString(s)
	switch {
	case size == 0:
		return s
	case first == 'ß':
		return "Ss" + strings.ToLower(s[size:])
	}
	return string(unicode.ToTitle(first)) + strings.ToLower(s[size:])
}

// strTest is a method that says yes or no.
func strTest(holds func(string) bool) method {
	return func(r *state, self Value, args callArgs) Value {
		args.none("method")
		s, _ := asStr(self)
		r.scan(len(s))
		return holds(s)
	}
}

func all(holds func(rune) bool) func(string) bool {
	return func(s string) bool {
		return s != "" && strings.IndexFunc(s, func(r rune) bool { return !holds(r) }) < 0
	}
}

func strStrip(trim func(string, func(rune) bool) string) method {
	return func(r *state, self Value, args callArgs) Value {
		p := args.bind("strip", 0, "chars/")
		t := selfText(self)
		r.scan(len(t.text))
		if !p.has(0) {
			return t.found(trim(t.text, isSpace)).value()
		}
		chars := p.str(0, "")
		r.work(len(t.text) / bytesPerStep * (len(chars) / 8))
		return t.found(trim(t.text, func(r rune) bool { return strings.ContainsRune(chars, r) })).value()
	}
}

func strSplit(fromRight bool) method {
	return func(r *state, self Value, args callArgs) Value {
		p := args.bind("split", 0, "sep", "maxsplit")
		t, limit := selfText(self), p.integer(1, -1)
		r.scan(len(t.text))
		if !p.has(0) {
			if limit >= 0 {
				failValue("split: maxsplit needs a separator")
			}
			return r.textList(t, strings.FieldsFunc(t.text, isSpace), -1)
		}
		sep := p.str(0, "")
		if sep == "" {
			failValue("empty separator")
		}
		n := strings.Count(t.text, sep)
		if limit >= 0 {
			n = min(n, limit)
		}
		r.allocItems(n + 1)
		if fromRight {
			return r.textList(t, splitRight(t.text, sep, n), len(sep))
		}
		return r.textList(t, strings.SplitN(t.text, sep, n+1), len(sep))
	}
}

// textList makes a list of the parts of t, which stand in it in this order,
// with gap bytes between them. A negative gap stands for an unknown number of
// separators with which no part begins.
func (r *state) textList(t Text, parts []string, gap int) *List {
	r.allocItems(len(parts))
	list := &List{Items: make([]Value, len(parts))}
	at := 0
	for i, part := range parts {
		if t.isData() {
			list.Items[i] = part
			continue
		}
		if gap < 0 {
			at += strings.Index(t.text[at:], part)
		}
		list.Items[i] = t.Cut(at, at+len(part)).value()
		at += len(part) + max(gap, 0)
	}
	r.work(len(t.own))
	return list
}

func splitRight(s, sep string, n int) []string {
	parts := make([]string, n+1)
	for ; n > 0; n-- {
		at := strings.LastIndex(s, sep)
		parts[n], s = s[at+len(sep):], s[:at]
	}
	parts[0] = s
	return parts
}

func strSplitLines(r *state, self Value, args callArgs) Value {
	t, keepEnds := selfText(self), args.bind("splitlines", 0, "keepends").truth(0)
	r.work(len(t.text)/8 + 1)
	return r.textList(t, splitLines(t.text, keepEnds), -1)
}

// splitLines splits at everything Python regards as the end of a line.
func splitLines(s string, keepEnds bool) []string {
	var lines []string
	for s != "" {
		at := strings.IndexFunc(s, isLineEnd)
		if at < 0 {
			return append(lines, s)
		}
		_, size := utf8.DecodeRuneInString(s[at:])
		if strings.HasPrefix(s[at:], "\r\n") {
			size = 2
		}
		end := at
		if keepEnds {
			end += size
		}
		lines = append(lines, s[:end])
		s = s[at+size:]
	}
	return lines
}

func isLineEnd(r rune) bool {
	return (r >= '\n' && r <= '\r') || (r >= 0x1c && r <= 0x1e) || r == 0x85 || r == 0x2028 || r == 0x2029
}

func strAffix(name string, has func(s, affix string) bool) method {
	return func(r *state, self Value, args callArgs) Value {
		p := args.bind(name, 1, "affix/")
		if l, ok := p.values[0].(*List); ok && l.kind == "tuple" {
			p.values = l.Items
		}
		s, _ := asStr(self)
		for i := range p.values {
			if has(s, p.str(i, "")) {
				return true
			}
		}
		return false
	}
}

func strReplace(r *state, self Value, args callArgs) Value {
	p := args.bind("replace", 2, "old/", "new/", "count/")
	p.str(1, "")
	return r.replace(selfText(self), p.str(0, ""), selfText(p.values[1]), p.integer(2, -1))
}

func (r *state) replace(t Text, old string, now Text, count int) Value {
	s := t.text
	r.scan(len(s))
	n := strings.Count(s, old)
	if count >= 0 {
		n = min(n, count)
	}
	if n == 0 {
		return t.value()
	}
	r.timesString(len(now.text), n)
	r.allocString(len(s) + n*max(0, len(now.text)-len(old)))
	if t.isData() && now.isData() {
		return strings.Replace(s, old, now.text, n)
	}
	r.alloc(spanBytes * (len(t.own) + n*(len(now.own)+1)))
	return replaceSpans(t, old, now, n)
}

// replaceSpans replaces the first n occurrences of old. An empty old occurs
// before every character and at the end.
func replaceSpans(t Text, old string, now Text, n int) Value {
	var b textBuffer
	at := 0
	for i := range n {
		next := at + strings.Index(t.text[at:], old)
		if old == "" && i > 0 {
			_, size := utf8.DecodeRuneInString(t.text[at:])
			next = at + size
		}
		b.add(t.Cut(at, next))
		b.add(now)
		at = next + len(old)
	}
	b.add(t.from(at))
	return b.value()
}

func strJoin(r *state, self Value, args callArgs) Value {
	items := r.items(args.bind("join", 1, "iterable/").values[0])
	texts := make([]Text, len(items))
	for i, item := range items {
		var ok bool
		if texts[i], ok = textOf(item); !ok {
			failType("sequence item %d: expected str instance, %s found", i, typeName(item))
		}
	}
	return r.join(texts, selfText(self))
}

func strFind(name string, find func(s, sub string) int) method {
	return func(r *state, self Value, args callArgs) Value {
		sub := args.bind(name, 1, "sub/").str(0, "")
		s, _ := asStr(self)
		r.scan(len(s))
		at := find(s, sub)
		if at >= 0 {
			return utf8.RuneCountInString(s[:at])
		}
		if name == "index" {
			failValue("substring not found")
		}
		return -1
	}
}

func strCount(r *state, self Value, args callArgs) Value {
	s, _ := asStr(self)
	r.scan(len(s))
	return strings.Count(s, args.bind("count", 1, "sub/").str(0, ""))
}
