package jinja

import (
	"fmt"
	"math/big"
	"regexp"
	"strings"
)

// conversion is a conversion of the filter format: a name, flags, a width, a precision and what it converts to.
var conversion = regexp.MustCompile(`^%(?:\((\w+)\))?([-+0 ]*)(\d{0,3})(\.\d{1,2})?([sdif%])`)

// filterFormat is the filter format: a string with conversions such as %s, %5d, %.2f and %(name)s.
func filterFormat(r *state, v Value, args callArgs) Value {
	mustDefine(v)
	if len(args.pos) > 0 && len(args.names) > 0 {
		fail(RuntimeError, "FilterArgumentError: can't handle positional and keyword arguments at the same time")
	}
	format, next := r.print(v), 0
	var out textBuffer
	for {
		at := strings.IndexByte(format.text, '%')
		if at < 0 {
			break
		}
		out.add(format.Cut(0, at))
		format = format.from(at)
		c := conversion.FindStringSubmatch(format.text)
		if c == nil {
			failValue("unsupported format character in %s", quote(format.text[:min(len(format.text), 8)]))
		}
		sign := format.Cut(0, len(c[0]))
		format = format.from(len(c[0]))
		if c[5] == "%" {
			out.add(sign.Cut(0, 1))
			continue
		}
		t := r.converted(args.converts(c[1], &next), c)
		if !sign.whole {
			t = Text{text: t.text} // data chose what to write
		}
		r.alloc(len(t.text) + spanBytes*len(t.own))
		out.add(t)
	}
	if next < len(args.pos) {
		failType("not all arguments converted during string formatting")
	}
	out.add(format)
	r.allocString(len(out.text))
	return out.value()
}

// converts returns the argument that a conversion takes: the named one, or the next.
func (a callArgs) converts(name string, next *int) Value {
	if name != "" {
		return a.field(name)
	}
	if *next >= len(a.pos) {
		failType("not enough arguments for format string")
	}
	*next++
	return a.pos[*next-1]
}

// converted writes a value as the parts of a conversion say.
func (r *state) converted(v Value, parts []string) Text {
	flags, width, precision, verb := parts[2], parts[3], parts[4], parts[5]
	if verb == "s" {
		t := r.print(v)
		if width == "" && precision == "" {
			return t
		}
		if strings.Contains(flags, "-") { // zeros and signs are for numbers
			width = "-" + width
		}
		return Text{text: fmt.Sprintf("%"+width+precision+"s", t.text), whole: t.whole}
	}
	if !isNumber(v) {
		failType("%%%s format: a real number is required, not %s", verb, typeName(v))
	}
	if verb == "f" {
		return Text{text: fmt.Sprintf("%"+flags+width+precision+"f", toFloat(v)), whole: true}
	}
	n, ok := v.(*big.Int)
	if !ok {
		n, _ = big.NewFloat(toFloat(v)).Int(nil)
	}
	if i, ok := v.(int); ok {
		n = big.NewInt(int64(i))
	}
	return Text{text: fmt.Sprintf("%"+flags+width+precision+"d", n), whole: true}
}
