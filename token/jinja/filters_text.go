package jinja

import (
	"html"
	"strings"
	"unicode"
	"unicode/utf8"
)

func filterReplace(in *interp, v Value, args callArgs) (Value, error) {
	values, err := args.required("replace", 2, "old", "new", "count")
	if err != nil {
		return nil, err
	}
	count := -1
	if !isAbsent(values[2]) && values[2] != nil {
		if count, err = intOr("replace", values[2], -1); err != nil {
			return nil, err
		}
	}
	var texts [3]Text
	for i, part := range []Value{v, values[0], values[1]} {
		if texts[i], err = in.print(part); err != nil {
			return nil, err
		}
	}
	return in.replace(texts[0], texts[1].text, texts[2], count)
}

func filterJoin(in *interp, v Value, args callArgs) (Value, error) {
	values, err := args.params("join", "d", "attribute")
	if err != nil {
		return nil, err
	}
	if isAbsent(values[0]) {
		values[0] = ""
	}
	sep, err := in.print(values[0])
	if err != nil {
		return nil, err
	}
	items, err := in.collect(v)
	if err != nil {
		return nil, err
	}
	get := in.getterFor(values[1], nil, false)
	texts := make([]Text, len(items))
	for i, item := range items {
		if item, err = get(item); err != nil {
			return nil, err
		}
		if texts[i], err = in.print(item); err != nil {
			return nil, err
		}
	}
	if err := in.timesString(len(sep.text), len(texts)); err != nil {
		return nil, err
	}
	return in.joinTexts(texts, sep)
}

func filterCenter(in *interp, v Value, args callArgs) (Value, error) {
	values, err := args.params("center", "width")
	if err != nil {
		return nil, err
	}
	width, err := intOr("center", values[0], 80)
	if err != nil {
		return nil, err
	}
	s, err := in.str(v)
	if err != nil {
		return nil, err
	}
	return in.pad(s, width, " ", padCenter)
}

// textArg returns the operand of a filter that only works on strings.
func textArg(v Value) (string, error) {
	if u, ok := v.(*Undefined); ok {
		return "", u.err()
	}
	s, ok := asStr(v)
	if !ok {
		return "", typeErrorf("expected a string, not %s", typeName(v))
	}
	return s, nil
}

func filterIndent(in *interp, v Value, args callArgs) (Value, error) {
	values, err := args.params("indent", "width", "first", "blank")
	if err != nil {
		return nil, err
	}
	s, err := textArg(v)
	if err != nil {
		return nil, err
	}
	indent, err := in.indentOf(values[0])
	if err != nil {
		return nil, err
	}
	lines := splitLines(s+"\n", false)
	if err := in.timesString(len(indent.text)+1, len(lines)+1); err != nil {
		return nil, err
	}
	if err := in.allocString(len(s) + len(lines)*len(indent.text)); err != nil {
		return nil, err
	}
	t, _ := textOf(v)
	list, err := in.textList(t, lines, -1)
	if err != nil {
		return nil, err
	}
	var b textBuffer
	for i, line := range list.(*List).Items {
		if i > 0 {
			b.add(Text{text: "\n"})
		}
		if i == 0 && boolOr(values[1], false) || i > 0 && (lines[i] != "" || boolOr(values[2], false)) {
			b.add(indent)
		}
		text, _ := textOf(line)
		b.add(text)
	}
	if isMarkup(v) {
		return Markup(b.text), nil
	}
	return b.value(), nil
}

// indentOf is the indentation that the filter indent was asked for.
func (in *interp) indentOf(v Value) (Text, error) {
	if t, ok := textOf(v); ok {
		return t, nil
	}
	width, err := intOr("indent", v, 4)
	if err != nil {
		return Text{}, err
	}
	spaces, err := in.repeat(" ", width)
	return Text{text: selfText(spaces), whole: true}, err
}

func filterTruncate(in *interp, v Value, args callArgs) (Value, error) {
	values, err := args.params("truncate", "length", "killwords", "end", "leeway")
	if err != nil {
		return nil, err
	}
	n, ok := lenOf(v)
	if !ok {
		return nil, typeErrorf("object of type '%s' has no len()", typeName(v))
	}
	length, err := intOr("truncate", values[0], 255)
	if err != nil {
		return nil, err
	}
	end, err := strOr("truncate", values[2], "...")
	if err != nil {
		return nil, err
	}
	if values[3] == nil {
		values[3] = absent{}
	}
	leeway, err := intOr("truncate", values[3], 5)
	if err != nil {
		return nil, err
	}
	endLen := utf8.RuneCountInString(end)
	if length < endLen || leeway < 0 {
		return nil, valueErrorf("expected length >= %d and leeway >= 0, got %d and %d", endLen, length, leeway)
	}
	if n <= length+leeway {
		return v, nil
	}
	s, err := textArg(v)
	if err != nil {
		return nil, err
	}
	s = runeSlice(s, 0, length-endLen)
	if !boolOr(values[1], false) {
		if at := strings.LastIndexByte(s, ' '); at >= 0 {
			s = s[:at]
		}
	}
	return in.joinStrings([]string{s, end}, "")
}

// filterTitle starts words with capitals; unlike the string method, a word
// begins only after white space, a hyphen or an opening bracket.
func filterTitle(in *interp, v Value, args callArgs) (Value, error) {
	if err := args.none("title"); err != nil {
		return nil, err
	}
	s, err := in.str(v)
	if err != nil {
		return nil, err
	}
	if err := in.allocString(3 * len(s)); err != nil {
		return nil, err
	}
	var sb strings.Builder
	begins := true
	for _, r := range s {
		isBreak := isSpace(r) || strings.ContainsRune("-({[<", r)
		switch {
		case isBreak:
			sb.WriteRune(r)
		case begins:
			sb.WriteString(toUpper(string(r)))
		default:
			sb.WriteRune(unicode.ToLower(r))
		}
		begins = isBreak
	}
	return sb.String(), nil
}

func filterWordCount(in *interp, v Value, args callArgs) (Value, error) {
	s, err := in.str(v)
	if err != nil {
		return nil, err
	}
	if err := in.work(len(s) / bytesPerStep); err != nil {
		return nil, err
	}
	words, inWord := 0, false
	for _, r := range s {
		isWord := r == '_' || unicode.IsLetter(r) || unicode.IsNumber(r)
		if isWord && !inWord {
			words++
		}
		inWord = isWord
	}
	return words, args.none("wordcount")
}

func filterStripTags(in *interp, v Value, args callArgs) (Value, error) {
	if err := args.none("striptags"); err != nil {
		return nil, err
	}
	s, err := in.str(v)
	if err != nil {
		return nil, err
	}
	if err := in.allocString(2 * len(s)); err != nil {
		return nil, err
	}
	s = cutAll(s, "<!--", "-->")
	s = cutAll(s, "<", ">")
	return html.UnescapeString(strings.Join(strings.FieldsFunc(s, isSpace), " ")), nil
}

// cutAll removes every part from open to end.
func cutAll(s, open, end string) string {
	var sb strings.Builder
	for {
		from := strings.Index(s, open)
		if from < 0 {
			break
		}
		to := strings.Index(s[from+len(open):], end)
		if to < 0 {
			break
		}
		sb.WriteString(s[:from])
		s = s[from+len(open)+to+len(end):]
	}
	sb.WriteString(s)
	return sb.String()
}

func filterURLEncode(in *interp, v Value, args callArgs) (Value, error) {
	if err := args.none("urlencode"); err != nil {
		return nil, err
	}
	_, iterErr := in.iterate(v)
	if isString(v) || iterErr != nil {
		return in.quoteURL(v, "/")
	}
	if m, ok := v.(*Map); ok {
		v = &dictView{of: m, kind: "dict_items"}
	}
	pairs, err := in.collect(v)
	if err != nil {
		return nil, err
	}
	texts := make([]string, len(pairs))
	for i, pair := range pairs {
		items, err := in.unpack(pair, 2)
		if err != nil {
			return nil, err
		}
		key, err := in.quoteURL(items[0], "")
		if err != nil {
			return nil, err
		}
		value, err := in.quoteURL(items[1], "")
		if err != nil {
			return nil, err
		}
		texts[i] = strings.ReplaceAll(key+"="+value, "%20", "+")
	}
	return in.joinStrings(texts, "&")
}

func (in *interp) quoteURL(v Value, safe string) (string, error) {
	s, err := in.str(v)
	if err != nil {
		return "", err
	}
	if err := in.timesString(3, len(s)); err != nil {
		return "", err
	}
	const hex = "0123456789ABCDEF"
	var sb strings.Builder
	for i := range len(s) {
		c := s[i]
		if isDecimal(c) || (c|0x20 >= 'a' && c|0x20 <= 'z') || strings.IndexByte("_.-~"+safe, c) >= 0 {
			sb.WriteByte(c)
			continue
		}
		sb.Write([]byte{'%', hex[c>>4], hex[c&15]})
	}
	return sb.String(), nil
}

func filterXMLAttr(in *interp, v Value, args callArgs) (Value, error) {
	values, err := args.params("xmlattr", "autospace")
	if err != nil {
		return nil, err
	}
	m, ok := v.(*Map)
	if !ok {
		return nil, typeErrorf("xmlattr needs a mapping, not %s", typeName(v))
	}
	var texts []string
	for i, key := range m.keys {
		if m.vals[i] == nil || isUndefined(m.vals[i]) {
			continue
		}
		name, ok := asStr(key)
		if !ok || strings.ContainsAny(name, " \t\n\r\f\v/>=") {
			return nil, valueErrorf("invalid character in attribute name")
		}
		text, err := in.xmlPair(name, m.vals[i])
		if err != nil {
			return nil, err
		}
		texts = append(texts, text)
	}
	if boolOr(values[0], true) && len(texts) > 0 {
		texts[0] = " " + texts[0]
	}
	return in.joinStrings(texts, " ")
}

func (in *interp) xmlPair(name string, v Value) (string, error) {
	key, err := in.escape(name)
	if err != nil {
		return "", err
	}
	value, err := filterEscape(in, v, callArgs{})
	if err != nil {
		return "", err
	}
	return string(key) + `="` + selfText(value) + `"`, nil
}

// pprintWidth is the line width of Python's pprint.
const pprintWidth = 80

// filterPprint writes values that fit one line; pprint's own way to break
// longer ones over lines is not one a prompt should depend on.
func filterPprint(in *interp, v Value, args callArgs) (Value, error) {
	if err := args.none("pprint"); err != nil {
		return nil, err
	}
	w := &reprWriter{in: in, sortKeys: true}
	err := w.write(v, 0)
	s := w.text.String()
	if err == nil && utf8.RuneCountInString(s) > pprintWidth {
		return nil, errorf(RuntimeError, "pprint of a value wider than %d characters is not supported; use tojson", pprintWidth)
	}
	return s, err
}
