package jinja

import (
	"math"
	"math/big"
	"strconv"
	"strings"
	"unicode/utf8"
)

// percentFormat is the % operator on a string.
func (in *interp) percentFormat(self, arg Value) (Value, error) {
	format, _ := textOf(self)
	f := &percentFormatter{in: in, arg: arg, args: []Value{arg}}
	if t, ok := arg.(*Tuple); ok {
		f.args = t.Items
	}
	if err := f.run(format); err != nil {
		return nil, err
	}
	t := f.result()
	return &t, nil
}

type percentFormatter struct {
	reprWriter
	in     *interp
	arg    Value
	args   []Value
	used   int
	byName bool
}

func (f *percentFormatter) run(format Text) (err error) {
	f.reprWriter.in = f.in
	for {
		at := strings.IndexByte(format.text, '%')
		if at < 0 {
			break
		}
		if err := f.putText(format.Cut(0, at)); err != nil {
			return err
		}
		if format, err = f.directive(format.from(at + 1)); err != nil {
			return err
		}
	}
	if f.used < len(f.args) && !f.byName && !isSubscriptable(f.arg) {
		return typeErrorf("not all arguments converted during string formatting")
	}
	return f.putText(format)
}

// isSubscriptable says that % takes v as a mapping, which may stay unused.
func isSubscriptable(v Value) bool {
	switch v.(type) {
	case *Map, *List, *Undefined, rangeValue:
		return true
	}
	return false
}

func (f *percentFormatter) next() (Value, error) {
	if f.used >= len(f.args) {
		return nil, typeErrorf("not enough arguments for format string")
	}
	f.used++
	return f.args[f.used-1], nil
}

// directive writes the conversion at the beginning of format and returns what follows.
func (f *percentFormatter) directive(format Text) (Text, error) {
	text, rest, err := f.expand(format)
	if err != nil {
		return Text{}, err
	}
	return rest, f.putText(text)
}

// expand converts the next argument as the beginning of format asks.
func (f *percentFormatter) expand(format Text) (text, rest Text, err error) {
	s := format.text
	var named Value
	if strings.HasPrefix(s, "(") {
		end := strings.IndexByte(s, ')')
		m, ok := f.arg.(*Map)
		if end < 0 || !ok {
			return text, rest, typeErrorf("format requires a mapping")
		}
		v, ok := m.Get(s[1:end])
		if !ok {
			return text, rest, errorf(RuntimeError, "KeyError: %s", quote(s[1:end]))
		}
		named, f.byName, s = v, true, s[end+1:]
	}
	spec := formatSpec{fill: " ", precision: -1}
	s = spec.cutFlags(s)
	if s, err = f.cutSizes(&spec, s); err != nil {
		return text, rest, err
	}
	s = strings.TrimLeft(s, "hlL")
	if s == "" {
		return text, rest, valueErrorf("incomplete format")
	}
	spec.verb = s[0]
	how, rest := format.Cut(0, len(format.text)-len(s)+1), format.from(len(format.text)-len(s)+1)
	if spec.verb == '%' {
		return Text{text: "%", whole: how.whole}, rest, nil
	}
	v := named
	if !f.byName {
		if v, err = f.next(); err != nil {
			return text, rest, err
		}
	}
	converted, err := f.convert(v, spec)
	return f.in.formatted(converted, v, how.whole, spec.verb), rest, err
}

// formatted gives the text that a format makes of v its provenance. All of it is data
// where the format is, which then chose what to write. So is a character that a number
// was written as: numbers come with requests, too.
func (in *interp) formatted(s string, v Value, isOwnFormat bool, verb byte) Text {
	if _, isText := textOf(v); !isOwnFormat || verb == 'c' && !isText {
		return Text{text: s}
	}
	return in.derived(s, v)
}

func (spec *formatSpec) cutFlags(s string) string {
	for ; s != ""; s = s[1:] {
		switch s[0] {
		case '-':
			spec.align = '<'
		case '+':
			spec.sign = '+'
		case ' ':
			if spec.sign == 0 {
				spec.sign = ' '
			}
		case '#':
			spec.alternate = true
		case '0':
			spec.zero = true
		default:
			return s
		}
	}
	return s
}

func (f *percentFormatter) cutSizes(spec *formatSpec, s string) (string, error) {
	var err error
	if spec.width, s, err = f.cutSize(s, 0); err != nil {
		return "", err
	}
	if spec.width < 0 {
		spec.align, spec.width = '<', -spec.width
	}
	if strings.HasPrefix(s, ".") {
		spec.precision, s, err = f.cutSize(s[1:], 0)
	}
	return s, err
}

// cutSize reads a number or a star, which takes the number from the arguments.
func (f *percentFormatter) cutSize(s string, none int) (int, string, error) {
	if !strings.HasPrefix(s, "*") {
		return cutNumber(s, none)
	}
	v, err := f.next()
	if err != nil {
		return 0, "", err
	}
	n, ok := asInt(v)
	if !ok {
		return 0, "", typeErrorf("* wants int")
	}
	if n > formatWidthMax || n < -formatWidthMax {
		return 0, "", limitErrorf("a format width of more than %d characters", formatWidthMax)
	}
	return n, s[1:], nil
}

func (f *percentFormatter) convert(v Value, spec formatSpec) (string, error) {
	switch spec.verb {
	case 's', 'r', 'a':
		text, err := f.textOf(v, spec.verb)
		if err != nil {
			return "", err
		}
		spec.verb, spec.sign, spec.zero, spec.alternate = 0, 0, false, false
		if spec.align == 0 {
			spec.align = '>'
		}
		return f.in.formatText(text, spec)
	case 'c':
		return f.convertChar(v, spec)
	case 'd', 'i', 'u', 'o', 'x', 'X':
		return f.convertInt(v, spec)
	case 'e', 'E', 'f', 'F', 'g', 'G':
		number, err := f.in.floatOf(v)
		if err != nil {
			return "", typeErrorf("must be real number, not %s", typeName(v))
		}
		if err := f.in.alloc(max(spec.precision, 0)); err != nil {
			return "", err
		}
		sign, prefix, digits, err := spec.number(number)
		if err != nil {
			return "", err
		}
		return f.in.padNumber(sign+prefix, digits, spec.leftNoZero())
	}
	return "", valueErrorf("unsupported format character '%c'", spec.verb)
}

// leftNoZero drops zero padding where the minus flag wins.
func (spec formatSpec) leftNoZero() formatSpec {
	if spec.align == '<' {
		spec.zero = false
	}
	return spec
}

func (f *percentFormatter) textOf(v Value, verb byte) (string, error) {
	text, err := "", error(nil)
	switch verb {
	case 's':
		text, err = f.in.str(v)
	default:
		text, err = f.in.repr(v)
	}
	if err == nil && verb == 'a' {
		text = strings.Trim(strconv.QuoteToASCII(text), `"`)
	}
	return text, err
}

func (f *percentFormatter) convertChar(v Value, spec formatSpec) (string, error) {
	text, ok := asStr(v)
	if n, isInt := asInt(v); isInt && n >= 0 && n <= utf8.MaxRune {
		text, ok = string(rune(n)), true
	}
	if !ok || utf8.RuneCountInString(text) != 1 {
		return "", typeErrorf("%%c requires int or char")
	}
	if spec.align == 0 {
		spec.align = '>'
	}
	spec.verb = 0
	return f.in.formatText(text, spec)
}

func (f *percentFormatter) convertInt(v Value, spec formatSpec) (string, error) {
	n, ok := asBig(v)
	if x, isFloat := v.(float64); isFloat && strings.IndexByte("diu", spec.verb) >= 0 {
		if math.IsInf(x, 0) || math.IsNaN(x) {
			return "", valueErrorf("cannot convert float %s to integer", formatFloat(x))
		}
		n, _ = big.NewFloat(x).Int(nil)
		ok = true
	}
	if !ok {
		return "", typeErrorf("%%%c format: a real number is required, not %s", spec.verb, typeName(v))
	}
	if spec.verb == 'i' || spec.verb == 'u' {
		spec.verb = 'd'
	}
	digitsMin := spec.precision
	spec.precision = -1
	sign, prefix, digits, err := spec.number(shrink(n))
	if err != nil {
		return "", err
	}
	padded, err := f.in.pad(digits, digitsMin, "0", padRight)
	if err != nil {
		return "", err
	}
	return f.in.padNumber(sign+prefix, selfText(padded), spec.leftNoZero())
}

// strFormat is str.format.
func strFormat(in *interp, self Value, args callArgs) (Value, error) {
	named := NewMap()
	for i, name := range args.names {
		named.Set(name, args.named[i])
	}
	f := &braceFormatter{in: in, args: args.pos, named: named}
	return f.expand(self)
}

type braceFormatter struct {
	in    *interp
	args  []Value
	named *Map
	// auto counts the fields without a name, or is -1 once one had a number.
	auto int
}

func (f *braceFormatter) expand(self Value) (Value, error) {
	format, _ := textOf(self)
	t, err := f.run(format, 2)
	return &t, err
}

// run expands a format string; depth bounds fields inside format specs.
func (f *braceFormatter) run(format Text, depth int) (Text, error) {
	if depth < 0 {
		return Text{}, valueErrorf("max string recursion exceeded")
	}
	w := &reprWriter{in: f.in}
	for format.text != "" {
		at := strings.IndexAny(format.text, "{}")
		if at < 0 {
			break
		}
		if err := w.putText(format.Cut(0, at)); err != nil {
			return Text{}, err
		}
		brace := format.Cut(at, at+1)
		format = format.from(at + 1)
		if strings.HasPrefix(format.text, brace.text) {
			format = format.from(1)
			if err := w.putText(brace); err != nil {
				return Text{}, err
			}
			continue
		}
		if brace.text == "}" {
			return Text{}, valueErrorf("single '}' encountered in format string")
		}
		end := fieldEnd(format.text)
		if end < 0 {
			return Text{}, valueErrorf("expected '}' before end of string")
		}
		field, err := f.field(format.Cut(0, end), depth)
		if err != nil {
			return Text{}, err
		}
		if !brace.whole {
			field = Text{text: field.text}
		}
		if err := w.putText(field); err != nil {
			return Text{}, err
		}
		format = format.from(end + 1)
	}
	if err := w.putText(format); err != nil {
		return Text{}, err
	}
	return w.result(), nil
}

// fieldEnd returns the place of the brace that closes a field.
func fieldEnd(s string) int {
	open := 0
	for i := range len(s) {
		switch s[i] {
		case '{':
			open++
		case '}':
			if open == 0 {
				return i
			}
			open--
		}
	}
	return -1
}

// field expands "name.attr[key]!conversion:spec".
func (f *braceFormatter) field(field Text, depth int) (Text, error) {
	at := strings.IndexAny(field.text, ":!")
	if at < 0 {
		at = len(field.text)
	}
	v, err := f.lookup(field.text[:at])
	if err != nil {
		return Text{}, err
	}
	spec := field.from(at)
	if strings.HasPrefix(spec.text, "!") {
		if v, spec, err = f.conversion(v, spec.from(1)); err != nil {
			return Text{}, err
		}
	}
	if strings.HasPrefix(spec.text, ":") {
		spec = spec.from(1)
	}
	how, err := f.run(spec, depth-1) // an argument may choose the fill
	if err != nil {
		return Text{}, err
	}
	s, err := f.in.formatValue(v, how.text)
	verb := byte(0)
	if how.text != "" {
		verb = how.text[len(how.text)-1]
	}
	return f.in.formatted(s, v, how.whole || how.text == "", verb), err
}

func (f *braceFormatter) conversion(v Value, spec Text) (Value, Text, error) {
	s := spec.text
	if s == "" || (len(s) > 1 && s[1] != ':') {
		return nil, Text{}, valueErrorf("expected ':' after conversion specifier")
	}
	var text string
	var err error
	switch s[0] {
	case 's':
		text, err = f.in.str(v)
	case 'r', 'a':
		text, err = f.in.repr(v)
	default:
		err = valueErrorf("unknown conversion specifier '%c'", s[0])
	}
	return f.in.formatted(text, v, spec.Cut(0, 1).whole, 0).value(), spec.from(1), err
}

// lookup finds the value of a field name.
func (f *braceFormatter) lookup(name string) (Value, error) {
	end := strings.IndexAny(name, ".[")
	if end < 0 {
		end = len(name)
	}
	v, err := f.first(name[:end])
	for rest := name[end:]; err == nil && rest != ""; {
		if rest[0] == '.' {
			end := strings.IndexAny(rest[1:], ".[")
			if end < 0 {
				end = len(rest) - 1
			}
			v, err = f.in.attr(v, rest[1:1+end])
			rest = rest[1+end:]
			continue
		}
		end := strings.IndexByte(rest, ']')
		if rest[0] != '[' || end < 0 {
			return nil, valueErrorf("missing ']' in format string")
		}
		var key Value = rest[1:end]
		if n, atoiErr := strconv.Atoi(rest[1:end]); atoiErr == nil && n >= 0 {
			key = n
		}
		v, err = f.in.item(v, key)
		rest = rest[end+1:]
	}
	return v, err
}

func (f *braceFormatter) first(name string) (Value, error) {
	n, err := strconv.Atoi(name)
	switch {
	case name == "" && f.auto < 0:
		return nil, valueErrorf("cannot switch from manual field specification to automatic field numbering")
	case name == "":
		n = f.auto
		f.auto++
	case err != nil:
		v, ok := f.named.Get(name)
		if !ok {
			return nil, errorf(RuntimeError, "KeyError: %s", quote(name))
		}
		return v, nil
	case f.auto > 0:
		return nil, valueErrorf("cannot switch from automatic field numbering to manual field specification")
	default:
		f.auto = -1
	}
	if n < 0 || n >= len(f.args) {
		return nil, errorf(RuntimeError, "IndexError: replacement index %d out of range for positional args tuple", n)
	}
	return f.args[n], nil
}
