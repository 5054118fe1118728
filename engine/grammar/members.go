package grammar

import (
	"fmt"
	"strconv"
)

// lengthsMax bounds the lengths that are intersected with a pattern, which
// cannot be counted.
const lengthsMax = 1000

// text takes a string.
func (c *schemaCompiler) text(s *sketch, from int32, f *facts) int32 {
	if !f.heldText() {
		return s.call(from, ruleString)
	}
	key := fmt.Sprintf("text %t %q %q %d %d", c.strict, f.patterns, f.formats, f.minLength, f.maxLength)
	return s.call(from, c.scalar(key, func() ruleID {
		id := c.reserve()
		m := c.textMachine(f)
		c.define(id, func(s *sketch) int32 {
			inside := s.literal(0, `"`)
			if m != nil {
				return s.literal(s.embed(inside, m), `"`)
			}
			return s.literal(c.repeat(s, inside, f.minLength, f.maxLength, ruleChar), `"`)
		})
		return id
	}))
}

// textMachine returns the machine of the string's inside, or nil if nothing
// but its length is given, which is counted.
func (c *schemaCompiler) textMachine(f *facts) (m *machine) {
	add := func(other *machine) {
		if m == nil {
			m = other
		} else {
			m = intersect(c.meter, m, other)
		}
	}
	for _, expression := range f.patterns {
		if err := c.meter.attempt(func() { add(pattern(c.meter, expression, quotedText)) }); err != nil && c.strict {
			panic(refusal{err})
		}
	}
	for _, name := range f.formats {
		if expression := formats[name]; expression != "" {
			add(pattern(c.meter, expression, quotedText))
		} else {
			c.unsupported("format", "with the value "+strconv.Quote(name))
		}
	}
	if m == nil || f.minLength == 0 && f.maxLength < 0 {
		return m
	}
	if max(f.minLength, f.maxLength) > lengthsMax {
		c.unsupported("maxLength", "above "+strconv.Itoa(lengthsMax)+" beside a pattern or format")
		return m
	}
	s := newSketch(c.meter)
	end := s.times(0, f.minLength, f.maxLength, func(from int32) int32 { return s.runes(from, everyRune, quotedText) })
	add(s.machine(end))
	return m
}

// array takes a list of values.
func (c *schemaCompiler) array(s *sketch, from int32, f *facts) int32 {
	fixed, rest, most := c.elements(f)
	if most >= 0 && f.minItems > most {
		return s.node()
	}
	at, end := s.literal(from, "["), s.node()
	for i, parts := range fixed {
		if i >= f.minItems {
			s.link(at, end)
		}
		if i > 0 {
			at = s.comma(at)
		}
		c.meter.within(func() { at = c.value(s, at, parts) }, "prefixItems", strconv.Itoa(i))
	}
	least := max(f.minItems-len(fixed), 0)
	if most >= 0 {
		most -= len(fixed)
	}
	if least == 0 {
		s.link(at, end)
	}
	if most != 0 {
		c.meter.within(func() { c.tail(s, at, end, len(fixed) > 0, least, most, rest) }, "items")
	}
	return s.literal(end, "]")
}

// tail takes least to most more elements, at least one, of the same kind. After
// others, the first also has a comma.
func (c *schemaCompiler) tail(s *sketch, at, end int32, others bool, least, most int, parts []part) {
	if most < 0 && least <= 1 {
		start := s.node()
		last := c.value(s, start, parts)
		s.link(s.comma(last), start)
		s.link(last, end)
		if others {
			at = s.comma(at)
		}
		s.link(at, start)
		return
	}
	element, further := c.reserve(), c.reserve()
	c.define(element, func(s *sketch) int32 { return c.value(s, 0, parts) })
	c.define(further, func(s *sketch) int32 { return s.call(s.comma(0), element) })
	if others {
		s.link(c.repeat(s, at, max(least, 1), most, further), end)
		return
	}
	if most > 0 {
		most--
	}
	s.link(c.repeat(s, s.call(at, element), max(least-1, 0), most, further), end)
}

// elements returns what holds for the first elements of an array, each by
// itself, and for the rest, and how many there may be.
func (c *schemaCompiler) elements(f *facts) (fixed [][]part, rest []part, most int) {
	most = f.maxItems
	type list struct {
		prefix []*value
		others *value
	}
	var lists []list
	longest := 0
	for _, schema := range f.arrays {
		l := list{others: schema.get("items")}
		if v := schema.get("prefixItems"); v != nil {
			l.prefix = c.list(v, "prefixItems")
		} else if l.others != nil && l.others.kind == isArray {
			l.prefix, l.others = l.others.values, schema.get("additionalItems")
		}
		if l.others != nil && l.others.is(false) && (most < 0 || most > len(l.prefix)) {
			most = len(l.prefix)
		}
		longest = max(longest, len(l.prefix))
		lists = append(lists, l)
	}
	if most >= 0 {
		longest = min(longest, most)
	}
	fixed = make([][]part, longest)
	for _, l := range lists {
		for i := range fixed {
			if c.meter.step(1); i < len(l.prefix) {
				fixed[i] = append(fixed[i], part{schema: l.prefix[i]})
			} else if l.others != nil {
				fixed[i] = append(fixed[i], part{schema: l.others})
			}
		}
		if l.others != nil {
			rest = append(rest, part{schema: l.others})
		}
	}
	return fixed, rest, most
}
