package grammar

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// A schemaCompiler turns one JSON Schema into rules.
//
// A value must satisfy several schemas at once wherever allOf, $ref beside other
// keywords, or the same property in two of them say so. So what is compiled is
// always a list of parts, all of which hold. Every list that a $ref has a share
// in becomes a rule of its own, named by the list: that is what ends recursion.
type schemaCompiler struct {
	*compiler
	root   *value
	strict bool
	// numbers name values in the keys of rules; known are the rules, and
	// pending those that are yet to be written.
	numbers map[*value]int
	known   map[string]ruleID
	pending []definition
}

// A part is a schema, less the keywords that were already dealt with.
type part struct {
	schema *value
	less   keywords
}

// keywords are those that stand for other schemas.
type keywords uint8

const (
	keyRef keywords = 1 << iota
	keyAllOf
	keyAnyOf
	keyOneOf
)

// A definition is a rule that is yet to be written. Its path is that of the
// last $ref that led to it.
type definition struct {
	rule  ruleID
	parts []part
	path  []string
}

// schema takes a JSON value that a schema allows.
func (c *compiler) schema(s *sketch, from int32, raw []byte, strict bool) int32 {
	sc := &schemaCompiler{
		compiler: c,
		strict:   strict,
		root:     parseDocument(c.meter, raw),
		numbers:  map[*value]int{},
		known:    map[string]ruleID{},
	}
	path := c.meter.path
	to := sc.value(s, from, []part{{schema: sc.root}})
	for len(sc.pending) > 0 {
		d := sc.pending[0]
		sc.pending = sc.pending[1:]
		c.meter.path = d.path
		c.define(d.rule, func(s *sketch) int32 { return sc.body(s, 0, d.parts) })
	}
	c.meter.path = path
	return to
}

// value takes a value that satisfies all parts.
func (c *schemaCompiler) value(s *sketch, from int32, parts []part) int32 {
	n := normaliser{c: c, seen: map[part]bool{}}
	for _, p := range parts {
		n.add(p, nil)
	}
	if n.never {
		return s.node()
	}
	if n.referred {
		return s.call(from, c.definition(n.parts, n.path))
	}
	return c.body(s, from, n.parts)
}

// definition returns the rule for parts, to which path leads.
func (c *schemaCompiler) definition(parts []part, path []string) ruleID {
	names := make([]string, 0, len(parts))
	for _, p := range parts {
		if c.numbers[p.schema] == 0 {
			c.numbers[p.schema] = len(c.numbers) + 1
		}
		names = append(names, fmt.Sprintf("%d:%d", c.numbers[p.schema], p.less))
	}
	slices.Sort(names)
	key := strings.Join(names, " ")
	id, ok := c.known[key]
	if !ok {
		id = c.reserve()
		c.known[key] = id
		c.pending = append(c.pending, definition{id, parts, path})
	}
	return id
}

// A normaliser resolves allOf and $ref into one list of parts.
type normaliser struct {
	c     *schemaCompiler
	parts []part
	seen  map[part]bool
	// referred: a $ref was followed. never: nothing satisfies the parts.
	referred, never bool
	path            []string
}

// add adds a part; above are the schemas that led to it by $ref and allOf.
func (n *normaliser) add(p part, above []*value) {
	n.c.meter.step(1 + len(above))
	if p.schema.kind == isBoolean {
		n.never = n.never || p.schema.is(false)
		return
	}
	if p.schema.kind != isObject {
		n.c.meter.refuse("a schema must be an object, true or false")
	}
	if slices.Contains(above, p.schema) {
		n.c.meter.refuse(
			"a value may not be defined as itself: a $ref leads back to where it stands with nothing in between")
	}
	if n.seen[p] {
		return
	}
	n.seen[p] = true
	above = append(slices.Clip(above), p.schema)
	if ref := p.schema.get("$ref"); ref != nil && p.less&keyRef == 0 {
		p.less |= keyRef
		n.referred = true
		n.path = strings.Split(strings.TrimLeft(ref.text, "#/"), "/")
		n.add(part{schema: n.c.resolve(ref)}, above)
	}
	if all := p.schema.get("allOf"); all != nil && p.less&keyAllOf == 0 {
		p.less |= keyAllOf
		for _, schema := range n.c.list(all, "allOf") {
			n.add(part{schema: schema}, above)
		}
	}
	if slices.ContainsFunc(p.schema.names, func(name string) bool {
		return !isSilent(name) && p.less&groupOf[name] == 0
	}) {
		n.parts = append(n.parts, p)
	}
}

// groupOf are the keywords that stand for other schemas, by name.
var groupOf = map[string]keywords{"$ref": keyRef, "allOf": keyAllOf, "anyOf": keyAnyOf, "oneOf": keyOneOf}

func (c *schemaCompiler) resolve(ref *value) *value {
	target, ok := c.root.pointer(ref.text)
	if ref.kind != isString || !ok {
		c.meter.refuse("$ref %q does not name a part of this schema", ref.text)
	}
	return target
}

// list returns the schemas of a keyword that has several.
func (c *schemaCompiler) list(v *value, name string) []*value {
	if v.kind != isArray || len(v.values) == 0 {
		c.meter.refuse("%s must be a list of schemas", name)
	}
	return v.values
}

// body takes a value that satisfies all parts, which are normalised. Where a
// part offers alternatives, it takes each together with all the rest.
func (c *schemaCompiler) body(s *sketch, from int32, parts []part) int32 {
	for i, p := range parts {
		for _, name := range []string{"anyOf", "oneOf"} {
			group := p.schema.get(name)
			if group == nil || p.less&groupOf[name] != 0 {
				continue
			}
			rest := slices.Clone(parts)
			rest[i].less |= groupOf[name]
			return c.alternatives(s, from, rest, c.list(group, name), name)
		}
	}
	return c.plain(s, from, c.gather(parts))
}

func (c *schemaCompiler) alternatives(s *sketch, from int32, rest []part, group []*value, name string) int32 {
	end := s.node()
	for i, schema := range group {
		c.meter.within(func() {
			s.link(c.value(s, from, append(slices.Clone(rest), part{schema: schema})), end)
		}, name, fmt.Sprint(i))
	}
	return end
}

// plain takes a value of one of the kinds that the facts allow.
func (c *schemaCompiler) plain(s *sketch, from int32, f *facts) int32 {
	if f.hasEnum {
		return s.literals(from, c.enumerated(f))
	}
	if f.free() {
		return s.call(from, ruleValue)
	}
	end := s.node()
	if f.kinds&isNull != 0 {
		s.link(s.literal(from, "null"), end)
	}
	if f.kinds&isBoolean != 0 {
		s.link(s.literals(from, []string{"true", "false"}), end)
	}
	if f.kinds&isInteger != 0 {
		s.link(c.number(s, from, f), end)
	}
	if f.kinds&isString != 0 {
		s.link(c.text(s, from, f), end)
	}
	if f.kinds&isArray != 0 {
		s.link(c.array(s, from, f), end)
	}
	if f.kinds&isObject != 0 {
		s.link(c.object(s, from, f), end)
	}
	return end
}

// enumerated returns the listed values that the other facts allow, as JSON.
func (c *schemaCompiler) enumerated(f *facts) (texts []string) {
	if f.kinds&(isArray|isObject) != 0 && (len(f.objects) > 0 || len(f.arrays) > 0) {
		c.unsupported("enum", "beside keywords for objects or arrays")
	}
	var inside *machine
	if f.heldText() {
		inside = c.textMachine(f)
	}
	for _, v := range f.enum {
		c.meter.step(1)
		if c.satisfies(v, f, inside) {
			texts = append(texts, v.json())
		}
	}
	return texts
}

// satisfies reports whether a listed value is one that the facts allow; inside
// is what strings are held to beside their length.
func (c *schemaCompiler) satisfies(v *value, f *facts, inside *machine) bool {
	switch {
	case v.kind == isNumber:
		n := f.numbers
		n.integer = f.kinds&isNumber == 0
		return f.kinds&isInteger != 0 && n.contains(c.meter, v.text)
	case f.kinds&v.kind == 0:
		return false
	case v.kind == isString:
		length := utf8.RuneCountInString(v.text)
		return length >= f.minLength && (f.maxLength < 0 || length <= f.maxLength) && (inside == nil ||
			inside.matches(quote(v.text)))
	}
	return true
}

func (c *schemaCompiler) number(s *sketch, from int32, f *facts) int32 {
	n := f.numbers
	n.integer = f.kinds&isNumber == 0
	switch {
	case n.least == nil && n.most == nil && n.multiples == nil && n.integer:
		return s.call(from, ruleInteger)
	case n.least == nil && n.most == nil && n.multiples == nil:
		return s.call(from, ruleNumber)
	}
	return s.call(from, c.scalar(n.key(), func() ruleID { return c.rule(n.machine(c.meter)) }))
}

// unsupported refuses a keyword in strict mode, and lets it go otherwise.
func (c *schemaCompiler) unsupported(name, why string) {
	if c.strict {
		c.meter.refuse("the keyword %q is not supported %s", name, why)
	}
}
