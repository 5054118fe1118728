package jinja

import (
	"strconv"
	"strings"
)

// strFormat is the method format of strings, with the fields {}, {0} and {name}.
func strFormat(r *state, self Value, args callArgs) Value {
	format := selfText(self)
	var out textBuffer
	for next := 0; ; {
		at := strings.IndexAny(format.text, "{}")
		if at < 0 {
			out.add(format)
			r.allocString(len(out.text))
			return out.value()
		}
		out.add(format.Cut(0, at))
		brace, rest := format.Cut(at, at+1), format.from(at+1)
		if strings.HasPrefix(rest.text, brace.text) {
			out.add(brace)
			format = rest.from(1)
			continue
		}
		end := strings.IndexByte(rest.text, '}')
		if end < 0 || brace.text == "}" {
			failValue("single '%s' encountered in format string", brace.text)
		}
		field := rest.Cut(0, end)
		format = rest.from(end + 1)
		name := field.text
		if name == "" {
			name = strconv.Itoa(next)
			next++
		}
		t := r.print(args.field(name))
		r.alloc(len(t.text) + spanBytes*len(t.own))
		if !brace.whole || !field.whole && field.text != "" {
			t = Text{text: t.text} // data chose what to write
		}
		out.add(t)
	}
}

// field returns the argument that a field of a format names by its place or its name.
func (a callArgs) field(name string) Value {
	if strings.ContainsAny(name, ":!.[") {
		failValue("unsupported field {%s} in format string; use {}, {0} or {name}", name)
	}
	if i, err := strconv.Atoi(name); err == nil {
		if i < 0 || i >= len(a.pos) {
			fail(RuntimeError, "IndexError: replacement index %d out of range for positional args tuple", i)
		}
		return a.pos[i]
	}
	v, ok := a.take(name)
	if !ok {
		fail(RuntimeError, "KeyError: %s", quote(name))
	}
	return v
}
