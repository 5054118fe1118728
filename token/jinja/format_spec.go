package jinja

import (
	"math"
	"math/big"
	"strconv"
	"strings"
	"unicode/utf8"
)

// A formatSpec is Python's format mini-language: how one value is written by
// str.format, and, in another notation, by the % operator.
type formatSpec struct {
	fill      string
	align     byte
	sign      byte
	alternate bool
	zero      bool
	width     int
	group     byte
	precision int
	verb      byte
}

// formatWidthMax bounds widths and precisions before they are computed with.
const formatWidthMax = 1 << 16

// parseFormatSpec reads "[[fill]align][sign][#][0][width][,_][.precision][type]".
func parseFormatSpec(s string) (formatSpec, error) {
	spec := formatSpec{fill: " ", precision: -1}
	_, size := utf8.DecodeRuneInString(s)
	switch {
	case len(s) > size && isAlign(s[size]):
		spec.fill, spec.align, s = s[:size], s[size], s[size+1:]
	case s != "" && isAlign(s[0]):
		spec.align, s = s[0], s[1:]
	}
	if s != "" && strings.IndexByte("+- ", s[0]) >= 0 {
		spec.sign, s = s[0], s[1:]
	}
	if strings.HasPrefix(s, "#") {
		spec.alternate, s = true, s[1:]
	}
	if strings.HasPrefix(s, "0") {
		spec.zero, s = true, s[1:]
	}
	var err error
	if spec.width, s, err = cutNumber(s, 0); err != nil {
		return spec, err
	}
	if s != "" && (s[0] == ',' || s[0] == '_') {
		spec.group, s = s[0], s[1:]
	}
	if strings.HasPrefix(s, ".") {
		if spec.precision, s, err = cutNumber(s[1:], -1); err != nil {
			return spec, err
		}
		if spec.precision < 0 {
			return spec, valueErrorf("format specifier missing precision")
		}
	}
	if len(s) > 1 {
		return spec, valueErrorf("invalid format specifier '%s'", s)
	}
	if s != "" {
		spec.verb = s[0]
	}
	return spec, nil
}

func isAlign(c byte) bool { return c == '<' || c == '>' || c == '^' || c == '=' }

// cutNumber reads decimal digits from the front of s.
func cutNumber(s string, none int) (int, string, error) {
	end := 0
	for end < len(s) && isDecimal(s[end]) {
		end++
	}
	if end == 0 {
		return none, s, nil
	}
	n, err := strconv.Atoi(s[:end])
	if err != nil || n > formatWidthMax {
		return 0, s, limitErrorf("a format width of more than %d characters", formatWidthMax)
	}
	return n, s[end:], nil
}

// formatValue is Python's format(v, spec).
func (in *interp) formatValue(v Value, specText string) (string, error) {
	if specText == "" {
		return in.str(v)
	}
	spec, err := parseFormatSpec(specText)
	if err != nil {
		return "", err
	}
	if s, ok := asStr(v); ok {
		return in.formatText(s, spec)
	}
	if !isNumber(v) {
		return "", typeErrorf("unsupported format string passed to %s.__format__", typeName(v))
	}
	if b, ok := v.(bool); ok && spec.verb == 0 {
		n, _ := asInt(b)
		v, spec.verb = n, 'd'
	}
	if err := in.alloc(max(spec.precision, 0)); err != nil {
		return "", err
	}
	sign, prefix, digits, err := spec.number(v)
	if err != nil {
		return "", err
	}
	return in.padNumber(sign+prefix, digits, spec)
}

func (in *interp) formatText(s string, spec formatSpec) (string, error) {
	if (spec.verb != 0 && spec.verb != 's') || spec.sign != 0 || spec.group != 0 || spec.alternate ||
		spec.align == '=' {
		return "", valueErrorf("invalid format specifier for a string")
	}
	if spec.precision >= 0 && spec.precision < utf8.RuneCountInString(s) {
		s = runeSlice(s, 0, spec.precision)
	}
	if spec.zero && spec.align == 0 {
		spec.fill = "0"
	}
	pads := map[byte]padding{'>': padRight, '^': formatCenter}
	pad, ok := pads[spec.align]
	if !ok {
		pad = padLeft
	}
	v, err := in.pad(s, spec.width, spec.fill, pad)
	return selfText(v), err
}

// formatCenter puts the odd fill character on the right.
func formatCenter(n, _ int) (int, int) { return n / 2, n - n/2 }

// number returns the sign, the prefix such as 0x, and the digits of a number.
func (spec formatSpec) number(v Value) (sign, prefix, digits string, err error) {
	n, isInt := asBig(v)
	negative := false
	switch {
	case isInt && strings.IndexByte("\x00dbxXocn", spec.verb) >= 0:
		if spec.precision >= 0 {
			return "", "", "", valueErrorf("precision not allowed in integer format specifier")
		}
		negative = n.Sign() < 0
		prefix, digits, err = spec.intDigits(new(big.Int).Abs(n))
	case strings.IndexByte("\x00eEfFgGn%", spec.verb) >= 0:
		var f float64
		if f, err = toFloat(v); err != nil {
			return "", "", "", err
		}
		negative = math.Signbit(f) && !math.IsNaN(f)
		digits = spec.floatDigits(math.Abs(f))
	default:
		err = valueErrorf("unknown format code '%c' for object of type '%s'", spec.verb, typeName(v))
	}
	switch {
	case negative:
		sign = "-"
	case spec.sign == '+' || spec.sign == ' ':
		sign = string(spec.sign)
	}
	return sign, prefix, groupDigits(digits, spec.group), err
}

func (spec formatSpec) intDigits(n *big.Int) (prefix, digits string, err error) {
	bases := map[byte]int{'b': 2, 'o': 8, 'x': 16, 'X': 16}
	base, ok := bases[spec.verb]
	if spec.verb == 'c' {
		if !n.IsInt64() || n.Int64() > utf8.MaxRune {
			return "", "", valueErrorf("%%c arg not in range(0x110000)")
		}
		return "", string(rune(n.Int64())), nil
	}
	if !ok {
		return "", n.String(), nil
	}
	digits = n.Text(base)
	if spec.alternate {
		prefix = "0" + string(spec.verb)
	}
	if spec.verb == 'X' {
		digits = strings.ToUpper(digits)
	}
	return prefix, digits, nil
}

func (spec formatSpec) floatDigits(f float64) string {
	precision := spec.precision
	if precision < 0 {
		precision = 6
	}
	if math.IsInf(f, 0) || math.IsNaN(f) {
		return strings.TrimPrefix(formatFloat(f), "-")
	}
	switch spec.verb {
	case 'f', 'F':
		return spec.point(strconv.FormatFloat(f, 'f', precision, 64))
	case 'e', 'E':
		return strconv.FormatFloat(f, spec.verb, precision, 64)
	case '%':
		return spec.point(strconv.FormatFloat(f*100, 'f', precision, 64)) + "%"
	case 0:
		if spec.precision < 0 {
			return formatFloat(f)
		}
		s := generalFloat(f, precision, false, 1)
		if !strings.ContainsAny(s, ".e") {
			s += ".0"
		}
		return s
	}
	s := generalFloat(f, precision, spec.alternate, 0)
	if spec.verb == 'G' {
		s = strings.ToUpper(s)
	}
	return s
}

func (spec formatSpec) point(s string) string {
	if spec.alternate && !strings.Contains(s, ".") {
		return s + "."
	}
	return s
}

// generalFloat is C's %g: precision counts significant digits. Slack moves
// the switch to exponents one digit earlier, as format() without a type does.
func generalFloat(f float64, precision int, keepZeros bool, slack int) string {
	precision = max(precision, 1)
	s := strconv.FormatFloat(f, 'e', precision-1, 64)
	mantissa, expText, _ := strings.Cut(s, "e")
	exp, _ := strconv.Atoi(expText)
	if exp >= -4 && exp < precision-slack {
		mantissa, expText = strconv.FormatFloat(f, 'f', max(precision-1-exp, 0), 64), ""
	}
	if strings.Contains(mantissa, ".") && !keepZeros {
		mantissa = strings.TrimRight(strings.TrimRight(mantissa, "0"), ".")
	}
	if expText != "" {
		return mantissa + "e" + expText
	}
	return mantissa
}

// groupDigits separates thousands in the integer part.
func groupDigits(digits string, group byte) string {
	if group == 0 {
		return digits
	}
	end := strings.IndexFunc(digits, func(r rune) bool { return r < '0' || r > '9' })
	if end < 0 {
		end = len(digits)
	}
	var sb strings.Builder
	for i := range end {
		if i > 0 && (end-i)%3 == 0 {
			sb.WriteByte(group)
		}
		sb.WriteByte(digits[i])
	}
	return sb.String() + digits[end:]
}

// padNumber aligns a number, by default to the right.
func (in *interp) padNumber(head, digits string, spec formatSpec) (string, error) {
	if spec.zero && spec.align == 0 {
		spec.fill, spec.align = "0", '='
	}
	if spec.align == '=' {
		v, err := in.pad(digits, spec.width-len(head), spec.fill, padRight)
		return head + selfText(v), err
	}
	pad := padRight
	switch spec.align {
	case '<':
		pad = padLeft
	case '^':
		pad = formatCenter
	}
	v, err := in.pad(head+digits, spec.width, spec.fill, pad)
	return selfText(v), err
}
