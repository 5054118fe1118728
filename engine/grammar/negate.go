package grammar

import (
	"parley/engine/automaton"
	"slices"
)

// not returns the schema of what a schema does not allow.
func (c *schemaCompiler) not(schema *value) *value {
	if c.nots[schema] == nil {
		c.nots[schema] = objectValue("not", schema)
	}
	return c.nots[schema]
}

// without returns a schema less a keyword.
func (c *schemaCompiler) without(schema *value, keyword string) *value {
	key := lacking{schema, keyword}
	if c.lacking[key] == nil {
		c.meter.Step(len(schema.names))
		less := &value{kind: isObject, index: map[string]int{}}
		for i, name := range schema.names {
			if name != keyword {
				less.with(name, schema.values[i])
			}
		}
		if home, known := c.book.homes[schema]; known {
			c.book.homes[less] = home
		}
		c.lacking[key] = less
	}
	return c.lacking[key]
}

// refersBelow reports whether a schema holds a $ref.
func (c *schemaCompiler) refersBelow(schema *value) bool {
	if schema == nil {
		return false
	}
	found, known := c.refers[schema]
	if !known {
		c.meter.Step(1)
		found = schema.get("$ref") != nil || schema.get("$dynamicRef") != nil || schema.get("$recursiveRef") != nil ||
			slices.ContainsFunc(schema.values, c.refersBelow)
		c.refers[schema] = found
	}
	return found
}

// present is the schema of objects with a member that a schema allows.
func (c *schemaCompiler) present(name string, member *value) *value {
	return objectValue("properties", objectValue(name, member)).with("required", listValue(textValue(name)))
}

// negations returns schemas of which a value that the schema does not allow satisfies one.
// They allow less than that where it cannot be said, never more.
func (c *schemaCompiler) negations(schema *value) []*value {
	if schema.kind == isBoolean {
		if schema.is(false) {
			return []*value{anythingAllowed}
		}
		return nil
	}
	all, known := c.negated[schema]
	if !known {
		for i, name := range schema.names {
			c.meter.Step(1)
			for _, n := range c.negation(schema, name, schema.values[i]) {
				all = append(all, c.about(name, n))
			}
		}
		c.negated[schema] = all
	}
	return all
}

// about restricts the negation of a keyword to the kind of values that it is about.
func (c *schemaCompiler) about(name string, negation *value) *value {
	if k := kindsOf[name]; k != "" && negation.kind == isObject && negation.get(keywordKinds) == nil {
		return negation.with(keywordKinds, listValue(textValue(k)))
	}
	return negation
}

// kindsOf are the kinds of values that keywords are about.
var kindsOf = map[string]string{
	"minimum": "number", "maximum": "number", "exclusiveMinimum": "number", "exclusiveMaximum": "number",
	"multipleOf": "number", "minLength": "string", "maxLength": "string", "pattern": "string", "format": "string",
	"minItems": "array", "maxItems": "array", "items": "array", "prefixItems": "array", "contains": "array",
	"minProperties": "object", "maxProperties": "object", "required": "object", "properties": "object",
	"additionalProperties": "object", "dependencies": "object", "dependentRequired": "object",
	"dependentSchemas": "object",
}

// negation returns schemas of values that break one keyword of a schema.
func (c *schemaCompiler) negation(schema *value, name string, v *value) (all []*value) {
	switch name {
	case "type":
		return c.negatedTypes(schema)
	case "const":
		return []*value{objectValue(keywordExcluded, listValue(v))}
	case "enum":
		return []*value{objectValue(keywordExcluded, v)}
	case "$ref":
		return []*value{c.not(c.resolve(schema, name))}
	case "not":
		return []*value{v}
	case "allOf":
		for _, s := range c.list(v, name) {
			all = append(all, c.not(s))
		}
	case "anyOf":
		return []*value{c.noneOf(c.list(v, name))}
	case "oneOf":
		all = []*value{c.noneOf(c.list(v, name))}
		if len(v.values) == 2 {
			all = append(all, objectValue("allOf", v))
		}
	case "if":
		if then := schema.get("then"); then != nil {
			all = append(all, objectValue("allOf", listValue(v, c.not(then))))
		}
		if otherwise := schema.get("else"); otherwise != nil {
			all = append(all, objectValue("allOf", listValue(c.not(v), c.not(otherwise))))
		}
	case "dependencies", "dependentRequired", "dependentSchemas":
		for _, s := range c.dependencies(objectValue(name, v)) {
			all = append(all, c.not(s))
		}
	default:
		if all = c.negatedBound(schema, name, v); all == nil {
			all = c.negatedMembers(schema, name, v)
		}
	}
	return all
}

// noneOf is the schema of what none of the schemas allows.
func (c *schemaCompiler) noneOf(schemas []*value) *value {
	var nots []*value
	for _, s := range schemas {
		nots = append(nots, c.not(s))
	}
	return objectValue("allOf", listValue(nots...))
}

func (c *schemaCompiler) negatedTypes(schema *value) (all []*value) {
	allowed := c.kindsIn(schema)
	var others []*value
	for _, name := range []string{"object", "array", "string", "number", "boolean", "null"} {
		if kinds[name]&allowed == 0 {
			others = append(others, textValue(name))
		}
	}
	if len(others) > 0 {
		all = append(all, objectValue(keywordKinds, listValue(others...)))
	}
	if allowed&isInteger != 0 && allowed&isNumber == 0 {
		all = append(all, objectValue(keywordFraction, anythingAllowed).with(keywordKinds,
			listValue(textValue("number"))))
	}
	return all
}

// negatedBound breaks a keyword with a number or a pattern.
func (c *schemaCompiler) negatedBound(schema *value, name string, v *value) []*value {
	opposite := func(name string, exclusive string) []*value {
		if flag := schema.get(exclusive); flag != nil && flag.is(true) {
			exclusive = map[string]string{"exclusiveMinimum": "maximum", "exclusiveMaximum": "minimum"}[exclusive]
			return []*value{objectValue(exclusive, v)}
		}
		return []*value{objectValue(name, v)}
	}
	counted := func(opposite string, by int) []*value {
		n, ok := c.count(schema, name)
		if !ok || n+by < 0 {
			return nil
		}
		return []*value{objectValue(opposite, numberValue(n+by))}
	}
	switch {
	case v.kind == isBoolean:
		return nil
	case name == "minimum":
		return opposite("exclusiveMaximum", "exclusiveMinimum")
	case name == "maximum":
		return opposite("exclusiveMinimum", "exclusiveMaximum")
	case name == "exclusiveMinimum":
		return []*value{objectValue("maximum", v)}
	case name == "exclusiveMaximum":
		return []*value{objectValue("minimum", v)}
	case name == "multipleOf":
		return []*value{objectValue(keywordNotMultiple, v)}
	case name == "pattern":
		return []*value{objectValue(keywordNotPattern, v)}
	case name == "format" && automaton.OuterFormats[v.text] != "":
		return []*value{objectValue(keywordNotPattern, textValue(automaton.OuterFormats[v.text]))}
	case name == "minLength" || name == "minItems" || name == "minProperties":
		return counted("max"+name[3:], -1)
	case name == "maxLength" || name == "maxItems" || name == "maxProperties":
		return counted("min"+name[3:], 1)
	}
	return nil
}

// negatedMembers breaks a keyword that is about members.
func (c *schemaCompiler) negatedMembers(schema *value, name string, v *value) (all []*value) {
	at := func(i int, element *value) *value {
		prefix := slices.Repeat([]*value{anythingAllowed}, i)
		return objectValue("prefixItems", listValue(append(prefix, element)...)).with("minItems", numberValue(i+1))
	}
	switch {
	case name == "required" && v.kind == isArray:
		for _, name := range c.required(schema) {
			all = append(all, c.absent(name))
		}
	case name == "properties":
		for i, name := range c.properties(schema).names {
			all = append(all, c.present(name, c.not(v.values[i])))
		}
	case name == "additionalProperties" && !v.is(true):
		return []*value{objectValue(keywordExtra, schema)}
	case name == "items" && v.kind != isArray:
		skipped := 0
		if prefix := schema.get("prefixItems"); prefix != nil {
			skipped = len(prefix.values)
		}
		return []*value{at(skipped, c.not(v))}
	case name == "prefixItems" || name == "items":
		for i, element := range v.values {
			all = append(all, at(i, c.not(element)))
		}
	case name == "contains" && schema.get("minContains") == nil && schema.get("maxContains") == nil:
		return []*value{objectValue("items", c.not(v))}
	}
	return all
}

// extras returns, for each member that parts name and a closed schema does not know, the
// schema of objects that have it.
func (c *schemaCompiler) extras(closed *value, rest []part) (all []*value) {
	seen := map[string]bool{}
	for _, p := range rest {
		for _, name := range append(slices.Clone(c.properties(p.schema).names), c.required(p.schema)...) {
			if c.meter.Step(1); !seen[name] && !c.knows(closed, name) {
				seen[name] = true
				all = append(all, c.present(name, c.not(closed.get("additionalProperties"))))
			}
		}
	}
	return all
}

// knows reports whether a schema names a property, or could by a pattern.
func (c *schemaCompiler) knows(schema *value, name string) bool {
	if c.properties(schema).get(name) != nil {
		return true
	}
	patterns := schema.get("patternProperties")
	return patterns != nil && slices.ContainsFunc(patterns.names, func(p string) bool { return c.finds(p, name) != no })
}
