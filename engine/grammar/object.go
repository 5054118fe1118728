package grammar

import "slices"

// A member is a property that an object has by name.
type member struct {
	name     string
	parts    []part
	required bool
}

// A layout is what an object's members are: those named, in order, and what
// holds for others, if there may be others.
type layout struct {
	members []member
	others  []part
	open    bool
}

// object takes an object. Members come in the order of the schema; those that
// are not required may be left out.
func (c *schemaCompiler) object(s *sketch, from int32, f *facts) int32 {
	l, possible := c.layout(f)
	if !possible {
		return s.node()
	}
	if len(l.members) == 0 && l.open && len(l.others) == 0 && f.minMembers == 0 && f.maxMembers < 0 {
		return s.call(from, ruleObject)
	}
	at, end := s.literal(from, "{"), s.node()
	if len(l.members) == 0 && l.open {
		c.countedOthers(s, at, end, l, f)
		return s.literal(end, "}")
	}
	c.checkCounts(l, f)
	c.named(s, at, end, l)
	return s.literal(end, "}")
}

// named takes the members of a layout. At picks[i] the next member is one from
// i on, and the last before it is written: where a comma is needed, it was taken.
func (c *schemaCompiler) named(s *sketch, at, end int32, l *layout) {
	count := len(l.members)
	picks := make([]int32, count+1)
	for i := range picks {
		picks[i] = s.node()
	}
	s.link(at, picks[0])
	optional := true // all members from i on
	if l.open {
		last := c.other(s, picks[count], l)
		s.link(s.comma(last), picks[count])
		s.link(last, end)
	}
	for i := count - 1; i >= 0; i-- {
		m := &l.members[i]
		var after int32
		c.meter.within(func() {
			after = c.value(s, s.colon(s.literal(picks[i], `"`+quote(m.name)+`"`)), m.parts)
		}, "properties", m.name)
		if i+1 < count || l.open {
			s.link(s.comma(after), picks[i+1])
		}
		if optional {
			s.link(after, end)
		}
		if optional = optional && !m.required; !m.required {
			s.link(picks[i], picks[i+1])
		}
	}
	if optional {
		s.link(at, end)
	}
}

// other takes a member that is not named.
func (c *schemaCompiler) other(s *sketch, from int32, l *layout) (to int32) {
	if len(l.members) == 0 {
		from = s.call(from, ruleString)
	} else {
		from = s.call(from, c.otherNames(l))
	}
	c.meter.within(func() { to = c.value(s, s.colon(from), l.others) }, "additionalProperties")
	return to
}

// otherNames returns the rule of names that are not taken. Their characters
// are not escaped, so that a name cannot be had by another spelling.
func (c *schemaCompiler) otherNames(l *layout) ruleID {
	all := newSketch(c.meter)
	inside := all.star(all.literal(0, `"`), func(from int32) int32 {
		return all.runes(from, []rune{' ', '!', '#', '[', ']', everyRune[1]}, plainText)
	})
	taken := newSketch(c.meter)
	var names []string
	for _, m := range l.members {
		names = append(names, `"`+quote(m.name)+`"`)
	}
	return c.rule(subtract(c.meter, all.machine(all.literal(inside, `"`)), taken.machine(taken.literals(0, names))))
}

// countedOthers takes members of an object that names none.
func (c *schemaCompiler) countedOthers(s *sketch, at, end int32, l *layout, f *facts) {
	if f.minMembers > 1 {
		c.unsupported("minProperties", "above 1 for properties that are not named")
	}
	if f.minMembers == 0 {
		s.link(at, end)
	}
	if f.maxMembers == 0 {
		return
	}
	member, further := c.reserve(), c.reserve()
	c.define(member, func(s *sketch) int32 { return c.other(s, 0, l) })
	c.define(further, func(s *sketch) int32 { return s.call(s.comma(0), member) })
	most := f.maxMembers
	if most > 0 {
		most--
	}
	s.link(c.repeat(s, s.call(at, member), 0, most, further), end)
}

// checkCounts refuses numbers of members that the layout does not already keep.
func (c *schemaCompiler) checkCounts(l *layout, f *facts) {
	required := 0
	for _, m := range l.members {
		if m.required {
			required++
		}
	}
	if f.minMembers > required {
		c.unsupported("minProperties", "above the number of required properties")
	}
	if f.maxMembers >= 0 && (l.open || f.maxMembers < len(l.members)) {
		c.unsupported("maxProperties", "below the number of properties")
	}
}

// layout puts together what several schemas say about members. A member must
// satisfy what each says about its name, or about names it does not mention.
// It reports false if a required member cannot be.
func (c *schemaCompiler) layout(f *facts) (l *layout, possible bool) {
	l = &layout{}
	at := map[string]int{}
	name := func(name string) *member {
		if _, known := at[name]; !known {
			at[name] = len(l.members)
			l.members = append(l.members, member{name: name})
		}
		return &l.members[at[name]]
	}
	asked, closed := false, false
	for _, schema := range f.objects {
		for _, property := range c.properties(schema).names {
			name(property)
		}
		for _, property := range c.required(schema) {
			name(property).required = true
		}
		others := schema.get("additionalProperties")
		asked = asked || others != nil && !others.is(false)
		closed = closed || others != nil && others.is(false)
		if others != nil && !others.is(false) {
			l.others = append(l.others, part{schema: others})
		}
	}
	l.open = !closed && (asked || len(l.members) == 0)
	return l, c.fill(l, f)
}

// fill finds the parts of each member, and drops those that cannot be.
func (c *schemaCompiler) fill(l *layout, f *facts) (possible bool) {
	possible = true
	l.members = slices.DeleteFunc(l.members, func(m member) bool {
		return !c.allowed(&m, f) && !m.required
	})
	for i := range l.members {
		m := &l.members[i]
		possible = possible && c.allowed(m, f)
		for _, schema := range f.objects {
			c.meter.step(1)
			if p := c.properties(schema).get(m.name); p != nil {
				m.parts = append(m.parts, part{schema: p})
			} else if others := schema.get("additionalProperties"); others != nil {
				m.parts = append(m.parts, part{schema: others})
			}
		}
	}
	return possible
}

// allowed reports whether no schema forbids the member by its name.
func (c *schemaCompiler) allowed(m *member, f *facts) bool {
	return !slices.ContainsFunc(f.objects, func(schema *value) bool {
		c.meter.step(1)
		others := schema.get("additionalProperties")
		return others != nil && others.is(false) && c.properties(schema).get(m.name) == nil
	})
}

func (c *schemaCompiler) properties(schema *value) *value {
	v := schema.get("properties")
	switch {
	case v == nil:
		return &value{kind: isObject}
	case v.kind != isObject:
		c.meter.refuse("properties must be an object")
	}
	return v
}

func (c *schemaCompiler) required(schema *value) (names []string) {
	v := schema.get("required")
	if v == nil || v.kind == isBoolean { // a flag of the property itself, in old dialects
		return nil
	}
	if v.kind != isArray {
		c.meter.refuse("required must be a list of names")
	}
	for _, name := range v.values {
		if name.kind != isString {
			c.meter.refuse("required must be a list of names")
		}
		names = append(names, name.text)
	}
	return names
}
