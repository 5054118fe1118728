package grammar

import (
	"parley/engine/automaton"
	"slices"
	"unicode/utf8"
)

// dependencies returns what the keywords that are about members which depend on others
// say, as schemas.
func (c *schemaCompiler) dependencies(schema *value) []*value {
	if all, known := c.dependent[schema]; known {
		return all
	}
	var all []*value
	for _, keyword := range []string{"dependencies", "dependentRequired", "dependentSchemas"} {
		v := schema.get(keyword)
		if v == nil || v.kind != isObject {
			continue
		}
		if !c.exact {
			c.left[keyword] = true
			continue
		}
		for i, name := range v.names {
			has := objectValue("required", listValue(textValue(name)))
			switch needs := v.values[i]; needs.kind {
			case isString:
				has = objectValue("required", listValue(textValue(name), needs))
			case isArray:
				has = objectValue("required", listValue(append([]*value{textValue(name)}, needs.values...)...))
			default:
				has.with("allOf", listValue(needs))
			}
			all = append(all, objectValue("anyOf", listValue(c.absent(name), has)))
		}
	}
	c.dependent[schema] = all
	return all
}

// absent is the schema of objects without a member.
func (c *schemaCompiler) absent(name string) *value {
	return objectValue("properties", objectValue(name, nothingAllowed))
}

// A ternary is an answer to a question that may be too hard.
type ternary int8

const (
	no ternary = iota - 1
	unknown
	yes
)

func answerOf(b bool) ternary {
	if b {
		return yes
	}
	return no
}

// finds reports whether a pattern is found in a text.
func (c *schemaCompiler) finds(expression, text string) ternary {
	m, known := c.patterns[expression]
	if !known {
		err := c.meter.Attempt(func() { m = automaton.Pattern(c.meter, expression, automaton.PlainText) })
		if err != nil {
			m = nil
		}
		c.patterns[expression] = m
	}
	c.meter.Step(1 + len(text)/8)
	if m == nil {
		return unknown
	}
	return answerOf(m.Matches(text))
}

// judgeDepthMax bounds how many schemas are asked within each other about one value.
const judgeDepthMax = 40

// judge says whether a schema allows a value.
func (c *schemaCompiler) judge(v, schema *value, depth int) ternary {
	c.meter.Step(1)
	switch {
	case schema.kind == isBoolean:
		return answerOf(schema.is(true))
	case schema.kind != isObject || depth > judgeDepthMax:
		return unknown
	}
	out := c.judgeScalar(v, schema)
	for i, name := range schema.names {
		if out == no {
			return no
		}
		out = min(out, c.judgeKeyword(v, schema, name, schema.values[i], depth+1))
	}
	return out
}

// judgeScalar says what the keywords about types, numbers and strings say.
func (c *schemaCompiler) judgeScalar(v, schema *value) ternary {
	if schema.get("type") != nil && c.kindsIn(schema)&v.kindOf() == 0 {
		return no
	}
	f := &facts{maxLength: -1}
	switch v.kind {
	case isNumber:
		c.readNumber(f, schema)
		return answerOf(f.numbers.Contains(c.meter, v.text))
	case isString:
		c.readText(f, schema)
		length := utf8.RuneCountInString(v.text)
		out := answerOf(length >= f.minLength && (f.maxLength < 0 || length <= f.maxLength))
		for _, expression := range f.patterns {
			out = min(out, c.finds(expression, v.text))
		}
		for _, expression := range f.notPatterns {
			out = min(out, -c.finds(expression, v.text))
		}
		for _, name := range f.formats {
			out = min(out, c.isOfFormat(name, v.text))
		}
		return out
	}
	return yes
}

// kindOf is the kind of a value, with integers told from other numbers.
func (v *value) kindOf() kind {
	if v.kind != isNumber {
		return v.kind
	}
	if automaton.Decimal(&automaton.Meter{}, v.text).Fraction == "" {
		return isInteger
	}
	return isNumber
}

func (c *schemaCompiler) isOfFormat(name, text string) ternary {
	switch {
	case automaton.Formats[name] == "" || c.finds(automaton.Formats[name], text) == yes:
		return yes
	case automaton.OuterFormats[name] != "":
		return min(unknown, c.finds(automaton.OuterFormats[name], text))
	}
	return unknown
}

// judgeKeyword says what a keyword that refers to values or schemas says.
func (c *schemaCompiler) judgeKeyword(v, schema *value, name string, says *value, depth int) ternary {
	all := func(schemas []*value) ternary {
		out := yes
		for _, s := range schemas {
			out = min(out, c.judge(v, s, depth))
		}
		return out
	}
	switch name {
	case "enum", keywordExcluded:
		c.meter.Step(len(says.values) / 4)
		listed := answerOf(slices.ContainsFunc(says.values, v.equal))
		if name == keywordExcluded {
			return -listed
		}
		return listed
	case "const":
		return answerOf(v.equal(says))
	case "$ref":
		return c.judge(v, c.resolve(schema, name), depth)
	case "$dynamicRef", "$recursiveRef", "unevaluatedItems", "unevaluatedProperties":
		return unknown
	case "allOf":
		return all(c.list(says, name))
	case "anyOf", "oneOf":
		return c.judgeBranches(v, c.list(says, name), name == "oneOf", depth)
	case "not":
		return -c.judge(v, says, depth)
	case "if":
		return c.judgeCondition(v, schema, depth)
	case keywordFraction:
		return answerOf(v.kind != isNumber || v.kindOf() == isNumber)
	case keywordKinds:
		return answerOf(c.kindsIn(objectValue("type", says))&v.kindOf() != 0)
	case "dependencies", "dependentRequired", "dependentSchemas":
		if v.kind == isObject {
			return all(c.dependencies(objectValue(name, says)))
		}
	}
	switch v.kind {
	case isArray:
		return c.judgeArray(v, schema, name, says, depth)
	case isObject:
		return c.judgeObject(v, schema, name, says, depth)
	}
	return yes
}

func (c *schemaCompiler) judgeBranches(v *value, branches []*value, exclusive bool, depth int) ternary {
	sure, possible := 0, 0
	for _, s := range branches {
		switch c.judge(v, s, depth) {
		case yes:
			sure++
		case unknown:
			possible++
		}
	}
	switch {
	case sure+possible == 0 || exclusive && sure > 1:
		return no
	case sure == 0 || exclusive && possible > 0:
		return unknown
	}
	return yes
}

func (c *schemaCompiler) judgeCondition(v, schema *value, depth int) ternary {
	holds := c.judge(v, schema.get("if"), depth)
	out := yes
	if then := schema.get("then"); then != nil && holds != no {
		out = min(out, max(c.judge(v, then, depth), -holds))
	}
	if otherwise := schema.get("else"); otherwise != nil && holds != yes {
		out = min(out, max(c.judge(v, otherwise, depth), holds))
	}
	return out
}

func (c *schemaCompiler) judgeArray(v, schema *value, name string, says *value, depth int) ternary {
	out := yes
	switch name {
	case "minItems", "maxItems":
		n, _ := c.count(schema, name)
		return answerOf(name == "minItems" && len(v.values) >= n || name == "maxItems" && len(v.values) <= n)
	case "uniqueItems":
		return answerOf(says.is(false) || !slices.ContainsFunc(v.values, func(a *value) bool {
			c.meter.Step(len(v.values))
			return slices.IndexFunc(v.values, a.equal) != slices.Index(v.values, a)
		}))
	case "items", "prefixItems", "additionalItems":
		e := c.elementsOf(schema)
		for i, element := range v.values {
			if s := e.at(i); s != nil {
				out = min(out, c.judge(element, s, depth))
			}
		}
	case "contains":
		return unknown
	}
	return out
}

func (c *schemaCompiler) judgeObject(v, schema *value, name string, says *value, depth int) ternary {
	out := yes
	switch name {
	case "minProperties", "maxProperties":
		n, _ := c.count(schema, name)
		return answerOf(name == "minProperties" && len(v.values) >= n || name == "maxProperties" && len(v.values) <= n)
	case "required":
		return answerOf(!slices.ContainsFunc(c.required(schema), func(n string) bool { return v.get(n) == nil }))
	case "properties", "patternProperties", "additionalProperties":
		for i, member := range v.names {
			list, sure := c.memberSchemas(schema, member)
			if !sure {
				out = unknown
			}
			for _, s := range list {
				out = min(out, c.judge(v.values[i], s, depth))
			}
		}
	case "propertyNames":
		for _, member := range v.names {
			out = min(out, c.judge(textValue(member), says, depth))
		}
	case keywordExtra:
		return unknown
	}
	return out
}

// memberSchemas returns what a schema says about the member of a name, and whether that
// is sure.
func (c *schemaCompiler) memberSchemas(schema *value, name string) (list []*value, sure bool) {
	sure = true
	if p := c.properties(schema).get(name); p != nil {
		list = append(list, p)
	}
	patterns := schema.get("patternProperties")
	for i := range namesOf(patterns) {
		switch c.finds(patterns.names[i], name) {
		case yes:
			list = append(list, patterns.values[i])
		case unknown:
			sure = false
		}
	}
	if others := schema.get("additionalProperties"); len(list) == 0 && sure && others != nil {
		list = append(list, others)
	}
	return list, sure
}

// disjointDepthMax bounds how deep two schemas are compared.
const disjointDepthMax = 6

// disjoint reports whether certainly no value satisfies both all of a and all of b.
func (c *schemaCompiler) disjoint(a, b []*value, depth int) bool {
	if depth > disjointDepthMax {
		return false
	}
	return c.apart(c.outline(a, depth), c.outline(b, depth), depth)
}

// apart reports whether certainly no value satisfies two outlines.
func (c *schemaCompiler) apart(x, y *outline, depth int) bool {
	c.meter.Step(1 + len(y.schemas))
	both := x.kinds & y.kinds
	switch {
	case both == 0 || c.noneFits(x, y) || c.noneFits(y, x) || c.branchesDisjoint(x, y, depth) ||
		c.branchesDisjoint(y, x, depth):
		return true
	case both&^(isInteger|isNumber) == 0:
		n := automaton.Numbers{}
		for _, s := range append(slices.Clone(x.schemas), y.schemas...) {
			f := &facts{maxLength: -1}
			c.readNumber(f, s)
			n.Narrow(&f.numbers)
		}
		return n.Empty()
	case both == isObject:
		return c.membersDisjoint(x, y, depth)
	case both == isArray:
		return c.elementsDisjoint(x, y, depth)
	case both == isString:
		f := &facts{maxLength: -1}
		for _, s := range append(slices.Clone(x.schemas), y.schemas...) {
			c.readText(f, s)
		}
		return f.maxLength >= 0 && f.minLength > f.maxLength
	}
	return false
}

// An outline is what several schemas plainly say together.
type outline struct {
	kinds    kind
	schemas  []*value
	required []string
}

// outline follows $ref and allOf.
func (c *schemaCompiler) outline(schemas []*value, depth int) *outline {
	o := &outline{kinds: isAnything}
	for _, s := range schemas {
		c.outlineOne(o, s, depth)
	}
	return o
}

func (c *schemaCompiler) outlineOne(o *outline, s *value, depth int) {
	c.meter.Step(1)
	if s.is(false) {
		o.kinds = 0
	}
	if s.kind != isObject || depth > disjointDepthMax || slices.Contains(o.schemas, s) {
		return
	}
	o.schemas = append(o.schemas, s)
	if s.get("type") != nil {
		o.kinds &= c.kindsIn(s)
	}
	if v := s.get(keywordKinds); v != nil {
		o.kinds &= c.kindsIn(objectValue("type", v))
	}
	o.required = append(o.required, c.required(s)...)
	if s.get("$ref") != nil {
		c.outlineOne(o, c.resolve(s, "$ref"), depth+1)
	}
	if all := s.get("allOf"); all != nil {
		for _, branch := range c.list(all, "allOf") {
			c.outlineOne(o, branch, depth+1)
		}
	}
}

// fitsMax bounds how many listed values are tried.
const fitsMax = 64

// noneFits reports whether a lists values none of which b allows.
func (c *schemaCompiler) noneFits(a, b *outline) bool {
	for _, s := range a.schemas {
		var values []*value
		if v := s.get("const"); v != nil {
			values = []*value{v}
		} else if v := s.get("enum"); v != nil {
			values = v.values
		}
		if len(values) > 0 && len(values) <= fitsMax && !slices.ContainsFunc(values, func(v *value) bool {
			return !slices.ContainsFunc(b.schemas, func(s *value) bool { return c.judge(v, s, 0) == no })
		}) {
			return true
		}
	}
	return false
}

// branchesMax bounds how many branches are compared.
const branchesMax = 16

// branchesDisjoint reports whether a has alternatives each of which is disjoint from b.
func (c *schemaCompiler) branchesDisjoint(a, b *outline, depth int) bool {
	if depth+2 > disjointDepthMax {
		return false
	}
	for _, s := range a.schemas {
		for _, name := range []string{"anyOf", "oneOf"} {
			group := s.get(name)
			if group == nil || len(group.values) > branchesMax {
				continue
			}
			if !slices.ContainsFunc(c.list(group, name), func(branch *value) bool {
				return !c.apart(c.outline([]*value{branch}, depth+2), b, depth+2)
			}) {
				return true
			}
		}
	}
	return false
}

// membersDisjoint reports whether a member that must be there cannot be.
func (c *schemaCompiler) membersDisjoint(x, y *outline, depth int) bool {
	for _, name := range append(slices.Clone(x.required), y.required...) {
		a, b := c.memberOutline(x, name), c.memberOutline(y, name)
		if c.disjoint(a, b, depth+1) {
			return true
		}
	}
	return false
}

func (c *schemaCompiler) memberOutline(o *outline, name string) (all []*value) {
	for _, s := range o.schemas {
		list, _ := c.memberSchemas(s, name)
		all = append(all, list...)
	}
	return all
}

// elementsDisjoint reports whether there cannot be as many elements, or not the first.
func (c *schemaCompiler) elementsDisjoint(x, y *outline, depth int) bool {
	f := &facts{maxItems: -1, maxMembers: -1, maxLength: -1}
	var a, b []*value
	for i, s := range append(slices.Clone(x.schemas), y.schemas...) {
		c.readMembers(f, part{schema: s})
		e := c.elementsOf(s)
		if first := e.at(0); first == nil {
			continue
		} else if i < len(x.schemas) {
			a = append(a, first)
		} else {
			b = append(b, first)
		}
	}
	return f.maxItems >= 0 && f.minItems > f.maxItems || f.minItems > 0 && c.disjoint(a, b, depth+1)
}
