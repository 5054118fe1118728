package jinja

import (
	"strings"
	"unicode/utf8"
)

var strMethods map[string]method

func init() {
	strMethods = map[string]method{
		"strip":      strStrip(strings.TrimFunc),
		"lstrip":     strStrip(strings.TrimLeftFunc),
		"rstrip":     strStrip(strings.TrimRightFunc),
		"split":      strSplit(false),
		"rsplit":     strSplit(true),
		"splitlines": strSplitLines,
		"startswith": strAffix(strings.HasPrefix),
		"endswith":   strAffix(strings.HasSuffix),
		"replace":    strReplace,
		"join":       strJoin,
		"find":       strFind(false, false),
		"rfind":      strFind(true, false),
		"index":      strFind(false, true),
		"rindex":     strFind(true, true),
		"count":      strCount,
		"format":     strFormat,

		"removeprefix": strCutAffix(withoutPrefix),
		"removesuffix": strCutAffix(withoutSuffix),
		"partition":    strPartition(strings.Index),
		"rpartition":   strPartition(strings.LastIndex),
	}
	for name, convert := range caseMethods {
		strMethods[name] = strConvert(convert)
	}
	for name, holds := range textTests {
		strMethods[name] = strTest(holds)
	}
}

func selfText(self Value) string {
	s, _ := asStr(self)
	return s
}

// strConvert is a method without arguments that returns another text.
func strConvert(convert func(string) string) method {
	return func(in *interp, self Value, args callArgs) (Value, error) {
		s := selfText(self)
		// The other case may need up to three times the bytes.
		if err := in.allocString(3 * len(s)); err != nil {
			return nil, err
		}
		return convert(s), args.none("method")
	}
}

func strTest(holds func(string) bool) method {
	return func(in *interp, self Value, args callArgs) (Value, error) {
		s := selfText(self)
		if err := in.work(len(s) / bytesPerStep); err != nil {
			return nil, err
		}
		return holds(s), args.none("method")
	}
}

func strStrip(trim func(string, func(rune) bool) string) method {
	return func(in *interp, self Value, args callArgs) (Value, error) {
		values, err := args.params("strip", "chars/")
		if err != nil {
			return nil, err
		}
		t, _ := textOf(self)
		s := t.text
		if err := in.work(len(s) / bytesPerStep); err != nil {
			return nil, err
		}
		if isAbsent(values[0]) || values[0] == nil {
			return t.found(trim(s, isSpace)).value(), nil
		}
		chars, ok := asStr(values[0])
		if !ok {
			return nil, typeErrorf("strip arg must be None or str, not %s", typeName(values[0]))
		}
		if err := in.work(len(s) / bytesPerStep * (len(chars) / 8)); err != nil {
			return nil, err
		}
		return t.found(trim(s, func(r rune) bool { return strings.ContainsRune(chars, r) })).value(), nil
	}
}

func strSplit(fromRight bool) method {
	return func(in *interp, self Value, args callArgs) (Value, error) {
		values, err := args.params("split", "sep", "maxsplit")
		if err != nil {
			return nil, err
		}
		limit, err := intOr("split", values[1], -1)
		if err != nil {
			return nil, err
		}
		t, _ := textOf(self)
		s := t.text
		if err := in.work(len(s) / bytesPerStep); err != nil {
			return nil, err
		}
		if isAbsent(values[0]) || values[0] == nil {
			return in.textList(t, splitSpace(s, limit, fromRight), -1)
		}
		sep, err := strOr("split", values[0], "")
		if err != nil {
			return nil, err
		}
		if sep == "" {
			return nil, valueErrorf("empty separator")
		}
		if err := in.allocItems(strings.Count(s, sep) + 1); err != nil {
			return nil, err
		}
		return in.textList(t, splitText(s, sep, limit, fromRight), len(sep))
	}
}

// textList makes a list of the parts of t, which stand in it in this order,
// with gap bytes between them. A negative gap stands for an unknown number of
// separators with which no part begins.
func (in *interp) textList(t Text, parts []string, gap int) (Value, error) {
	if err := in.allocItems(len(parts)); err != nil {
		return nil, err
	}
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
	return list, in.work(len(t.own))
}

func splitText(s, sep string, limit int, fromRight bool) []string {
	if limit < 0 {
		return strings.Split(s, sep)
	}
	if !fromRight {
		return strings.SplitN(s, sep, limit+1)
	}
	var parts []string
	for ; limit > 0; limit-- {
		at := strings.LastIndex(s, sep)
		if at < 0 {
			break
		}
		parts = append(parts, s[at+len(sep):])
		s = s[:at]
	}
	return reversed(append(parts, s))
}

func reversed(texts []string) []string {
	for i, j := 0, len(texts)-1; i < j; i, j = i+1, j-1 {
		texts[i], texts[j] = texts[j], texts[i]
	}
	return texts
}

// splitSpace splits at runs of white space; what remains after the limit
// keeps its inner white space.
func splitSpace(s string, limit int, fromRight bool) []string {
	if limit < 0 {
		return strings.FieldsFunc(s, isSpace)
	}
	var parts []string
	if fromRight {
		for s = strings.TrimRightFunc(s, isSpace); s != "" && limit > 0; limit-- {
			at := strings.LastIndexFunc(s, isSpace)
			if at < 0 {
				break
			}
			_, size := utf8.DecodeRuneInString(s[at:])
			parts = append(parts, s[at+size:])
			s = strings.TrimRightFunc(s[:at], isSpace)
		}
		if s != "" {
			parts = append(parts, s)
		}
		return reversed(parts)
	}
	for s = strings.TrimLeftFunc(s, isSpace); s != "" && limit > 0; limit-- {
		at := strings.IndexFunc(s, isSpace)
		if at < 0 {
			break
		}
		parts = append(parts, s[:at])
		s = strings.TrimLeftFunc(s[at:], isSpace)
	}
	if s != "" {
		parts = append(parts, s)
	}
	return parts
}

func strSplitLines(in *interp, self Value, args callArgs) (Value, error) {
	values, err := args.params("splitlines", "keepends")
	if err != nil {
		return nil, err
	}
	t, _ := textOf(self)
	if err := in.work(len(t.text)/8 + 1); err != nil {
		return nil, err
	}
	return in.textList(t, splitLines(t.text, boolOr(values[0], false)), -1)
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

// window returns the part of s between the character places start and end,
// and the place it begins at; ok is false if start lies behind the text.
func (in *interp) window(s string, start, end Value) (part string, offset int, ok bool, err error) {
	if isAbsent(start) && isAbsent(end) {
		return s, 0, true, in.work(len(s) / bytesPerStep)
	}
	if isAbsent(start) {
		start = nil
	}
	if isAbsent(end) {
		end = nil
	}
	n := utf8.RuneCountInString(s)
	r, err := sliceRange(n, start, end, nil)
	if err != nil {
		return "", 0, false, err
	}
	if i, isInt := asInt(start); isInt && i > n {
		return "", 0, false, nil
	}
	window, err := in.sliceText(Text{text: s}, r)
	return window.text, r.start, r.start <= r.stop, err
}

func strAffix(has func(s, affix string) bool) method {
	return func(in *interp, self Value, args callArgs) (Value, error) {
		values, err := args.required("startswith", 1, "affix/", "start/", "end/")
		if err != nil {
			return nil, err
		}
		part, _, ok, err := in.window(selfText(self), values[1], values[2])
		if err != nil {
			return nil, err
		}
		affixes := []Value{values[0]}
		if t, isTuple := values[0].(*Tuple); isTuple {
			affixes = t.Items
		}
		for _, affix := range affixes {
			text, isStr := asStr(affix)
			if !isStr {
				return nil, typeErrorf("startswith or endswith first arg must be str or a tuple of str, not %s",
					typeName(affix))
			}
			if ok && has(part, text) {
				return true, nil
			}
		}
		return false, nil
	}
}

// withoutPrefix and withoutSuffix return where the rest of s is.
func withoutPrefix(s, affix string) (start, end int) {
	return len(s) - len(strings.TrimPrefix(s, affix)), len(s)
}

func withoutSuffix(s, affix string) (start, end int) { return 0, len(strings.TrimSuffix(s, affix)) }

func strCutAffix(cut func(s, affix string) (start, end int)) method {
	return func(_ *interp, self Value, args callArgs) (Value, error) {
		values, err := args.required("removeprefix", 1, "affix/")
		if err != nil {
			return nil, err
		}
		affix, err := strOr("removeprefix", values[0], "")
		if err != nil {
			return nil, err
		}
		t, _ := textOf(self)
		start, end := cut(t.text, affix)
		return t.Cut(start, end).value(), nil
	}
}

func strReplace(in *interp, self Value, args callArgs) (Value, error) {
	values, err := args.required("replace", 2, "old/", "new/", "count/")
	if err != nil {
		return nil, err
	}
	old, err := strOr("replace", values[0], "")
	if err != nil {
		return nil, err
	}
	if _, err = strOr("replace", values[1], ""); err != nil {
		return nil, err
	}
	count, err := intOr("replace", values[2], -1)
	if err != nil {
		return nil, err
	}
	t, _ := textOf(self)
	now, _ := textOf(values[1])
	return in.replace(t, old, now, count)
}

func (in *interp) replace(t Text, old string, now Text, count int) (Value, error) {
	s := t.text
	if err := in.work(len(s) / bytesPerStep); err != nil {
		return nil, err
	}
	n := strings.Count(s, old)
	if count >= 0 {
		n = min(n, count)
	}
	if n == 0 {
		return t.value(), nil
	}
	if err := in.timesString(len(now.text), n); err != nil {
		return nil, err
	}
	if err := in.allocString(len(s) + n*max(0, len(now.text)-len(old))); err != nil {
		return nil, err
	}
	if t.isData() && now.isData() {
		return strings.Replace(s, old, now.text, n), nil
	}
	if err := in.alloc(spanBytes * (len(t.own) + n*(len(now.own)+1))); err != nil {
		return nil, err
	}
	return replaceSpans(t, old, now, n), nil
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

func strJoin(in *interp, self Value, args callArgs) (Value, error) {
	values, err := args.required("join", 1, "iterable/")
	if err != nil {
		return nil, err
	}
	items, err := in.collect(values[0])
	if err != nil {
		return nil, err
	}
	texts := make([]Text, len(items))
	for i, item := range items {
		text, ok := textOf(item)
		if !ok {
			return nil, typeErrorf("sequence item %d: expected str instance, %s found", i, typeName(item))
		}
		texts[i] = text
	}
	sep, _ := textOf(self)
	if err := in.timesString(len(sep.text), len(texts)); err != nil {
		return nil, err
	}
	return in.joinTexts(texts, sep)
}

func strFind(fromRight, mustFind bool) method {
	find := strings.Index
	if fromRight {
		find = strings.LastIndex
	}
	return func(in *interp, self Value, args callArgs) (Value, error) {
		values, err := args.required("find", 1, "sub/", "start/", "end/")
		if err != nil {
			return nil, err
		}
		sub, err := strOr("find", values[0], "")
		if err != nil {
			return nil, err
		}
		part, offset, ok, err := in.window(selfText(self), values[1], values[2])
		if err != nil {
			return nil, err
		}
		if at := find(part, sub); ok && at >= 0 {
			return offset + utf8.RuneCountInString(part[:at]), nil
		}
		if mustFind {
			return nil, valueErrorf("substring not found")
		}
		return -1, nil
	}
}

func strCount(in *interp, self Value, args callArgs) (Value, error) {
	values, err := args.required("count", 1, "sub/", "start/", "end/")
	if err != nil {
		return nil, err
	}
	sub, err := strOr("count", values[0], "")
	if err != nil {
		return nil, err
	}
	part, _, ok, err := in.window(selfText(self), values[1], values[2])
	if err != nil || !ok {
		return 0, err
	}
	return strings.Count(part, sub), nil
}

func strPartition(find func(s, sep string) int) method {
	fromRight := find("aa", "a") == 1
	return func(in *interp, self Value, args callArgs) (Value, error) {
		values, err := args.required("partition", 1, "sep/")
		if err != nil {
			return nil, err
		}
		sep, err := strOr("partition", values[0], "")
		if err != nil {
			return nil, err
		}
		if sep == "" {
			return nil, valueErrorf("empty separator")
		}
		t, _ := textOf(self)
		if err := in.work(len(t.text) / bytesPerStep); err != nil {
			return nil, err
		}
		at := find(t.text, sep)
		switch {
		case at >= 0:
			end := at + len(sep)
			return tupleOf(t.Cut(0, at).value(), t.Cut(at, end).value(), t.from(end).value()), nil
		case fromRight:
			return tupleOf("", "", self), nil
		}
		return tupleOf(self, "", ""), nil
	}
}
