package jinja

import (
	"fmt"
	"math/big"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"
)

// formatWidthMax bounds what a format adds to a text.
const formatWidthMax = 1000

// A formatSpec is how a value is written: what %-5.2f and {:<5.2f} say.
type formatSpec struct {
	fill, align      string
	flags            string
	width, precision string
	verb             byte
	// textLeft: what is not a number stands to the left.
	textLeft bool
}

var (
	percentSpec = regexp.MustCompile(`^(?:\(([^)]*)\))?([-+ 0]*)(\d{0,4})(?:\.(\d{1,4}))?([sridfex%])`)
	braceSpec   = regexp.MustCompile(`^(?:(.)?([<>^]))?(\+?0?)(\d{0,4})(?:\.(\d{1,4}))?([sdfex]?)$`)
)

// percentFormat is the % operator on a string.
func (in *interp) percentFormat(self, arg Value) (Value, error) {
	format, _ := textOf(self)
	w, args, used, byName := &reprWriter{in: in}, []Value{arg}, 0, false
	if t, ok := arg.(*Tuple); ok {
		args = t.Items
	}
	for {
		at := strings.IndexByte(format.text, '%')
		if at < 0 {
			break
		}
		m := percentSpec.FindStringSubmatch(format.text[at+1:])
		if m == nil {
			return nil, valueErrorf("unsupported format %s; use s, r, d, i, f, e or x after %%",
				quote(format.text[at:]))
		}
		how := format.Cut(at, at+1+len(m[0]))
		piece := Text{text: "%", whole: how.whole}
		if m[5] != "%" {
			var v Value
			var err error
			switch named, isMap := arg.(*Map); {
			case m[1] != "" && isMap:
				if v, byName = named.Get(m[1]); !byName {
					return nil, errorf(RuntimeError, "KeyError: %s", quote(m[1]))
				}
			case m[1] != "":
				return nil, typeErrorf("format requires a mapping")
			case used == len(args):
				return nil, typeErrorf("not enough arguments for format string")
			default:
				v = args[used]
				used++
			}
			spec := formatSpec{flags: m[2], width: m[3], precision: m[4], verb: m[5][0]}
			if piece, err = in.formatOne(v, spec, how.whole); err != nil {
				return nil, err
			}
		}
		if err := w.putAll(format.Cut(0, at), piece); err != nil {
			return nil, err
		}
		format = format.from(at + 1 + len(m[0]))
	}
	if _, isMap := arg.(*Map); used < len(args) && !isMap {
		return nil, typeErrorf("not all arguments converted during string formatting")
	}
	err := w.putText(format)
	t := w.result()
	return &t, err
}

func (w *reprWriter) putAll(texts ...Text) error {
	for _, t := range texts {
		if err := w.putText(t); err != nil {
			return err
		}
	}
	return nil
}

// strFormat is the method format of strings, with fields such as {}, {0}, {name} and {:>8.2f}.
func strFormat(in *interp, self Value, args callArgs) (Value, error) {
	format, _ := textOf(self)
	w, next := &reprWriter{in: in}, 0
	for {
		at := strings.IndexAny(format.text, "{}")
		if at < 0 {
			break
		}
		brace, rest := format.Cut(at, at+1), format.from(at+1)
		piece := brace
		if strings.HasPrefix(rest.text, brace.text) {
			rest = rest.from(1)
		} else {
			end := strings.IndexByte(rest.text, '}')
			if end < 0 || brace.text == "}" {
				return nil, valueErrorf("single '%s' encountered in format string", brace.text)
			}
			field := rest.Cut(0, end)
			name, how, _ := strings.Cut(field.text, ":")
			if name == "" {
				name = strconv.Itoa(next)
				next++
			}
			v, err := args.formatArgument(name)
			if err != nil {
				return nil, err
			}
			m := braceSpec.FindStringSubmatch(how)
			if m == nil {
				return nil, valueErrorf("unsupported format %s; use [[fill]<>^][0][width][.precision][s|d|f|e|x]",
					quote(how))
			}
			spec := formatSpec{
				fill:      m[1],
				align:     m[2],
				flags:     m[3],
				width:     m[4],
				precision: m[5],
				textLeft:  true,
			}
			if m[6] != "" {
				spec.verb = m[6][0]
			}
			if piece, err = in.formatOne(v, spec, brace.whole && (field.whole || field.text == "")); err != nil {
				return nil, err
			}
			rest = rest.from(end + 1)
		}
		if err := w.putAll(format.Cut(0, at), piece); err != nil {
			return nil, err
		}
		format = rest
	}
	err := w.putText(format)
	t := w.result()
	return &t, err
}

// formatArgument returns the argument that a field names by its place or its name.
func (a callArgs) formatArgument(name string) (Value, error) {
	if i, err := strconv.Atoi(name); err == nil {
		if i < 0 || i >= len(a.pos) {
			return nil, errorf(RuntimeError, "IndexError: replacement index %d out of range for positional args tuple",
				i)
		}
		return a.pos[i], nil
	}
	for i, given := range a.names {
		if given == name {
			return a.named[i], nil
		}
	}
	return nil, errorf(RuntimeError, "KeyError: %s", quote(name))
}

// formatOne writes a value. All of it is data where the format is, which then chose what to write.
func (in *interp) formatOne(v Value, spec formatSpec, isOwnFormat bool) (Text, error) {
	s, isNumber, err := in.formatPlain(v, spec)
	if err != nil {
		return Text{}, err
	}
	width, _ := strconv.Atoi(spec.width)
	if width > formatWidthMax || len(spec.precision) > 3 {
		return Text{}, valueErrorf("a width or precision in a format is more than %d", formatWidthMax)
	}
	if s, err = in.padded(s, spec, width, isNumber), in.work(width); err != nil {
		return Text{}, err
	}
	if !isOwnFormat {
		return Text{text: s}, nil
	}
	return in.derived(s, v), nil
}

// formatPlain writes a value without filling it up.
func (in *interp) formatPlain(v Value, spec formatSpec) (s string, isNumber bool, err error) {
	sign := ""
	for _, flag := range []string{"+", " "} {
		if strings.Contains(spec.flags, flag) && sign == "" {
			sign = flag
		}
	}
	_, isInt := asBig(v)
	_, isFloat := v.(float64)
	_, isText := textOf(v)
	isEmpty := spec.fill+spec.align+spec.flags+spec.width+spec.precision == "" && spec.verb == 0
	switch verb := spec.verb; {
	case spec.textLeft && !isEmpty &&
		(verb == 's' && !isText || verb == 'd' && isFloat || !isText && !isInt && !isFloat),
		verb == 'd' && spec.precision != "":
		return "", false, valueErrorf("unsupported format for an object of type '%s'", typeName(v))
	case verb == 's', verb == 'r', verb == 0 && (!isInt && !isFloat || isBool(v)):
		s, err = in.str(v)
		if verb == 'r' {
			s, err = in.repr(v)
		}
		if n, e := strconv.Atoi(spec.precision); e == nil && utf8.RuneCountInString(s) > n {
			s = string([]rune(s)[:n])
		}
		return s, false, err
	case isFloat && (verb == 'd' || verb == 'i'):
		n, _ := big.NewFloat(v.(float64)).Int(nil)
		return fmt.Sprintf("%"+sign+"d", n), true, nil
	case isInt && (verb == 'd' || verb == 'i' || verb == 'x' || verb == 0 && spec.precision == ""):
		n, _ := asBig(v)
		if verb != 'x' {
			verb = 'd'
		}
		return fmt.Sprintf("%"+sign+string([]byte{verb}), n), true, nil
	case isInt || isFloat:
		f, _ := toFloat(v)
		if verb == 0 && spec.precision == "" {
			return sign + formatFloat(f), true, nil
		}
		if spec.precision == "" {
			spec.precision = "6"
		}
		if verb == 0 {
			return "", false, valueErrorf("a precision needs the type f or e")
		}
		return fmt.Sprintf("%"+sign+"."+spec.precision+string([]byte{verb}), f), true, nil
	}
	return "", false, typeErrorf("%%%c format: a number is required, not %s", spec.verb, typeName(v))
}

// padded fills a text up to a width.
func (in *interp) padded(s string, spec formatSpec, width int, isNumber bool) string {
	missing := width - utf8.RuneCountInString(s)
	if missing <= 0 {
		return s
	}
	fill, align := spec.fill, spec.align
	if fill == "" {
		fill = " "
	}
	switch {
	case align != "":
	case isNumber && strings.Contains(spec.flags, "0") && !strings.Contains(spec.flags, "-"):
		sign := len(s) - len(strings.TrimLeft(s, "+- "))
		return s[:sign] + strings.Repeat("0", missing) + s[sign:]
	case strings.Contains(spec.flags, "-") || spec.textLeft && !isNumber:
		align = "<"
	}
	switch align {
	case "<":
		return s + strings.Repeat(fill, missing)
	case "^":
		return strings.Repeat(fill, missing/2) + s + strings.Repeat(fill, missing-missing/2)
	}
	return strings.Repeat(fill, missing) + s
}
