package grammar

import (
	"fmt"
	"parley/engine/automaton"
	"slices"
	"strconv"
)

// text takes a string.
func (c *schemaCompiler) text(s *automaton.Sketch, from int32, f *facts) int32 {
	if !f.heldText() {
		return s.Call(from, automaton.RuleString)
	}
	var excluded []string
	for _, v := range f.excluded {
		if v.kind == isString {
			excluded = append(excluded, v.text)
		}
	}
	key := fmt.Sprintf("text %t %q %q %q %q %d %d", c.exact, f.patterns, f.notPatterns, f.formats, excluded,
		f.minLength, f.maxLength)
	return s.Call(from, c.scalar(key, func() automaton.RuleID {
		id := c.reserve()
		m := c.textMachine(f, excluded)
		c.define(id, func(s *automaton.Sketch) int32 {
			inside := s.Literal(0, `"`)
			if m != nil {
				return s.Literal(s.Embed(inside, m), `"`)
			}
			return s.Literal(c.repeat(s, inside, f.minLength, f.maxLength, automaton.RuleChar), `"`)
		})
		return id
	}))
}

// textMachine returns the machine of the string's inside, or nil if nothing
// but its length is given, which is counted.
func (c *schemaCompiler) textMachine(f *facts, excluded []string) (m *automaton.Machine) {
	type operation func(m *automaton.Meter, a, b *automaton.Machine) *automaton.Machine
	and := func(combine operation, other *automaton.Machine) {
		if m == nil {
			m = automaton.Everything(c.meter, automaton.QuotedText)
		}
		m = combine(c.meter, m, other)
	}
	most := f.maxLength
	for _, expression := range f.patterns {
		c.tryPattern(automaton.Anchored(expression), func(p *automaton.Machine) { and(automaton.Intersect, p) })
	}
	for _, expression := range f.notPatterns {
		c.tryPattern(expression, func(p *automaton.Machine) { and(automaton.Subtract, p) })
	}
	for _, name := range f.formats {
		expression := automaton.Formats[name]
		if short := automaton.ShortFormats[name]; short != "" && most >= 0 && most < longestFormat {
			expression, most = short, min(most, automaton.ShortFormatMax)
		}
		and(automaton.Intersect, automaton.Pattern(c.meter, expression, automaton.QuotedText))
	}
	if len(excluded) > 0 {
		taken := automaton.NewSketch(c.meter)
		var quoted []string
		for _, text := range excluded {
			quoted = append(quoted, automaton.Quote(text))
		}
		and(automaton.Subtract, taken.Machine(taken.Literals(0, quoted)))
	}
	if m == nil || f.minLength == 0 && most < 0 {
		return m
	}
	return automaton.Counted(c.meter, m, f.minLength, most)
}

// longestFormat is more than the characters of any text of a format that has a short form
// and an end.
const longestFormat = 4096

// tryPattern uses the machine of a pattern, unless there is none.
func (c *schemaCompiler) tryPattern(expression string, use func(p *automaton.Machine)) {
	err := c.meter.Attempt(func() { use(automaton.Pattern(c.meter, expression, automaton.QuotedText)) })
	switch {
	case err != nil && c.exact:
		c.meter.Pass(err)
	case err != nil:
		c.left["pattern"] = true
	}
}

// array takes a list of values.
func (c *schemaCompiler) array(s *automaton.Sketch, from int32, f *facts) int32 {
	l, possible := c.elements(f)
	if !possible {
		return s.Node()
	}
	if f.unique && l.most != 0 && l.most != 1 {
		if values, finite := c.finite(l); finite {
			return c.subset(s, from, values, l)
		}
		c.unsupported("uniqueItems", "for elements of which there are more than can be listed")
	}
	at, end := s.Literal(from, "["), s.Node()
	for i, parts := range l.fixed {
		if i >= l.least {
			s.Link(at, end)
		}
		if i > 0 {
			at = s.Comma(at)
		}
		c.meter.Within(func() { at = c.value(s, at, parts) }, "prefixItems", strconv.Itoa(i))
	}
	least, most := max(l.least-len(l.fixed), 0), l.most
	if most >= 0 {
		most -= len(l.fixed)
	}
	if least == 0 {
		s.Link(at, end)
	}
	if most != 0 {
		c.meter.Within(func() { c.tail(s, at, end, len(l.fixed) > 0, least, most, l.rest) }, "items")
	}
	return s.Literal(end, "]")
}

// finite returns the values that all elements of an array come from, if they are listed.
func (c *schemaCompiler) finite(l *sequence) (values []*value, ok bool) {
	if len(l.fixed) > 0 {
		return nil, false
	}
	n := normaliser{c: c, seen: map[part]bool{}}
	for _, p := range l.rest {
		n.add(p, nil)
	}
	if values, ok = c.listed(n.parts); ok {
		return distinct(c.satisfying(values, n.parts)), true
	}
	o := c.outline(schemasOf(n.parts), 0)
	if o.kinds&^(isNull|isBoolean) != 0 {
		return nil, false
	}
	words := []*value{{kind: isNull, text: "null"}, anythingAllowed, nothingAllowed}
	return c.satisfying(words, n.parts), true
}

func distinct(values []*value) (out []*value) {
	for _, v := range values {
		if !slices.ContainsFunc(out, v.equal) {
			out = append(out, v)
		}
	}
	return out
}

// subset takes an array of different values out of a list, in the order of the list.
func (c *schemaCompiler) subset(s *automaton.Sketch, from int32, values []*value, l *sequence) int32 {
	most := len(values)
	if l.most >= 0 {
		most = min(most, l.most)
	}
	if l.least > most {
		return s.Node()
	}
	names := make([]string, len(values))
	for i, v := range values {
		names[i] = v.json()
	}
	open, end := s.Literal(from, "["), s.Node()
	p := newPicker(s, names, nil, l.least, most, end)
	p.settle()
	p.write(open, func(_ int, from int32) int32 { return from })
	return s.Literal(end, "]")
}

// tail takes least to most more elements, at least one, of the same kind. After
// others, the first also has a comma.
func (c *schemaCompiler) tail(s *automaton.Sketch, at, end int32, others bool, least, most int, parts []part) {
	if most < 0 && least <= 1 {
		start := s.Node()
		last := c.value(s, start, parts)
		s.Link(s.Comma(last), start)
		s.Link(last, end)
		if others {
			at = s.Comma(at)
		}
		s.Link(at, start)
		return
	}
	element, further := c.reserve(), c.reserve()
	c.define(element, func(s *automaton.Sketch) int32 { return c.value(s, 0, parts) })
	c.define(further, func(s *automaton.Sketch) int32 { return s.Call(s.Comma(0), element) })
	if others {
		s.Link(c.repeat(s, at, max(least, 1), most, further), end)
		return
	}
	if most > 0 {
		most--
	}
	s.Link(c.repeat(s, s.Call(at, element), max(least-1, 0), most, further), end)
}

// A sequence is what the elements of an array are: the first, each by itself, the rest,
// and how many there may be; a negative most means no bound.
type sequence struct {
	fixed       [][]part
	rest        []part
	least, most int
}

// elements combines what f's parts require of an array's elements. It reports false if no
// array can satisfy them.
func (c *schemaCompiler) elements(f *facts) (l *sequence, possible bool) {
	l = &sequence{least: f.minItems, most: f.maxItems}
	lists := make([]elements, len(f.arrays))
	longest := 0
	for i, p := range f.arrays {
		lists[i] = c.elementsOf(p.schema)
		if v := p.schema.get("unevaluatedItems"); v != nil && lists[i].others == nil {
			lists[i] = c.evaluated(p, f.arrays, v)
		}
		if e := &lists[i]; e.others != nil && e.others.is(false) && (l.most < 0 || l.most > len(e.prefix)) {
			l.most = len(e.prefix)
		}
		longest = max(longest, len(lists[i].prefix))
	}
	if l.most >= 0 {
		longest = min(longest, l.most)
	}
	l.fixed = make([][]part, longest)
	for _, e := range lists {
		for i := range l.fixed {
			if c.meter.Step(1); e.at(i) != nil {
				l.fixed[i] = append(l.fixed[i], part{schema: e.at(i)})
			}
		}
		if e.others != nil {
			l.rest = append(l.rest, part{schema: e.others})
		}
	}
	for _, p := range f.arrays {
		if v := p.schema.get("contains"); v != nil {
			c.contain(l, p.schema, v)
		}
	}
	return l, l.most < 0 || l.least <= l.most
}

// evaluated returns what unevaluatedItems says beside what the parts under its schema say.
func (c *schemaCompiler) evaluated(owner part, parts []part, says *value) elements {
	e := elements{others: says}
	for _, p := range parts {
		if !p.under(owner.schema) {
			continue
		}
		known := c.elementsOf(p.schema)
		if known.others != nil || p.schema != owner.schema && p.schema.get("unevaluatedItems") != nil {
			return elements{}
		}
		for i := len(e.prefix); i < len(known.prefix); i++ {
			e.prefix = append(e.prefix, anythingAllowed)
		}
		if p.schema == owner.schema {
			copy(e.prefix, known.prefix)
		}
	}
	return e
}

// containedMax bounds how many elements are written down for contains.
const containedMax = 64

// contain lets the first elements that can be what contains asks for be that.
func (c *schemaCompiler) contain(l *sequence, schema, wanted *value) {
	least, most := 1, -1
	if n, ok := c.count(schema, "minContains"); ok {
		least = n
	}
	if n, ok := c.count(schema, "maxContains"); ok {
		most = n
	}
	if least > containedMax {
		c.unsupported("minContains", "above "+strconv.Itoa(containedMax))
		return
	}
	missing := least
	for i := 0; missing > 0 && (l.most < 0 || i < l.most) && i < containedMax+len(l.fixed); i++ {
		if i == len(l.fixed) {
			l.fixed = append(l.fixed, slices.Clone(l.rest))
		}
		if !c.disjoint(schemasOf(l.fixed[i]), []*value{wanted}, 0) {
			l.fixed[i] = append(l.fixed[i], part{schema: wanted})
			l.least = max(l.least, i+1)
			missing--
		} else if most >= 0 {
			l.fixed[i] = append(l.fixed[i], part{schema: c.not(wanted)})
		}
	}
	if missing > 0 || most >= 0 && most < least {
		l.least, l.most = 1, 0 // there is none
	}
	if most < 0 {
		return
	}
	for i := range l.fixed {
		if !slices.Contains(l.fixed[i], part{schema: wanted}) {
			l.fixed[i] = append(l.fixed[i], part{schema: c.not(wanted)})
		}
	}
	l.rest = append(l.rest, part{schema: c.not(wanted)})
}
