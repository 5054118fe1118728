package grammar

import (
	"fmt"
	"maps"
	"parley/engine/automaton"
	"slices"
	"strings"
)

// schema takes a JSON value that a schema allows. One that cannot be held in every
// point is compiled again without those points, unless it is strict.
func (c *compiler) schema(s *automaton.Sketch, from int32, raw []byte, strict bool) int32 {
	root := parseDocument(c.meter, raw)
	if strict {
		return c.document(s, from, root, true, true)
	}
	rules, scalars, start, path := len(c.rules), cloneMap(c.scalars), s.Node(), c.meter.Path
	var to int32
	if c.meter.Trial(func() { to = c.document(s, start, root, false, true) }) {
		s.Link(from, start)
		return to
	}
	c.rules, c.scalars, c.meter.Path = c.rules[:rules], scalars, path
	return c.document(s, from, root, false, false)
}

func cloneMap(m map[string]automaton.RuleID) map[string]automaton.RuleID {
	out := make(map[string]automaton.RuleID, len(m))
	maps.Copy(out, m)
	return out
}

// document compiles a whole schema.
func (c *compiler) document(s *automaton.Sketch, from int32, root *value, strict, exact bool) int32 {
	sc := &schemaCompiler{
		compiler: c,
		strict:   strict,
		exact:    exact,
		root:     root,
		book:     newAddressBook(c.meter, root),
		numbers:  map[any]int{},
		scopes:   map[lineage]*lineage{},
		known:    map[string]automaton.RuleID{},
		logic:    newLogic(),
	}
	path := c.meter.Path
	to := sc.value(s, from, []part{{schema: sc.root}})
	for len(sc.pending) > 0 {
		d := sc.pending[0]
		sc.pending = sc.pending[1:]
		c.meter.Path = d.path
		c.define(d.rule, func(s *automaton.Sketch) int32 { return sc.body(s, 0, d.parts) })
	}
	c.meter.Path = path
	return to
}

// value takes a value that satisfies all parts.
func (c *schemaCompiler) value(s *automaton.Sketch, from int32, parts []part) int32 {
	n := normaliser{c: c, seen: map[part]bool{}}
	for _, p := range parts {
		n.add(p, nil)
	}
	if n.never {
		return s.Node()
	}
	if listed, ok := c.listed(n.parts); ok {
		return s.Literals(from, c.spelled(listed, n.parts))
	}
	if n.referred {
		return s.Call(from, c.definition(n.parts, n.path))
	}
	return c.body(s, from, n.parts)
}

// numberOf returns the number that stands for a pointer.
func (c *schemaCompiler) numberOf(pointer any) int {
	if c.numbers[pointer] == 0 {
		c.numbers[pointer] = len(c.numbers) + 1
	}
	return c.numbers[pointer]
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
	n.c.meter.Step(1 + len(above))
	if p.schema.kind == isBoolean {
		n.never = n.never || p.schema.is(false)
		return
	}
	if p.schema.kind != isObject {
		n.c.meter.Refuse("a schema must be an object, true or false")
	}
	if slices.Contains(above, p.schema) {
		n.c.meter.Refuse(
			"a value may not be defined as itself: a $ref leads back to where it stands with nothing in between")
	}
	if n.seen[p] {
		return
	}
	n.seen[p] = true
	above = append(slices.Clip(above), p.schema)
	inner := n.c.inner(p)
	for _, name := range []string{"$ref", "$dynamicRef", "$recursiveRef"} {
		if ref := p.schema.get(name); ref != nil && p.less&keyRef == 0 {
			n.referred = true
			n.path = strings.Split(strings.TrimLeft(ref.text, "#/"), "/")
			n.add(part{schema: n.c.resolve(p.schema, name), scope: inner}, above)
		}
	}
	if all := p.schema.get("allOf"); all != nil && p.less&keyAllOf == 0 {
		for _, schema := range n.c.list(all, "allOf") {
			n.add(part{schema: schema, scope: inner}, above)
		}
	}
	if p.less&keyDependencies == 0 {
		for _, schema := range n.c.dependencies(p.schema) {
			n.add(part{schema: schema, scope: inner}, above)
		}
	}
	n.referred = n.referred || p.less&keyNot == 0 && n.c.refersBelow(p.schema.get("not"))
	p.less |= keyRef | keyAllOf | keyDependencies
	if slices.ContainsFunc(p.schema.names, func(name string) bool {
		return says[name] && p.less&groupOf[name] == 0
	}) {
		n.parts = append(n.parts, p)
	}
}

// inner returns the scope of the schemas that a part holds a value to as well.
func (c *schemaCompiler) inner(p part) *lineage {
	if p.schema.get("unevaluatedProperties") == nil && p.schema.get("unevaluatedItems") == nil {
		return p.scope
	}
	key := lineage{p.schema, p.scope}
	if c.scopes[key] == nil {
		c.scopes[key] = &key
	}
	return c.scopes[key]
}

// An alternative is what a value may satisfy, all of it.
type alternative struct {
	schemas []*value
	// apart: what the schemas know of members does not count for the part.
	apart bool
}

// body takes a value that satisfies all parts, which are normalised. Where a
// part offers alternatives, it takes each together with all the rest.
func (c *schemaCompiler) body(s *automaton.Sketch, from int32, parts []part) int32 {
	if changed, possible := c.negate(&parts); !possible {
		return s.Node()
	} else if changed {
		return c.value(s, from, parts)
	}
	for i, p := range parts {
		for _, name := range []string{"oneOf", "if", "anyOf", "not", keywordExtra} {
			if p.schema.get(name) == nil || p.less&groupOf[name] != 0 ||
				(name == keywordExtra || name == "not") && c.undecided(parts, name) {
				continue
			}
			rest := slices.Clone(parts)
			rest[i].less |= groupOf[name]
			held := schemasOf(rest)
			held[i] = c.without(p.schema, name)
			ways, needed := c.ways(p.schema, name, rest, held)
			if !needed {
				return c.body(s, from, rest)
			}
			return c.alternatives(s, from, rest, i, ways, name)
		}
	}
	return c.plain(s, from, c.gather(parts))
}

// negate deals with the parts that say what a value must not be: it drops those that say
// nothing beside the rest, and puts what follows in the place of those that leave one way.
func (c *schemaCompiler) negate(parts *[]part) (changed, possible bool) {
	list := slices.Clone(*parts)
	held, found := schemasOf(list), false
	for i, p := range list {
		if p.schema.get("not") != nil && p.less&keyNot == 0 {
			held[i], found = c.without(p.schema, "not"), true
		}
	}
	if !found {
		return false, true
	}
	all := c.outline(held, 0)
	for i, p := range list {
		v := p.schema.get("not")
		if v == nil || p.less&keyNot != 0 {
			continue
		}
		ways, needed := c.negationsBeside(v, all)
		switch {
		case !needed:
			list[i].less |= keyNot
		case len(ways) == 0:
			return false, false
		case len(ways) == 1:
			list[i].less |= keyNot
			list = append(list, part{schema: ways[0]})
			changed = true
		}
	}
	*parts = list
	return changed, true
}

// negationsBeside returns the negations of a schema that do not contradict an outline, and
// whether the outline does not already hold one of them.
func (c *schemaCompiler) negationsBeside(schema *value, held *outline) (ways []*value, needed bool) {
	if !c.exact {
		c.left["not"] = true
		return nil, false
	}
	if c.apart(held, c.outline([]*value{schema}, 0), 0) {
		return nil, false
	}
	for _, way := range c.negations(schema) {
		if !c.apart(held, c.outline([]*value{way}, 0), 0) {
			ways = append(ways, way)
		}
	}
	return ways, true
}

// undecided reports whether a part still offers alternatives that are better taken before
// those of a keyword, because they decide among them.
func (c *schemaCompiler) undecided(parts []part, keyword string) bool {
	return slices.ContainsFunc(parts, func(p part) bool {
		return slices.ContainsFunc(p.schema.names, func(name string) bool {
			return name != keywordExtra && (name != "not" || keyword != "not") && groupOf[name] != 0 &&
				p.less&groupOf[name] == 0
		})
	})
}

// alternatives takes each of ways, which part i offers, together with the rest.
func (c *schemaCompiler) alternatives(s *automaton.Sketch, from int32, rest []part, i int, ways []alternative,
	name string) int32 {
	end := s.Node()
	held := c.outline(schemasOf(rest), 0)
	inner := c.inner(rest[i])
	for k, way := range ways {
		if c.apart(held, c.outline(way.schemas, 0), 0) {
			continue
		}
		parts := slices.Clone(rest)
		for _, schema := range way.schemas {
			p := part{schema: schema, scope: inner}
			if way.apart {
				p.scope = nil
			}
			parts = append(parts, p)
		}
		c.meter.Within(func() { s.Link(c.value(s, from, parts), end) }, name, fmt.Sprint(k))
	}
	return end
}

// ways returns the alternatives that a keyword of a schema offers beside the rest, and
// whether it has anything to say beside them. held is what the rest says without the keyword:
// what follows from the keyword itself must not be taken as given.
func (c *schemaCompiler) ways(schema *value, name string, rest []part,
	held []*value) (ways []alternative, needed bool) {
	v := schema.get(name)
	switch name {
	case "anyOf":
		for _, branch := range c.list(v, name) {
			ways = append(ways, alternative{schemas: []*value{branch}})
		}
	case "oneOf":
		return c.exclusive(c.list(v, name), held), true
	case "not":
		for _, branch := range c.negations(v) {
			ways = append(ways, alternative{schemas: []*value{branch}, apart: true})
		}
	case "if":
		return c.conditional(schema, held)
	case keywordExtra:
		for _, branch := range c.extras(v, rest) {
			ways = append(ways, alternative{schemas: []*value{branch}, apart: true})
		}
	}
	return ways, true
}

// exclusive returns the branches of oneOf, each with the negation of those that it
// could overlap.
func (c *schemaCompiler) exclusive(branches, held []*value) (ways []alternative) {
	for i, branch := range branches {
		way := alternative{schemas: []*value{branch}}
		both := c.outline(append(slices.Clone(held), branch), 0)
		for j, other := range branches {
			if i == j || c.apart(both, c.outline([]*value{other}, 0), 0) {
				continue
			}
			if !c.exact {
				c.left["oneOf"] = true
				break
			}
			way.schemas = append(way.schemas, c.not(other))
		}
		ways = append(ways, way)
	}
	return ways
}

// conditional returns the two ways of if, then and else.
func (c *schemaCompiler) conditional(schema *value, held []*value) (ways []alternative, needed bool) {
	condition, then, otherwise := schema.get("if"), schema.get("then"), schema.get("else")
	if then == nil && otherwise == nil {
		return nil, false
	}
	if !c.exact {
		c.left["if"] = true
		return nil, false
	}
	yes, no := alternative{schemas: []*value{condition}}, alternative{schemas: []*value{c.not(condition)}}
	if then != nil {
		yes.schemas = append(yes.schemas, then)
	}
	if otherwise != nil {
		no.schemas = append(no.schemas, otherwise)
	}
	if c.disjoint(held, []*value{condition}, 0) {
		return []alternative{{schemas: no.schemas[1:]}}, len(no.schemas) > 1
	}
	return []alternative{yes, no}, true
}

// plain takes a value of one of the kinds that the facts allow.
func (c *schemaCompiler) plain(s *automaton.Sketch, from int32, f *facts) int32 {
	if f.free() {
		return s.Call(from, automaton.RuleValue)
	}
	end := s.Node()
	if f.kinds&isNull != 0 && !f.excludes("null") {
		s.Link(s.Literal(from, "null"), end)
	}
	for _, word := range []string{"true", "false"} {
		if f.kinds&isBoolean != 0 && !f.excludes(word) {
			s.Link(s.Literal(from, word), end)
		}
	}
	if f.kinds&isInteger != 0 {
		s.Link(c.number(s, from, f), end)
	}
	if f.kinds&isString != 0 {
		s.Link(c.text(s, from, f), end)
	}
	if f.kinds&isArray != 0 {
		s.Link(c.array(s, from, f), end)
	}
	if f.kinds&isObject != 0 {
		s.Link(c.object(s, from, f), end)
	}
	return end
}

// listed returns the values that parts list, if any of them does.
func (c *schemaCompiler) listed(parts []part) (values []*value, ok bool) {
	for _, p := range parts {
		v := p.schema.get("const")
		if v != nil {
			return []*value{v}, true
		}
		if v = p.schema.get("enum"); v != nil {
			if v.kind != isArray || len(v.values) == 0 {
				c.meter.Refuse("enum must be a list of values")
			}
			if !ok || len(v.values) < len(values) {
				values, ok = v.values, true
			}
		}
	}
	return values, ok
}

// others returns the schemas of parts less the list that values are from.
func (c *schemaCompiler) others(values []*value, parts []part) []*value {
	schemas := schemasOf(parts)
	for i, s := range schemas {
		if v := s.get("enum"); v != nil && len(v.values) == len(values) && v.values[0] == values[0] {
			schemas[i] = c.without(s, "enum")
		}
	}
	return schemas
}

// spelled returns the values that all parts allow, as JSON.
func (c *schemaCompiler) spelled(values []*value, parts []part) (texts []string) {
	for _, v := range c.satisfying(values, parts) {
		texts = append(texts, v.json())
	}
	return texts
}

// satisfying returns the values that all parts allow. What cannot be decided is left
// out, or in if the schema need not be held exactly.
func (c *schemaCompiler) satisfying(values []*value, parts []part) (kept []*value) {
	schemas := c.others(values, parts)
	for _, v := range values {
		c.meter.Step(1)
		if !slices.ContainsFunc(schemas, func(s *value) bool {
			verdict := c.judge(v, s, 0)
			return verdict == no || verdict == unknown && c.exact
		}) {
			kept = append(kept, v)
		}
	}
	return kept
}

func (c *schemaCompiler) number(s *automaton.Sketch, from int32, f *facts) int32 {
	n := f.numbers
	n.Integer = f.kinds&isNumber == 0
	for _, v := range f.excluded {
		if v.kind == isNumber {
			n.Excluded = append(n.Excluded, automaton.Decimal(c.meter, v.text))
		}
	}
	switch {
	case n.Free() && n.Integer:
		return s.Call(from, automaton.RuleInteger)
	case n.Free():
		return s.Call(from, automaton.RuleNumber)
	}
	return s.Call(from, c.scalar(n.Key(), func() automaton.RuleID { return c.rule(n.Machine(c.meter)) }))
}

// definition returns the rule for parts, to which path leads.
func (c *schemaCompiler) definition(parts []part, path []string) automaton.RuleID {
	names := make([]string, 0, len(parts))
	c.meter.Step(4 * len(parts))
	for _, p := range parts {
		names = append(names, fmt.Sprintf("%d:%d:%d", c.numberOf(p.schema), p.less, c.numberOf(p.scope)))
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
