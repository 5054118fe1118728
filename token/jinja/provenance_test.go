package jinja

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// A templateMaker writes templates that apply filters, methods, operators and formats
// to values at random.
type templateMaker struct {
	*rand.Rand
	atoms, formats []string
	// filters and methods are all that there are.
	filters, methods []string
	// made lists those in the template.
	made []string
}

func newTemplateMaker(seed uint64, atoms, formats []string) *templateMaker {
	return &templateMaker{
		Rand:    rand.New(rand.NewPCG(seed, seed)),
		atoms:   atoms,
		formats: formats,
		filters: slices.Sorted(maps.Keys(filterTable)),
		methods: slices.Sorted(maps.Keys(strMethods)),
	}
}

// Values that a template's author writes, and values that come with a request. The
// text of requests is of letters that no template has, and its number stands for one.
var (
	ownAtoms = []string{`'<a>'`, `'x,y z'`, `"'q'"`, `7`, `60`, `2.5`, `true`, `none`, `['b', 'a']`, `('y', 1)`,
		`{'k': 'v'}`, `'upper'`, `'k'`, `','`, `' '`, `-1`, `range(3)`}
	ownFormats = []string{`'{}'`, `'{0}'`, `'<{k}>'`, `'{}{{'`, `'{}|{}'`}
	dataAtoms  = []string{`s`, `word`, `letter`, `n`, `l`, `d`, `d.k`, `d['ξ']`, `l[0]`, `l[2]`, `s|length + n`,
		`messages[0].content`}
	dataFormats = []string{`'{}' ~ letter`, `'{' ~ '0}' ~ letter`, `braces`, `braces[0:2]`, `braces[2:5]`}
)

const requestLetters = "ΩψξωΨΞ"

func requestValues(t testing.TB) *Map {
	vars := NewMap()
	vars.Set("s", " Ωψξ, ωΨ\nΞψ ")
	vars.Set("word", "ωψξ")
	vars.Set("letter", "Ω")
	vars.Set("braces", "{}{0}{k}Ω")
	vars.Set("n", int('Ω'))
	vars.Set("l", NewList("Ω", "ψξ", int('ψ')))
	vars.Set("d", mustJSON(t, fmt.Sprintf(`{"k": "Ωψ", "ξ": %d}`, 'ξ')))
	vars.Set("messages", mustJSON(t, `[{"role": "user", "content": "Ω ψ ξ"}]`))
	return vars
}

func (m *templateMaker) pick(from []string) string { return from[m.IntN(len(from))] }

// name returns a filter or method and notes it.
func (m *templateMaker) name(kind string, from []string) string {
	name := m.pick(from)
	m.made = append(m.made, kind+name)
	return name
}

func (m *templateMaker) args(depth int) string {
	var args []string
	for range m.IntN(3) {
		args = append(args, m.expr(depth))
	}
	if m.IntN(8) == 0 {
		args = append(args, "k="+m.expr(depth))
	}
	return strings.Join(args, ", ")
}

// expr writes an expression of at most that depth.
func (m *templateMaker) expr(depth int) string {
	if depth == 0 || m.IntN(5) == 0 {
		return m.pick(m.atoms)
	}
	of := "(" + m.expr(depth-1) + ")"
	switch m.IntN(12) {
	case 0, 1, 2:
		return of + "|" + m.name("|", m.filters) + "(" + m.args(depth-1) + ")"
	case 3, 4, 5:
		return of + "." + m.name(".", m.methods) + "(" + m.args(depth-1) + ")"
	case 6:
		return of + "|" + m.name("|", m.filters)
	case 7:
		return of + m.pick([]string{" + ", " ~ ", " * ", " or ", " and "}) + "(" + m.expr(depth-1) + ")"
	case 8:
		return of + m.pick([]string{"[0]", "[1:]", "[:2]", "[::-1]", "[-1]"})
	case 9:
		return m.formatted(depth - 1)
	case 10:
		return "[" + m.expr(depth-1) + ", " + m.expr(depth-1) + "]"
	}
	return of + "|map('" + m.name("|", m.filters) + "')|join(" + m.pick(m.atoms) + ")"
}

// formatted writes an expression that formats others.
func (m *templateMaker) formatted(depth int) string {
	format := "(" + m.pick(m.formats) + ")"
	if m.IntN(2) == 0 {
		format = "(" + format + " ~ " + m.pick(m.formats) + ")"
	}
	return format + "." + m.name(".", []string{"format"}) + "(" + m.expr(depth) + ", k=" + m.expr(depth) + ")"
}

// template writes a template around an expression.
func (m *templateMaker) template() string {
	e := m.expr(1 + m.IntN(3))
	switch m.IntN(6) {
	case 0:
		return "{% set x %}<" + "{{ " + e + " }}>{% endset %}{{ x|" + m.name("|", m.filters) + " }}"
	case 1:
		return "{% for p in " + e + " %}{{ p }}|{% endfor %}"
	case 2:
		return "{% filter " + m.name("|", m.filters) + " %}<b>{{ " + e + " }}{% endfilter %}"
	case 3:
		return "{% macro f(x) %}<{{ x }}>{% endmacro %}{{ f(" + e + ")|" + m.name("|", m.filters) + " }}"
	}
	return "{{ " + e + " }}"
}

// rendered makes n templates and calls see with what each of them renders, and wants
// every filter and method to have been in a template that renders.
func (m *templateMaker) rendered(t *testing.T, n int, vars *Map, see func(source string, got Text)) {
	t.Helper()
	limits := Limits{Steps: 20_000, MemoryBytes: 1 << 20, OutputBytes: 1 << 14, Depth: 300}
	times := map[string]int{}
	for range n {
		m.made = m.made[:0]
		source := m.template()
		tmpl, err := Parse("random", source, Options{})
		if err != nil {
			t.Fatalf("%s: %v", source, err)
		}
		got, err := tmpl.RenderText(Context{Vars: vars, Now: dataNow, Limits: limits})
		if err != nil {
			continue // it asks for what the values do not have
		}
		for _, name := range m.made {
			times[name]++
		}
		see(source, got)
	}
	for _, name := range m.filters {
		if times["|"+name] == 0 {
			t.Errorf("the filter %s is in no template that renders", name)
		}
	}
	for _, name := range m.methods {
		if times["."+name] == 0 {
			t.Errorf("the method %s is in no template that renders", name)
		}
	}
}

// TestContentStaysData applies all that templates can do to values of a request and of
// the author: no letter of the request ever counts as the author's, whichever way it
// came, be it as text, as a format or as the number of a letter.
func TestContentStaysData(t *testing.T) {
	m := newTemplateMaker(1, slices.Concat(ownAtoms, dataAtoms, dataAtoms),
		slices.Concat(ownFormats, dataFormats))
	m.rendered(t, 30_000, requestValues(t), func(source string, got Text) {
		for _, s := range got.Spans() {
			if part := got.text[s.Start:s.End]; strings.ContainsAny(part, requestLetters) ||
				strings.Contains(part, "u03") {
				t.Errorf("%s: %q counts as the author's in %s", source, part, authored(got))
			}
		}
	})
}

// TestAuthorsTextStaysTheirs applies all that templates can do to what the author
// wrote alone: all of the result is the author's, except for characters that numbers
// were written as, and descriptions of iterators.
func TestAuthorsTextStaysTheirs(t *testing.T) {
	m := newTemplateMaker(2, ownAtoms, ownFormats)
	iterators := []string{"|select", "|selectattr", "|reject", "|rejectattr", "|unique", "|items", "|map", "|reverse"}
	m.rendered(t, 20_000, NewMap(), func(source string, got Text) {
		if slices.ContainsFunc(m.made, func(name string) bool { return slices.Contains(iterators, name) }) {
			return
		}
		if spans := got.Spans(); got.text != "" && (len(spans) != 1 || spans[0] != (Span{0, len(got.text)})) {
			t.Errorf("%s: %s", source, authored(got))
		}
	})
}
