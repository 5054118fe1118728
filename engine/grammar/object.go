package grammar

import (
	"fmt"
	"parley/engine/automaton"
	"slices"
)

// A member is a property that an object has by name.
type member struct {
	name     string
	parts    []part
	required bool
}

// A group is properties that an object does not name: what their names are between the
// quotes, nil for any, and what holds for them.
type group struct {
	names *automaton.Machine
	parts []part
}

// A layout is what an object's members are: those named, in order, and others.
type layout struct {
	members []member
	groups  []group
}

// object takes an object. Members come in the order of the schema; those that
// are not required may be left out.
func (c *schemaCompiler) object(s *automaton.Sketch, from int32, f *facts) int32 {
	l, possible := c.layout(f)
	if !possible {
		return s.Node()
	}
	if len(l.members) == 0 && len(l.groups) == 1 && l.groups[0].names == nil && len(l.groups[0].parts) == 0 &&
		f.minMembers == 0 && f.maxMembers < 0 {
		return s.Call(from, automaton.RuleObject)
	}
	at, end := s.Literal(from, "{"), s.Node()
	if len(l.members) == 0 && len(l.groups) > 0 {
		c.countedOthers(s, at, end, l, f)
	} else {
		c.named(s, at, end, l, f)
	}
	return s.Literal(end, "}")
}

// named takes the members of a layout.
func (c *schemaCompiler) named(s *automaton.Sketch, at, end int32, l *layout, f *facts) {
	names, required := make([]string, len(l.members)), make([]bool, len(l.members))
	for i := range l.members {
		names[i], required[i] = `"`+automaton.Quote(l.members[i].name)+`"`, l.members[i].required
	}
	p := newPicker(s, names, required, f.minMembers, f.maxMembers, end)
	if len(l.groups) > 0 {
		p.more = func(from int32) int32 { return c.other(s, from, l) }
	}
	p.settle()
	if n := (len(names) + 1) * p.counting(); n > pickedMax {
		c.unsupported("maxProperties", fmt.Sprintf("of %d beside %d properties", max(p.least, p.most), len(names)))
		p.least, p.most = 0, -1
	}
	if p.least > len(names)+1 || p.least > len(names) && p.more == nil {
		c.unsupported("minProperties", "for more than one property that is not named")
		p.least = 0
	}
	rules := map[int]automaton.RuleID{}
	p.write(at, func(i int, from int32) (to int32) {
		from = s.Colon(from)
		m := &l.members[i]
		c.meter.Within(func() {
			if p.counting() == 1 {
				to = c.value(s, from, m.parts)
				return
			}
			if _, known := rules[i]; !known { // it is written once for each count
				rules[i] = c.reserve()
				c.define(rules[i], func(s *automaton.Sketch) int32 { return c.value(s, 0, m.parts) })
			}
			to = s.Call(from, rules[i])
		}, "properties", m.name)
		return to
	})
}

// other takes a member that is not named.
func (c *schemaCompiler) other(s *automaton.Sketch, from int32, l *layout) int32 {
	end := s.Node()
	for _, g := range l.groups {
		named := s.Call(from, automaton.RuleString)
		if g.names != nil {
			inside := s.Embed(s.Literal(from, `"`), g.names)
			named = s.Literal(inside, `"`)
		}
		c.meter.Within(func() { s.Link(c.value(s, s.Colon(named), g.parts), end) }, "additionalProperties")
	}
	return end
}

// countedOthers takes members of an object that names none.
func (c *schemaCompiler) countedOthers(s *automaton.Sketch, at, end int32, l *layout, f *facts) {
	if f.minMembers > 1 {
		c.unsupported("minProperties", "above 1 for properties that are not named")
	}
	if f.minMembers == 0 {
		s.Link(at, end)
	}
	if f.maxMembers == 0 {
		return
	}
	member, further := c.reserve(), c.reserve()
	c.define(member, func(s *automaton.Sketch) int32 { return c.other(s, 0, l) })
	c.define(further, func(s *automaton.Sketch) int32 { return s.Call(s.Comma(0), member) })
	most := f.maxMembers
	if most > 0 {
		most--
	}
	s.Link(c.repeat(s, s.Call(at, member), 0, most, further), end)
}

// layout puts together what parts say about members. A member must
// satisfy what each says about its name, or about names it does not mention.
// It reports false if a required member cannot be.
func (c *schemaCompiler) layout(f *facts) (l *layout, possible bool) {
	l, possible = &layout{}, true
	at := map[string]int{}
	name := func(name string) *member {
		if _, known := at[name]; !known {
			at[name] = len(l.members)
			l.members = append(l.members, member{name: name})
		}
		return &l.members[at[name]]
	}
	asked := false
	for _, p := range f.objects {
		for _, property := range c.properties(p.schema).names {
			name(property)
		}
		for _, property := range c.required(p.schema) {
			name(property).required = true
		}
		for _, property := range c.listedNames(p.schema) {
			name(property)
		}
		for _, keyword := range []string{"additionalProperties", "unevaluatedProperties"} {
			asked = asked || p.schema.get(keyword) != nil && !p.schema.get(keyword).is(false)
		}
	}
	named := len(l.members) > 0
	l.members = slices.DeleteFunc(l.members, func(m member) bool {
		_, allowed := c.member(f, m.name)
		possible = possible && (allowed || !m.required)
		return !allowed
	})
	for i := range l.members {
		l.members[i].parts, _ = c.member(f, l.members[i].name)
	}
	if possible {
		c.groups(l, f, at, asked || !named)
	}
	return l, possible
}

// listedNames returns the names that propertyNames lists.
func (c *schemaCompiler) listedNames(schema *value) (names []string) {
	if v := schema.get("propertyNames"); v != nil && v.kind == isObject {
		values, _ := c.listed([]part{{schema: v}})
		for _, listed := range values {
			if listed.kind == isString {
				names = append(names, listed.text)
			}
		}
	}
	return names
}

// member returns what holds for the member of a name, and whether there may be one.
func (c *schemaCompiler) member(f *facts, name string) (parts []part, allowed bool) {
	for _, p := range f.objects {
		if v := p.schema.get("propertyNames"); v != nil {
			switch c.judge(textValue(name), v, 0) {
			case no:
				return nil, false
			case unknown:
				c.unsupported("propertyNames", "with what it says here")
			}
		}
	}
	return c.memberParts(f, func(expression string) ternary { return c.finds(expression, name) }, &name)
}

// memberParts returns what holds for a member of which is known which patterns fit; name
// is nil for those that no part names.
func (c *schemaCompiler) memberParts(f *facts, fits func(expression string) ternary,
	name *string) (parts []part, allowed bool) {
	known := make([]bool, len(f.objects))
	add := func(v *value) { parts = append(parts, part{schema: v}) }
	for i, p := range f.objects {
		c.meter.Step(1)
		if name != nil && c.properties(p.schema).get(*name) != nil {
			known[i] = true
			add(c.properties(p.schema).get(*name))
		}
		patterns := p.schema.get("patternProperties")
		for k, expression := range namesOf(patterns) {
			switch fits(expression) {
			case yes:
				known[i] = true
				add(patterns.values[k])
			case unknown:
				c.unsupported("patternProperties", "with the pattern "+expression)
			}
		}
		if v := p.schema.get("additionalProperties"); v != nil && !known[i] {
			known[i] = true
			add(v)
		}
	}
	for i, p := range f.objects {
		v := p.schema.get("unevaluatedProperties")
		if v == nil || known[i] {
			continue
		}
		evaluated := false
		for k, other := range f.objects {
			evaluated = evaluated || known[k] && other.under(p.schema) ||
				k != i && other.under(p.schema) && other.schema.get("unevaluatedProperties") != nil
		}
		if !evaluated {
			add(v)
		}
	}
	return parts, !slices.ContainsFunc(parts, func(p part) bool { return p.schema.is(false) })
}

// patternsMax bounds how many patterns for names an object may have.
const patternsMax = 32

// groups finds the members that are not named: for each pattern those that fit it and no
// other, and, where they are asked for, those that fit none.
func (c *schemaCompiler) groups(l *layout, f *facts, taken map[string]int, others bool) {
	var patterns []string
	for _, p := range f.objects {
		for _, expression := range namesOf(p.schema.get("patternProperties")) {
			if !slices.Contains(patterns, expression) {
				patterns = append(patterns, expression)
			}
		}
	}
	if len(patterns) > patternsMax {
		c.unsupported("patternProperties", fmt.Sprintf("with more than %d patterns", patternsMax))
		return
	}
	if others && len(patterns) == 0 && !c.restrictsNames(f) && len(taken) == 0 {
		if parts, allowed := c.memberParts(f, func(string) ternary { return no }, nil); allowed {
			l.groups = append(l.groups, group{nil, parts})
		}
		return
	}
	if !others && len(patterns) == 0 {
		return
	}
	n := c.newNames(f, taken, patterns)
	for i := range patterns {
		c.addGroup(l, f, n, []int{i})
	}
	if others && (len(patterns) == 0 || c.asksForOthers(f)) {
		c.addGroup(l, f, n, nil)
	}
}

// asksForOthers reports whether a part has something to say about members it does not know.
func (c *schemaCompiler) asksForOthers(f *facts) bool {
	return slices.ContainsFunc(f.objects, func(p part) bool {
		return p.schema.get("additionalProperties") != nil || p.schema.get("unevaluatedProperties") != nil
	})
}

func (c *schemaCompiler) restrictsNames(f *facts) bool {
	return slices.ContainsFunc(f.objects, func(p part) bool { return p.schema.get("propertyNames") != nil })
}

// addGroup adds the members whose names fit the patterns of the given numbers, and no other. If
// there are none that fit a pattern alone, those that fit one more as well are added.
func (c *schemaCompiler) addGroup(l *layout, f *facts, n *memberNames, chosen []int) {
	parts, allowed := c.memberParts(f, func(expression string) ternary {
		return answerOf(slices.ContainsFunc(chosen, func(i int) bool { return n.patterns[i] == expression }))
	}, nil)
	if !allowed {
		return
	}
	m := n.fitting(c.meter, chosen)
	if !m.IsEmpty(c.meter) {
		l.groups = append(l.groups, group{m, parts})
		return
	}
	if len(chosen) == 1 {
		for i := chosen[0] + 1; i < len(n.patterns); i++ {
			c.addGroup(l, f, n, []int{chosen[0], i})
		}
	}
}

// memberNames are the names of members that are not taken, and the patterns that they may fit.
type memberNames struct {
	patterns []string
	free     *automaton.Machine
	machines []*automaton.Machine
}

// newNames returns the names that are not taken. Their characters are not escaped, so that a
// name cannot be had by another spelling.
func (c *schemaCompiler) newNames(f *facts, taken map[string]int, patterns []string) *memberNames {
	all := automaton.NewSketch(c.meter)
	end := all.Star(0, func(from int32) int32 {
		return all.Runes(from, []rune{' ', '!', '#', '[', ']', automaton.EveryRune[1]}, automaton.PlainText)
	})
	n := &memberNames{patterns: patterns, free: all.Machine(end)}
	if len(taken) > 0 {
		named := automaton.NewSketch(c.meter)
		n.free = automaton.Subtract(c.meter, n.free, named.Machine(named.Literals(0, sortedKeys(taken))))
	}
	for _, p := range f.objects {
		if v := p.schema.get("propertyNames"); v != nil {
			if m := c.namesAllowed(v); m != nil {
				n.free = automaton.Intersect(c.meter, n.free, m)
			}
		}
	}
	for _, expression := range patterns {
		if c.finds(expression, "") == unknown {
			c.unsupported("patternProperties", "with the pattern "+expression)
		}
		n.machines = append(n.machines, c.patterns[expression])
	}
	return n
}

// fitting returns the names that fit the chosen patterns and no other.
func (n *memberNames) fitting(m *automaton.Meter, chosen []int) *automaton.Machine {
	out := n.free
	for i, machine := range n.machines {
		switch {
		case machine == nil:
		case slices.Contains(chosen, i):
			out = automaton.Intersect(m, out, machine)
		default:
			out = automaton.Subtract(m, out, machine)
		}
	}
	return out
}

// namesAllowed returns the machine of the names that propertyNames allows, nil for all.
func (c *schemaCompiler) namesAllowed(schema *value) (out *automaton.Machine) {
	and := func(m *automaton.Machine) {
		if out == nil {
			out = m
		} else {
			out = automaton.Intersect(c.meter, out, m)
		}
	}
	if schema.is(false) {
		return &automaton.Machine{Nodes: []automaton.State{{}}}
	}
	o := c.outline([]*value{schema}, 0)
	if o.kinds&isString == 0 {
		return &automaton.Machine{Nodes: []automaton.State{{}}}
	}
	for _, s := range o.schemas {
		f := &facts{maxLength: -1}
		c.readText(f, s)
		for _, expression := range f.patterns {
			and(automaton.Pattern(c.meter, expression, automaton.PlainText))
		}
		for _, name := range f.formats {
			and(automaton.Pattern(c.meter, automaton.Formats[name], automaton.PlainText))
		}
		if f.minLength > 0 || f.maxLength >= 0 {
			all := automaton.Everything(c.meter, automaton.PlainText)
			and(automaton.Counted(c.meter, all, f.minLength, f.maxLength))
		}
		if _, listed := c.listed([]part{{schema: s}}); listed {
			and(&automaton.Machine{Nodes: []automaton.State{{}}}) // they are named
		}
		for _, keyword := range []string{"anyOf", "oneOf", "not", "if"} {
			if s.get(keyword) != nil {
				c.unsupported("propertyNames", "with the keyword "+keyword)
			}
		}
	}
	return out
}
