package jinja

import (
	"errors"
	"time"
)

// Options are what a template is parsed with.
type Options struct {
	// SortJSONKeys makes tojson sort keys unless the template says otherwise.
	// Transformers keeps the order of the data, which is the zero value.
	SortJSONKeys bool
	// Lenient takes what templates for other engines use although jinja2's
	// sandbox refuses it: append and pop of lists, and tojson of a generator.
	Lenient bool
}

// A Template is a parsed chat template. It is immutable: any number of
// goroutines may render it at the same time.
type Template struct {
	name    string
	names   []string
	body    []stmt
	options Options
}

// Parse reads a template. Name appears in errors only.
func Parse(name, source string, options Options) (*Template, error) {
	p, body, err := parse(source)
	if err != nil {
		var e *Error
		if errors.As(err, &e) {
			e.Template = name
		}
		return nil, err
	}
	return &Template{name: name, names: p.names, body: body, options: options}, nil
}

// Context is what a render reads.
type Context struct {
	// Vars are the template's variables, such as messages and bos_token.
	Vars *Map
	// Now is what strftime_now formats. The zero time makes it an error,
	// because a template that prints a wrong date is worse.
	Now time.Time
	// Limits bound the render; zero fields mean defaults.
	Limits Limits
}

// Render runs the template. The error is an [*Error].
func (t *Template) Render(ctx Context) (string, error) {
	text, err := t.RenderText(ctx)
	return text.text, err
}

// RenderText is [Template.Render] that also says which bytes the template's
// author wrote. Strings in ctx.Vars are data unless they are made with [Own].
func (t *Template) RenderText(ctx Context) (Text, error) {
	in := &interp{template: t, limits: ctx.Limits.withDefaults(), now: ctx.Now}
	in.root = make([]Value, len(t.names))
	in.isSet = make([]bool, len(t.names))
	for id, name := range t.names {
		if v, ok := in.resolve(ctx.Vars, name); ok {
			in.root[id], in.isSet[id] = v, true
		}
	}
	out := &textBuffer{}
	in.out = out
	if _, err := in.execAll(t.body, &scope{isRoot: true}); err != nil {
		return Text{}, atLine(err, t.name, 1)
	}
	return out.result(), nil
}

func (in *interp) resolve(vars *Map, name string) (Value, bool) {
	if vars != nil {
		if v, ok := vars.Get(name); ok {
			return v, true
		}
	}
	fn, ok := globalTable[name]
	return fn, ok
}

// An interp is the state of one render.
type interp struct {
	template *Template
	limits   Limits
	now      time.Time

	steps       int
	memoryBytes int
	depth       int

	// root holds the top-level variables by name number.
	root  []Value
	isSet []bool
	out   *textBuffer
}

func (in *interp) write(t Text) error {
	out := in.out
	if len(t.text) > in.limits.OutputBytes-len(out.text) {
		return limitErrorf("the output is longer than %d bytes; raise Limits.OutputBytes if the template is trusted",
			in.limits.OutputBytes)
	}
	if err := in.alloc(len(t.text)); err != nil {
		return err
	}
	if out.add(t) {
		return in.alloc(spanBytes * (len(t.own) + 1))
	}
	return nil
}

// writeValue writes what {{ v }} prints.
func (in *interp) writeValue(v Value) error {
	t, err := in.print(v)
	if err != nil {
		return err
	}
	return in.write(t)
}

// capture runs do and returns what it wrote.
func (in *interp) capture(do func() error) (Value, error) {
	outer := in.out
	buffer := &textBuffer{}
	in.out = buffer
	err := do()
	in.out = outer
	if err != nil {
		return nil, err
	}
	return buffer.value(), in.allocString(len(buffer.text))
}

// A scope holds the variables of a loop body, a macro call or a block. Names
// not found here are looked up in the parent, and at last in interp.root.
type scope struct {
	parent *scope
	ids    []int
	values []Value
	isRoot bool
}

func (sc *scope) set(in *interp, id int, v Value) {
	if sc.isRoot {
		in.root[id], in.isSet[id] = v, true
		return
	}
	for i, have := range sc.ids {
		if have == id {
			sc.values[i] = v
			return
		}
	}
	sc.ids = append(sc.ids, id)
	sc.values = append(sc.values, v)
}

func (sc *scope) get(in *interp, id int) (Value, bool) {
	for ; !sc.isRoot; sc = sc.parent {
		for i, have := range sc.ids {
			if have == id {
				return sc.values[i], true
			}
		}
	}
	return in.root[id], in.isSet[id]
}

// clear forgets the variables, for the next turn of a loop.
func (sc *scope) clear() {
	sc.ids = sc.ids[:0]
	sc.values = sc.values[:0]
}
