package jinja

import "time"

// A Template is a parsed chat template. It is immutable: any number of
// goroutines may render it at the same time.
type Template struct {
	name    string
	names   []string
	body    []stmt
	options Options
}

// Parse reads a template. Name appears in errors only. The error is an [*Error].
func Parse(name, source string, options Options) (t *Template, err error) {
	defer catch(&err, name, new(int))
	if len(source) > sourceBytesMax {
		fail(SyntaxError, "the template has %d bytes, more than the %d allowed", len(source), sourceBytesMax)
	}
	p := &parser{tokens: lex(source), nameIDs: map[string]int{}}
	body := p.parseBody()
	if len(p.unknowns) > 0 {
		panic(p.unknowns[0].err)
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
func (t *Template) RenderText(ctx Context) (text Text, err error) {
	r := &state{
		budget:  budget{limits: ctx.Limits.withDefaults()},
		options: t.options,
		now:     ctx.Now,
		root:    make([]Value, len(t.names)),
		out:     &textBuffer{},
	}
	defer catch(&err, t.name, &r.line)
	for id, name := range t.names {
		r.root[id] = absent{}
		if fn, ok := globalTable[name]; ok {
			r.root[id] = fn
		}
		if ctx.Vars != nil {
			if v, ok := ctx.Vars.Get(name); ok {
				r.root[id] = v
			}
		}
	}
	r.run(t.body)
	return r.out.result(), nil
}
