package grammar

import (
	"slices"
	"strconv"
	"strings"
)

// facts are what several schemas say together about one value.
type facts struct {
	// kinds are the types allowed. Without the keyword type they are those
	// that the other keywords are about.
	kinds, implied kind
	typed          bool
	hasEnum        bool
	enum           []*value

	minLength, maxLength int // a negative maximum means no limit, here and below
	patterns, formats    []string
	numbers              numbers
	minItems, maxItems   int
	minMembers           int
	maxMembers           int
	// objects and arrays are the schemas that say something about members.
	objects, arrays []*value
}

// silent are the keywords that say nothing about which values are allowed.
var silent = map[string]bool{"title": true, "description": true, "default": true, "examples": true, "example": true,
	"deprecated": true,
	"readOnly":   true, "writeOnly": true, "$schema": true, "$id": true, "id": true, "$comment": true, "$defs": true,
	"definitions": true, "$anchor": true,
	"contentEncoding": true, "contentMediaType": true, "discriminator": true, "strict": true}

func isSilent(name string) bool { return silent[name] || strings.HasPrefix(name, "x-") }

// free reports whether the facts allow every value.
func (f *facts) free() bool {
	return f.kinds == isAnything && len(f.objects) == 0 && len(f.arrays) == 0 && f.minItems == 0 && f.maxItems < 0 &&
		f.minMembers == 0 &&
		f.maxMembers < 0 && !f.heldText() && f.numbers.least == nil && f.numbers.most == nil &&
		f.numbers.multiples == nil
}

// heldText reports whether strings are held to anything.
func (f *facts) heldText() bool {
	return f.minLength > 0 || f.maxLength >= 0 || len(f.patterns) > 0 || len(f.formats) > 0
}

// gather reads what parts say together.
func (c *schemaCompiler) gather(parts []part) *facts {
	f := &facts{kinds: isAnything, maxLength: -1, maxItems: -1, maxMembers: -1}
	for _, p := range parts {
		c.refuseStrangers(p)
		c.readKinds(f, p.schema)
		c.readEnum(f, p.schema)
		c.readText(f, p.schema)
		c.readNumber(f, p.schema)
		c.readMembers(f, p.schema)
	}
	if !f.typed && f.implied != 0 {
		f.kinds = f.implied
	}
	return f
}

// keywordsKnown are those that gather reads.
var keywordsKnown = []string{"type", "nullable", "enum", "const", "minLength", "maxLength", "pattern", "format",
	"minimum", "maximum",
	"exclusiveMinimum", "exclusiveMaximum", "multipleOf", "items", "prefixItems", "additionalItems", "minItems",
	"maxItems", "properties",
	"required", "additionalProperties", "minProperties", "maxProperties"}

// refuseStrangers finds keywords that cannot be held. Some say nothing with
// the value that they usually have.
func (c *schemaCompiler) refuseStrangers(p part) {
	for i, name := range p.schema.names {
		v := p.schema.values[i]
		idle := name == "uniqueItems" && v.is(false) ||
			name == "unevaluatedProperties" && p.schema.get("properties") != nil
		if p.less&groupOf[name] == 0 && !isSilent(name) && !idle && !slices.Contains(keywordsKnown, name) {
			c.unsupported(name, "here")
		}
	}
}

func (c *schemaCompiler) readKinds(f *facts, schema *value) {
	v := schema.get("type")
	if v == nil {
		return
	}
	list := []*value{v}
	if v.kind == isArray {
		list = v.values
	}
	var allowed kind
	for _, name := range list {
		k, ok := kinds[name.text]
		if !ok || name.kind != isString {
			c.meter.refuse("there is no type %s", name.json())
		}
		allowed |= k
	}
	if n := schema.get("nullable"); n != nil && n.is(true) {
		allowed |= isNull
	}
	f.kinds &= allowed
	f.typed = true
}

func (c *schemaCompiler) readEnum(f *facts, schema *value) {
	if v := schema.get("const"); v != nil {
		f.restrict(c.meter, []*value{v})
	}
	if v := schema.get("enum"); v != nil {
		if v.kind != isArray || len(v.values) == 0 {
			c.meter.refuse("enum must be a list of values")
		}
		f.restrict(c.meter, v.values)
	}
}

// restrict keeps the listed values that are also among allowed.
func (f *facts) restrict(m *meter, allowed []*value) {
	if !f.hasEnum {
		f.hasEnum, f.enum = true, allowed
		return
	}
	f.enum = slices.DeleteFunc(slices.Clone(f.enum), func(v *value) bool {
		m.step(len(allowed))
		return !slices.ContainsFunc(allowed, v.equal)
	})
}

func (c *schemaCompiler) readText(f *facts, schema *value) {
	c.atLeast(schema, "minLength", &f.minLength, f, isString)
	c.atMost(schema, "maxLength", &f.maxLength, f, isString)
	for name, list := range map[string]*[]string{"pattern": &f.patterns, "format": &f.formats} {
		if v := schema.get(name); v != nil {
			if v.kind != isString {
				c.meter.refuse("%s must be a string", name)
			}
			*list = append(*list, v.text)
			if name == "pattern" || formats[v.text] != "" {
				f.implied |= isString
			}
		}
	}
}

func (c *schemaCompiler) readNumber(f *facts, schema *value) {
	n := &f.numbers
	read := func(name string, exclusive bool, use func(d *bound)) {
		v := schema.get(name)
		if v == nil || v.kind == isBoolean { // the boolean of older drafts, read with its number
			return
		}
		if v.kind != isNumber {
			c.meter.refuse("%s must be a number", name)
		}
		d := decimal(c.meter, v.text)
		flag := schema.get(map[string]string{"minimum": "exclusiveMinimum", "maximum": "exclusiveMaximum"}[name])
		d.exclusive = exclusive || flag != nil && flag.is(true)
		f.implied |= kinds["number"]
		use(d)
	}
	raise := func(d *bound) { n.least = tighter(n.least, d, 1) }
	lower := func(d *bound) { n.most = tighter(n.most, d, -1) }
	read("minimum", false, raise)
	read("exclusiveMinimum", true, raise)
	read("maximum", false, lower)
	read("exclusiveMaximum", true, lower)
	read("multipleOf", false, func(d *bound) {
		if d.negative || d.zero() {
			c.meter.refuse("multipleOf must be above 0")
		}
		n.multiples = append(n.multiples, d)
	})
}

// tighter returns the bound that allows less: the greater for a direction of 1.
func tighter(a, b *bound, direction int) *bound {
	if a == nil {
		return b
	}
	if cmp := b.rat().Cmp(a.rat()) * direction; cmp > 0 || cmp == 0 && b.exclusive {
		return b
	}
	return a
}

func (c *schemaCompiler) readMembers(f *facts, schema *value) {
	c.atLeast(schema, "minItems", &f.minItems, f, isArray)
	c.atMost(schema, "maxItems", &f.maxItems, f, isArray)
	c.atLeast(schema, "minProperties", &f.minMembers, f, isObject)
	c.atMost(schema, "maxProperties", &f.maxMembers, f, isObject)
	has := func(names ...string) bool {
		return slices.ContainsFunc(names, func(name string) bool { return schema.get(name) != nil })
	}
	if has("properties", "required", "additionalProperties") {
		f.objects = append(f.objects, schema)
		f.implied |= isObject
	}
	if has("items", "prefixItems", "additionalItems") {
		f.arrays = append(f.arrays, schema)
		f.implied |= isArray
	}
}

func (c *schemaCompiler) atLeast(schema *value, name string, least *int, f *facts, about kind) {
	if n, ok := c.count(schema, name); ok {
		*least = max(*least, n)
		f.implied |= about
	}
}

func (c *schemaCompiler) atMost(schema *value, name string, most *int, f *facts, about kind) {
	if n, ok := c.count(schema, name); ok {
		if *most < 0 || n < *most {
			*most = n
		}
		f.implied |= about
	}
}

// count reads a number of things.
func (c *schemaCompiler) count(schema *value, name string) (int, bool) {
	v := schema.get(name)
	if v == nil {
		return 0, false
	}
	n, err := strconv.Atoi(strings.TrimSuffix(v.text, ".0"))
	if v.kind != isNumber || err != nil || n < 0 || n > countMax {
		c.meter.refuse("%s must be an integer from 0 to %d", name, countMax)
	}
	return n, true
}
