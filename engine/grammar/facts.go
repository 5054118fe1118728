package grammar

import (
	"parley/engine/automaton"
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
	// excluded are values that are not allowed.
	excluded []*value

	minLength, maxLength           int // a negative maximum means no limit, here and below
	patterns, notPatterns, formats []string
	numbers                        automaton.Numbers
	minItems, maxItems             int
	unique                         bool
	minMembers                     int
	maxMembers                     int
	// objects and arrays are the parts that say something about members.
	objects, arrays []part
}

// says are the keywords that say something about which values are allowed. All others are
// annotations, whatever they are called.
var says = func() map[string]bool {
	all := map[string]bool{}
	for _, name := range []string{"type", "enum", "const", "minLength", "maxLength", "pattern", "format", "minimum",
		"maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "items", "prefixItems", "additionalItems",
		"minItems", "maxItems", "uniqueItems", "contains", "unevaluatedItems", "properties", "required",
		"additionalProperties", "patternProperties", "propertyNames", "minProperties", "maxProperties",
		"unevaluatedProperties", keywordKinds, keywordExcluded, keywordNotPattern, keywordNotMultiple,
		keywordFraction} {
		all[name] = true
	}
	for name := range groupOf {
		all[name] = true
	}
	return all
}()

// free reports whether the facts allow every value.
func (f *facts) free() bool {
	return f.kinds == isAnything && len(f.excluded) == 0 && len(f.objects) == 0 && len(f.arrays) == 0 &&
		f.minItems == 0 && f.maxItems < 0 && !f.unique && f.minMembers == 0 && f.maxMembers < 0 && !f.heldText() &&
		f.numbers.Free()
}

// heldText reports whether strings are held to anything.
func (f *facts) heldText() bool {
	return f.minLength > 0 || f.maxLength >= 0 || len(f.patterns) > 0 || len(f.notPatterns) > 0 ||
		len(f.formats) > 0 || slices.ContainsFunc(f.excluded, func(v *value) bool { return v.kind == isString })
}

// excludes reports whether a word of JSON is not allowed.
func (f *facts) excludes(word string) bool {
	return slices.ContainsFunc(f.excluded, func(v *value) bool { return v.kind != isString && v.text == word })
}

// gather reads what parts say together.
func (c *schemaCompiler) gather(parts []part) *facts {
	f := &facts{kinds: isAnything, maxLength: -1, maxItems: -1, maxMembers: -1}
	for _, p := range parts {
		c.readKinds(f, p.schema)
		c.readText(f, p.schema)
		c.readNumber(f, p.schema)
		c.readMembers(f, p)
		if v := p.schema.get(keywordExcluded); v != nil {
			f.excluded = append(f.excluded, v.values...)
		}
	}
	if !f.typed && f.implied != 0 {
		f.kinds &= f.implied
	}
	f.excludeMembers()
	return f
}

// excludeMembers allows for excluded arrays and objects: the empty ones are held by a
// count, and where another is excluded, so is its kind.
func (f *facts) excludeMembers() {
	for _, v := range f.excluded {
		switch {
		case v.kind == isArray && len(v.values) == 0:
			f.minItems = max(f.minItems, 1)
		case v.kind == isObject && len(v.values) == 0:
			f.minMembers = max(f.minMembers, 1)
		case v.kind == isArray || v.kind == isObject:
			f.kinds &^= v.kind
		}
	}
}

func (c *schemaCompiler) readKinds(f *facts, schema *value) {
	if schema.get("type") != nil {
		f.kinds &= c.kindsIn(schema)
		f.typed = true
	}
	if v := schema.get(keywordKinds); v != nil {
		f.kinds &= c.kindsIn(objectValue("type", v))
	}
}

// kindsIn returns the types that a schema allows by name. By the letter of JSON Schema
// nullable says nothing.
func (c *schemaCompiler) kindsIn(schema *value) (allowed kind) {
	v := schema.get("type")
	list := []*value{v}
	if v.kind == isArray {
		list = v.values
	}
	for _, name := range list {
		k, ok := kinds[name.text]
		if name.text == "any" && name.kind == isString {
			k, ok = isAnything, true
		}
		if !ok || name.kind != isString {
			c.meter.Refuse("unknown type %s", name.json())
		}
		allowed |= k
	}
	if n := schema.get("nullable"); n != nil && n.is(true) && !c.strict {
		allowed |= isNull
	}
	return allowed
}

func (c *schemaCompiler) readText(f *facts, schema *value) {
	c.atLeast(schema, "minLength", &f.minLength, f, isString)
	c.atMost(schema, "maxLength", &f.maxLength, f, isString)
	for name, list := range map[string]*[]string{"pattern": &f.patterns, "format": &f.formats,
		keywordNotPattern: &f.notPatterns} {
		v := schema.get(name)
		switch {
		case v == nil || name == "format" && automaton.Formats[v.text] == "": // as by the standard, of no consequence
			continue
		case v.kind != isString:
			c.meter.Refuse("%s must be a string", name)
		case name != keywordNotPattern:
			f.implied |= isString
		}
		*list = append(*list, v.text)
	}
}

func (c *schemaCompiler) readNumber(f *facts, schema *value) {
	n := &f.numbers
	read := func(name string, exclusive bool, use func(d *automaton.Bound)) {
		v := schema.get(name)
		if v == nil || v.kind == isBoolean { // the boolean of older drafts, read with its number
			return
		}
		if v.kind != isNumber {
			c.meter.Refuse("%s must be a number", name)
		}
		d := automaton.Decimal(c.meter, v.text)
		flag := schema.get(map[string]string{"minimum": "exclusiveMinimum", "maximum": "exclusiveMaximum"}[name])
		d.Exclusive = exclusive || flag != nil && flag.is(true)
		f.implied |= kinds["number"]
		use(d)
	}
	raise := func(d *automaton.Bound) { n.Least = automaton.Tighter(n.Least, d, 1) }
	lower := func(d *automaton.Bound) { n.Most = automaton.Tighter(n.Most, d, -1) }
	read("minimum", false, raise)
	read("exclusiveMinimum", true, raise)
	read("maximum", false, lower)
	read("exclusiveMaximum", true, lower)
	n.Fraction = n.Fraction || schema.get(keywordFraction) != nil
	for name, list := range map[string]*[]*automaton.Bound{
		"multipleOf":       &n.Multiples,
		keywordNotMultiple: &n.NotMultiples,
	} {
		read(name, false, func(d *automaton.Bound) {
			if d.Negative || d.Zero() {
				c.meter.Refuse("multipleOf must be above 0")
			}
			*list = append(*list, d)
		})
	}
}

func (c *schemaCompiler) readMembers(f *facts, p part) {
	schema := p.schema
	c.atLeast(schema, "minItems", &f.minItems, f, isArray)
	c.atMost(schema, "maxItems", &f.maxItems, f, isArray)
	c.atLeast(schema, "minProperties", &f.minMembers, f, isObject)
	c.atMost(schema, "maxProperties", &f.maxMembers, f, isObject)
	has := func(names ...string) bool {
		return slices.ContainsFunc(names, func(name string) bool { return schema.get(name) != nil })
	}
	if has("properties", "required", "additionalProperties", "patternProperties", "propertyNames",
		"unevaluatedProperties") {
		f.objects = append(f.objects, p)
		f.implied |= isObject
	}
	if has("items", "prefixItems", "additionalItems", "contains", "unevaluatedItems") {
		f.arrays = append(f.arrays, p)
		f.implied |= isArray
	}
	if v := schema.get("uniqueItems"); v != nil && v.is(true) {
		f.unique = true
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
		c.meter.Refuse("%s must be an integer from 0 to %d", name, countMax)
	}
	return n, true
}

// Keywords of schemas that the compiler writes itself. No document has them: they are not
// valid UTF-8.
const (
	// keywordKinds is a list of types to which no schema with a type need agree.
	keywordKinds = "\xfftype"
	// keywordExcluded is a list of values that are not allowed.
	keywordExcluded = "\xffexcluded"
	// keywordNotPattern is a pattern that is not found in a string.
	keywordNotPattern = "\xffpattern"
	// keywordNotMultiple is a number that does not divide another.
	keywordNotMultiple = "\xffmultipleOf"
	// keywordFraction asks for a number that is not an integer.
	keywordFraction = "\xfffraction"
	// keywordExtra is a schema that closes an object, in which there must be a member
	// that the schema does not know.
	keywordExtra = "\xffextra"
)

// logic is what was found out about schemas as statements.
type logic struct {
	nots      map[*value]*value
	negated   map[*value][]*value
	dependent map[*value][]*value
	refers    map[*value]bool
	patterns  map[string]*automaton.Machine
	lacking   map[lacking]*value
	targets   map[*value]*value // of references
}

func newLogic() logic {
	return logic{
		nots:      map[*value]*value{},
		negated:   map[*value][]*value{},
		dependent: map[*value][]*value{},
		refers:    map[*value]bool{},
		patterns:  map[string]*automaton.Machine{},
		lacking:   map[lacking]*value{},
		targets:   map[*value]*value{},
	}
}

// The values that the compiler writes itself.
func textValue(text string) *value { return &value{kind: isString, text: text} }

func numberValue(n int) *value { return &value{kind: isNumber, text: strconv.Itoa(n)} }

func listValue(values ...*value) *value { return &value{kind: isArray, values: values} }

var nothingAllowed, anythingAllowed = &value{kind: isBoolean, text: "false"}, &value{kind: isBoolean, text: "true"}

// objectValue returns an object of one member, to which more can be added.
func objectValue(name string, member *value) *value {
	return (&value{kind: isObject, index: map[string]int{}}).with(name, member)
}

func (v *value) with(name string, member *value) *value {
	v.index[name] = len(v.names)
	v.names, v.values = append(v.names, name), append(v.values, member)
	return v
}

func namesOf(v *value) []string {
	if v == nil {
		return nil
	}
	return v.names
}

// elements are what a schema says about the elements of an array.
type elements struct {
	prefix []*value
	others *value
}

func (c *schemaCompiler) elementsOf(schema *value) elements {
	e := elements{others: schema.get("items")}
	if v := schema.get("prefixItems"); v != nil {
		e.prefix = c.list(v, "prefixItems")
	} else if e.others != nil && e.others.kind == isArray {
		e.prefix, e.others = e.others.values, schema.get("additionalItems")
	}
	return e
}

// at returns what holds for the element of an index, or nil.
func (e *elements) at(i int) *value {
	if i < len(e.prefix) {
		return e.prefix[i]
	}
	return e.others
}

// A schemaCompiler turns one JSON Schema into rules.
//
// A value must satisfy several schemas at once wherever allOf, $ref beside other
// keywords, or the same property in two of them say so. So what is compiled is
// always a list of parts, all of which hold. Every list that a $ref has a share
// in becomes a rule of its own, named by the list: that is what ends recursion.
//
// Where a part offers alternatives (anyOf, oneOf, not, if), each is taken together
// with all other parts. An alternative that contradicts them is dropped at once, and
// of oneOf each branch is taken together with the negation of those it could overlap.
type schemaCompiler struct {
	*compiler
	root *value
	book *addressBook
	// strict reads the schema by the letter. exact refuses what cannot be held; without
	// it, that is left out.
	strict, exact bool
	// numbers name values in the keys of rules, scopes are those of parts; known are
	// the rules, and pending those that are yet to be written.
	numbers map[any]int
	scopes  map[lineage]*lineage
	known   map[string]automaton.RuleID
	pending []definition
	logic
}

// A part is a schema, less the keywords that were already dealt with.
type part struct {
	schema *value
	less   keywords
	scope  *lineage
}

// A lineage is what a part was reached by: a schema that is about the members that no
// part under it knows, and the scope of that schema.
type lineage struct {
	owner  *value
	parent *lineage
}

// under reports whether a part was reached by owner, or is it.
func (p part) under(owner *value) bool {
	for s := p.scope; s != nil; s = s.parent {
		if s.owner == owner {
			return true
		}
	}
	return p.schema == owner
}

// keywords are those that stand for other schemas.
type keywords uint16

const (
	keyRef keywords = 1 << iota
	keyAllOf
	keyAnyOf
	keyOneOf
	keyNot
	keyIf
	keyDependencies
	keyExtra
)

// groupOf are the keywords that stand for other schemas, by name.
var groupOf = map[string]keywords{
	"$ref":              keyRef,
	"$dynamicRef":       keyRef,
	"$recursiveRef":     keyRef,
	"allOf":             keyAllOf,
	"anyOf":             keyAnyOf,
	"oneOf":             keyOneOf,
	"not":               keyNot,
	"if":                keyIf,
	"dependencies":      keyDependencies,
	"dependentRequired": keyDependencies,
	"dependentSchemas":  keyDependencies,
	keywordExtra:        keyExtra,
}

// resolve returns the schema that a reference in holder names.
func (c *schemaCompiler) resolve(holder *value, name string) *value {
	ref := holder.get(name)
	if target := c.targets[ref]; target != nil {
		return target
	}
	target, ok := c.book.find(holder, ref.text)
	if ref.kind != isString || !ok {
		c.meter.Refuse("%s %q does not name a part of this schema", name, ref.text)
	}
	if _, anchor, _ := strings.Cut(ref.text, "#"); name != "$ref" && c.book.dynamic[anchor] > 1 {
		c.unsupported(name, "to an anchor that stands in several schemas")
	}
	c.targets[ref] = target
	return target
}

// list returns the schemas of a keyword that has several.
func (c *schemaCompiler) list(v *value, name string) []*value {
	if v.kind != isArray || len(v.values) == 0 {
		c.meter.Refuse("%s must be a list of schemas", name)
	}
	return v.values
}

func schemasOf(parts []part) (schemas []*value) {
	for _, p := range parts {
		schemas = append(schemas, p.schema)
	}
	return schemas
}

// unsupported refuses a keyword where all must be held, and leaves it out otherwise.
func (c *schemaCompiler) unsupported(name, why string) {
	if c.exact {
		c.meter.Refuse("the keyword %q is not supported %s", name, why)
	}
	c.left[name] = true
}

func (c *schemaCompiler) properties(schema *value) *value {
	v := schema.get("properties")
	switch {
	case v == nil:
		return noProperties
	case v.kind != isObject:
		c.meter.Refuse("properties must be an object")
	}
	return v
}

var noProperties = &value{kind: isObject}

func (c *schemaCompiler) required(schema *value) (names []string) {
	v := schema.get("required")
	if v == nil || v.kind == isBoolean { // a flag of the property itself, in old dialects
		return nil
	}
	if v.kind != isArray {
		c.meter.Refuse("required must be a list of names")
	}
	for _, name := range v.values {
		if name.kind != isString {
			c.meter.Refuse("required must be a list of names")
		}
		names = append(names, name.text)
	}
	return names
}

// A definition is a rule that is yet to be written. Its path is that of the
// last $ref that led to it.
type definition struct {
	rule  automaton.RuleID
	parts []part
	path  []string
}

// lacking is a schema and the keyword it is to lack.
type lacking struct {
	schema  *value
	keyword string
}
