package jinja

import (
	"strings"
	"unicode"
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
