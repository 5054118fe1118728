package jinja

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// caseMethods are the conversions of case, each on a whole text.
var caseMethods = map[string]func(string) string{
	"upper":      toUpper,
	"lower":      strings.ToLower,
	"casefold":   func(s string) string { return strings.ToLower(strings.ReplaceAll(s, "ß", "ss")) },
	"title":      toTitle,
	"capitalize": capitalize,
	"swapcase":   swapCase,
}

// upperSpecial has the characters whose upper case is more than one
// character, which Go's simple mapping leaves alone.
var upperSpecial = strings.NewReplacer("ß", "SS", "ﬀ", "FF", "ﬁ", "FI", "ﬂ", "FL", "ﬃ", "FFI", "ﬄ", "FFL", "ﬅ", "ST", "ﬆ", "ST", "ŉ", "ʼN")

func toUpper(s string) string { return strings.ToUpper(upperSpecial.Replace(s)) }

// toTitle starts every run of letters with a capital.
func toTitle(s string) string {
	inWord := false
	return strings.Map(func(r rune) rune {
		wasInWord := inWord
		inWord = isCased(r)
		if wasInWord {
			return unicode.ToLower(r)
		}
		return unicode.ToTitle(r)
	}, s)
}

func isCased(r rune) bool {
	return unicode.IsUpper(r) || unicode.IsLower(r) || unicode.IsTitle(r)
}

func capitalize(s string) string {
	first, size := utf8.DecodeRuneInString(s)
	if size == 0 {
		return s
	}
	if first == 'ß' {
		return "Ss" + strings.ToLower(s[size:])
	}
	return string(unicode.ToTitle(first)) + strings.ToLower(s[size:])
}

func swapCase(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsUpper(r) {
			return unicode.ToLower(r)
		}
		return unicode.ToUpper(r)
	}, s)
}

// textTests are the yes-or-no methods of strings.
var textTests = map[string]func(string) bool{
	"isalpha":      all(unicode.IsLetter),
	"isdigit":      all(isDigit),
	"isdecimal":    all(unicode.IsDigit),
	"isnumeric":    all(unicode.IsNumber),
	"isalnum":      all(func(r rune) bool { return unicode.IsLetter(r) || unicode.IsNumber(r) }),
	"isspace":      all(isSpace),
	"isupper":      isUpperText,
	"islower":      isLowerText,
	"istitle":      isTitleText,
	"isascii":      isASCII,
	"isprintable":  func(s string) bool { return strings.IndexFunc(s, func(r rune) bool { return !isPrintable(r) }) < 0 },
	"isidentifier": isIdentifier,
}

func all(holds func(rune) bool) func(string) bool {
	return func(s string) bool {
		return s != "" && strings.IndexFunc(s, func(r rune) bool { return !holds(r) }) < 0
	}
}

// isDigit adds superscript and subscript digits to the decimal ones.
func isDigit(r rune) bool {
	return unicode.IsDigit(r) || r == '²' || r == '³' || r == '¹' || r == '⁰' ||
		(r >= '⁴' && r <= '⁹') || (r >= '₀' && r <= '₉')
}

func isUpperText(s string) bool {
	return strings.IndexFunc(s, unicode.IsUpper) >= 0 &&
		strings.IndexFunc(s, func(r rune) bool { return unicode.IsLower(r) || unicode.IsTitle(r) }) < 0
}

func isLowerText(s string) bool {
	return strings.IndexFunc(s, unicode.IsLower) >= 0 &&
		strings.IndexFunc(s, func(r rune) bool { return unicode.IsUpper(r) || unicode.IsTitle(r) }) < 0
}

func isTitleText(s string) bool {
	return strings.IndexFunc(s, isCased) >= 0 && toTitle(s) == s
}

func isIdentifier(s string) bool {
	first, _ := utf8.DecodeRuneInString(s)
	return s != "" && (first == '_' || unicode.IsLetter(first)) && all(isNameRune)(s)
}

// padding says how many fill characters go left and right of a text that is
// n characters short of its width.
type padding func(n, width int) (left, right int)

func padLeft(n, _ int) (int, int) { return 0, n }

func padRight(n, _ int) (int, int) { return n, 0 }

// padCenter puts the odd character where Python puts it.
func padCenter(n, width int) (int, int) {
	left := n/2 + (n & width & 1)
	return left, n - left
}

func strPad(pad padding) method {
	return func(in *interp, self Value, args callArgs) (Value, error) {
		values, err := args.required("ljust", 1, "width/", "fillchar/")
		if err != nil {
			return nil, err
		}
		width, err := intOr("ljust", values[0], 0)
		if err != nil {
			return nil, err
		}
		fill, err := strOr("ljust", values[1], " ")
		if err != nil {
			return nil, err
		}
		if utf8.RuneCountInString(fill) != 1 {
			return nil, typeErrorf("the fill character must be exactly one character long")
		}
		return in.pad(selfText(self), width, fill, pad)
	}
}

func (in *interp) pad(s string, width int, fill string, pad padding) (Value, error) {
	n := width - utf8.RuneCountInString(s)
	if n <= 0 {
		return s, nil
	}
	if err := in.timesString(len(fill), n); err != nil {
		return nil, err
	}
	if err := in.allocString(len(s) + n*len(fill)); err != nil {
		return nil, err
	}
	left, right := pad(n, width)
	return strings.Repeat(fill, left) + s + strings.Repeat(fill, right), nil
}

func strZfill(in *interp, self Value, args callArgs) (Value, error) {
	values, err := args.required("zfill", 1, "width/")
	if err != nil {
		return nil, err
	}
	width, err := intOr("zfill", values[0], 0)
	if err != nil {
		return nil, err
	}
	s := selfText(self)
	sign := ""
	if strings.HasPrefix(s, "-") || strings.HasPrefix(s, "+") {
		sign, s = s[:1], s[1:]
	}
	v, err := in.pad(s, width-len(sign), "0", padRight)
	if err != nil {
		return nil, err
	}
	return in.add(sign, v)
}

func strExpandTabs(in *interp, self Value, args callArgs) (Value, error) {
	values, err := args.params("expandtabs", "tabsize")
	if err != nil {
		return nil, err
	}
	size, err := intOr("expandtabs", values[0], 8)
	if err != nil {
		return nil, err
	}
	s := selfText(self)
	if err := in.timesString(max(size, 1), strings.Count(s, "\t")); err != nil {
		return nil, err
	}
	if err := in.allocString(len(s)); err != nil {
		return nil, err
	}
	var sb strings.Builder
	column := 0
	for _, r := range s {
		switch {
		case r == '\t' && size > 0:
			n := size - column%size
			sb.WriteString(strings.Repeat(" ", n))
			column += n
		case r == '\t':
		case r == '\n' || r == '\r':
			sb.WriteRune(r)
			column = 0
		default:
			sb.WriteRune(r)
			column++
		}
	}
	return sb.String(), nil
}

// callMarkupMethod calls a string method on markup: texts that come in are
// escaped, texts that come out are markup.
func callMarkupMethod(in *interp, self Markup, name string, m method, args callArgs) (Value, error) {
	switch name {
	case "split", "rsplit", "splitlines", "find", "rfind", "index", "rindex", "count", "startswith", "endswith":
	default:
		var err error
		if args.pos, err = in.escapeAll(args.pos); err != nil {
			return nil, err
		}
		if args.named, err = in.escapeAll(args.named); err != nil {
			return nil, err
		}
	}
	v, err := m(in, string(self), args)
	if err != nil {
		return nil, err
	}
	switch v := v.(type) {
	case string, *Text:
		return Markup(selfText(v)), nil
	case *List:
		markupAll(v.Items)
	case *Tuple:
		markupAll(v.Items)
	}
	return v, nil
}

// escapeAll escapes the texts among values, and those in lists among them
// for join.
func (in *interp) escapeAll(values []Value) ([]Value, error) {
	out := make([]Value, len(values))
	for i, v := range values {
		list, ok := v.(*List)
		if !ok {
			escaped, err := in.escapeText(v)
			if err != nil {
				return nil, err
			}
			out[i] = escaped
			continue
		}
		if err := in.allocItems(len(list.Items)); err != nil {
			return nil, err
		}
		copied := &List{Items: make([]Value, len(list.Items))}
		for j, item := range list.Items {
			escaped, err := in.escapeText(item)
			if err != nil {
				return nil, err
			}
			copied.Items[j] = escaped
		}
		out[i] = copied
	}
	return out, nil
}

// escapeText makes a plain string safe markup and leaves the rest alone.
func (in *interp) escapeText(v Value) (Value, error) {
	if isMarkup(v) || !isString(v) {
		return v, nil
	}
	return in.escape(selfText(v))
}

// escape is HTML escaping, paid for before it is done.
func (in *interp) escape(s string) (Markup, error) {
	n := len(s)
	for _, char := range []string{"&", "<", ">", "'", `"`} {
		n += 4 * strings.Count(s, char)
	}
	if err := in.allocString(n); err != nil {
		return "", err
	}
	return Markup(htmlEscaper.Replace(s)), nil
}

func markupAll(values []Value) {
	for i, v := range values {
		if isString(v) {
			values[i] = Markup(selfText(v))
		}
	}
}
