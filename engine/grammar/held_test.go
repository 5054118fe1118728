package grammar

import (
	"slices"
	"strings"
	"testing"

	"parley"
)

// held are schemas with keywords that say something about a value as a whole, with texts that
// an answer must be able to be and texts that it must not be.
var held = map[string]struct {
	schema  string
	yes, no []string
}{
	"one of, by required members": {
		`{"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"integer"}},
			"oneOf":[{"required":["a"]},{"required":["b"]}],"additionalProperties":false}`,
		[]string{`{"a":1}`, `{"b":1}`}, []string{`{}`, `{"a":1,"b":1}`}},
	"one of, by what divides": {
		`{"oneOf":[{"type":"integer","multipleOf":2},{"type":"integer","multipleOf":3}]}`,
		[]string{"2", "3", "4", "9"}, []string{"0", "6", "30", "1"}},
	"one of, a closed object in another": {
		`{"oneOf":[{"type":"object","properties":{"a":{"type":"null"}},"additionalProperties":false},
			{"type":"object","properties":{"a":{"type":"null"},"b":{"type":"null"}},"additionalProperties":false}]}`,
		[]string{`{"b":null}`, `{"a":null,"b":null}`}, []string{`{}`, `{"a":null}`}},
	"one of, numbers": {`{"oneOf":[{"type":"integer"},{"type":"number","minimum":2}]}`,
		[]string{"1", "2.5", "0"}, []string{"2", "3.0", "1.5"}},
	"one of, strings": {`{"oneOf":[{"type":"string","maxLength":3},{"type":"string","pattern":"^a"}]}`,
		[]string{`"bcd"`, `"abcd"`}, []string{`"abc"`, `"bcde"`}},
	"not, a type":  {`{"not":{"type":["string","number"]}}`, []string{"null", "[1]", "{}"}, []string{`"a"`, "1"}},
	"not, a value": {`{"type":"string","not":{"enum":["a","b"]}}`, []string{`"c"`, `"ab"`, `""`}, []string{`"a"`, `"b"`}},
	"not, a number": {`{"type":"number","minimum":0,"not":{"const":1}}`, []string{"0", "1.5", "10", "1.01"},
		[]string{"1", "1.0", "1.00"}},
	"not, a member": {`{"type":"object","properties":{"a":{},"b":{}},"not":{"required":["a","b"]}}`,
		[]string{"{}", `{"a":1}`, `{"b":1}`}, []string{`{"a":1,"b":1}`}},
	"if, then, else": {
		`{"type":"object","properties":{"k":{"enum":["x","y"]},"v":{"type":["integer","string"]}},"required":["k","v"],
			"if":{"properties":{"k":{"const":"x"}}},"then":{"properties":{"v":{"type":"integer"}}},
			"else":{"properties":{"v":{"type":"string"}}}}`,
		[]string{`{"k":"x","v":1}`, `{"k":"y","v":"1"}`}, []string{`{"k":"x","v":"1"}`, `{"k":"y","v":1}`}},
	"members that depend on others": {
		`{"type":"object","properties":{"a":{},"b":{},"c":{}},"dependentRequired":{"a":["b"]},
			"dependencies":{"c":{"properties":{"b":{"type":"null"}},"required":["b"]}}}`,
		[]string{"{}", `{"b":1}`, `{"a":1,"b":1}`, `{"b":null,"c":1}`}, []string{`{"a":1}`, `{"c":1}`, `{"b":1,"c":1}`}},
	"members by patterns": {
		`{"type":"object","properties":{"x1":{"type":"null"}},"patternProperties":{"^x":{"type":["null","integer"]},
			"2$":{"type":"string"}},"additionalProperties":{"type":"boolean"}}`,
		[]string{`{"x1":null,"x3":1,"y2":"a","y":true}`, `{"x":1}`, `{}`},
		[]string{`{"x1":1}`, `{"x":"a"}`, `{"y2":true}`, `{"x2":1}`, `{"y":1}`}},
	"members by patterns alone": {`{"type":"object","patternProperties":{"^a":{"type":"null"}},"additionalProperties":false}`,
		[]string{`{}`, `{"a":null}`, `{"ab":null}`}, []string{`{"b":null}`, `{"a":1}`}},
	"names": {`{"type":"object","propertyNames":{"pattern":"^[a-z]+$","maxLength":3},"additionalProperties":{"type":"null"}}`,
		[]string{`{}`, `{"abc":null}`}, []string{`{"A":null}`, `{"abcd":null}`}},
	"names of a record": {`{"type":"object","propertyNames":{"type":"string"},"additionalProperties":{"type":"null"}}`,
		[]string{`{}`, `{"abc":null,"d":null}`}, []string{`{"a":1}`}},
	"names in a list": {`{"type":"object","propertyNames":{"enum":["a","b"]},"additionalProperties":{"type":"null"}}`,
		[]string{`{}`, `{"a":null}`, `{"a":null,"b":null}`}, []string{`{"c":null}`, `{"a":1}`}},
	"how many members": {`{"type":"object","properties":{"a":{},"b":{},"c":{}},"minProperties":1,"maxProperties":2}`,
		[]string{`{"a":1}`, `{"c":1}`, `{"a":1,"c":1}`}, []string{`{}`, `{"a":1,"b":1,"c":1}`}},
	"how many members, with others": {
		`{"type":"object","properties":{"a":{}},"additionalProperties":true,"minProperties":2,"maxProperties":3}`,
		[]string{`{"a":1,"x":1}`, `{"a":1,"x":1,"y":1}`}, []string{`{"a":1}`, `{"x":1}`, `{"x":1,"x":1}`,
			`{"a":1,"x":1,"y":1,"z":1}`}},
	"members that no schema knows": {
		`{"type":"object","allOf":[{"properties":{"a":{}}}],"anyOf":[{"properties":{"b":{}},"required":["b"]},
			{"properties":{"c":{}}}],"unevaluatedProperties":{"type":"null"}}`,
		[]string{`{"a":1,"b":1}`, `{"a":1,"c":1,"x":null}`}, []string{`{"x":1}`, `{"a":1,"x":1}`}},
	"members that a cousin knows": {
		`{"type":"object","properties":{"foo":{"type":"object","properties":{"bar":{"type":"boolean"}},
			"unevaluatedProperties":false}},"required":["foo"],
			"anyOf":[{"properties":{"foo":{"properties":{"faz":{"type":"boolean"}}}}}]}`,
		[]string{`{"foo":{"bar":true}}`, `{"foo":{}}`}, []string{`{"foo":{"faz":true}}`}},
	"different elements": {`{"type":"array","items":{"enum":["a","b",1]},"uniqueItems":true,"minItems":1}`,
		[]string{`["a"]`, `["a","b",1]`, `["a",1]`}, []string{`[]`, `["a","a"]`, `[1,1]`}},
	"contained": {`{"type":"array","items":{"type":"integer"},"contains":{"minimum":5},"maxContains":1}`,
		[]string{"[5]", "[7,1,2]"}, []string{"[]", "[1]", "[5,6]", "[5,1,6]"}},
	"contained in a tuple": {`{"type":"array","prefixItems":[{"type":"null"},{"type":"integer"}],"items":false,
			"contains":{"type":"integer"}}`,
		[]string{"[null,1]"}, []string{"[null]", "[]"}},
	"elements that no schema knows": {
		`{"type":"array","allOf":[{"prefixItems":[{"type":"null"}]}],"unevaluatedItems":{"type":"integer"}}`,
		[]string{"[]", "[null]", "[null,1]"}, []string{`[1]`, `[null,"a"]`}},
	"annotations": {`{"type":"integer","self":{"vendor":"x"},"readonly":true,"propertyOrder":4,"_format":"y","then":{}}`,
		[]string{"1"}, []string{`"a"`}},
	"a format that is none":  {`{"type":"string","format":"stardate"}`, []string{`"x"`}, []string{"1"}},
	"a format and a length":  {`{"type":"string","format":"email","maxLength":12}`, []string{`"ab@cd.ef"`}, []string{`"abcdef@ghij.kl"`, `"ab"`}},
	"a name and a length":    {`{"type":"string","pattern":"^[a-z]([-a-z0-9]*[a-z0-9])?$","maxLength":253}`, []string{`"a-b"`, `"` + strings.Repeat("a", 22) + `"`}, []string{`"` + strings.Repeat("a", 254) + `"`, `"a-"`}},
	"escapes have one place": {`{"type":"string","pattern":"^[^x]*$","minLength":2,"maxLength":3}`, []string{`"\n\""`, `"日本語"`, `"\\a\\"`}, []string{`"\n"`, `"日本語!"`, `"\\\\\\\\"`}},
	"a space in a $ref":      {`{"$defs":{"a b":{"type":"null"},"c%d":{"type":"null"}},"anyOf":[{"$ref":"#/$defs/a%20b"},{"$ref":"#/$defs/c%25d"}]}`, []string{"null"}, []string{"1"}},
	"an anchor":              {`{"$defs":{"a":{"$anchor":"here","type":"null"}},"$ref":"#here"}`, []string{"null"}, []string{"1"}},
	"an address":             {`{"$id":"https://example.com/a.json","$defs":{"a":{"$id":"b.json","type":"null"}},"$ref":"https://example.com/b.json"}`, []string{"null"}, []string{"1"}},
	"great integers": {`{"type":"integer","minimum":9223372036854775800,"maximum":9223372036854775807}`,
		[]string{"9223372036854775800", "9223372036854775807"},
		[]string{"9223372036854775799", "9223372036854775808", "1"}},
	"small integers": {`{"type":"integer","maximum":-9223372036854775800}`, []string{"-9223372036854775800", "-9223372036854775808"},
		[]string{"-9223372036854775799", "1"}},
	"the year 0": {`{"type":"string","format":"date"}`, []string{`"0001-01-01"`}, []string{`"0000-01-01"`}},
	"looking ahead": {`{"type":"string","pattern":"^(?!ab)(?=.*[0-9])[a-z0-9]{2,4}$"}`, []string{`"a1"`, `"xyz0"`},
		[]string{`"ab1"`, `"axy"`, `"a1xyz"`}},
	"looking ahead everywhere": {`{"type":"string","pattern":"^((?!ab).)*$"}`, []string{`""`, `"ba"`, `"a"`}, []string{`"ab"`, `"xaby"`}},
	"a great repetition":       {`{"type":"string","pattern":"^[a-c]*$","maxLength":100000}`, []string{`"abc"`}, []string{`"d"`}},
	"a host":                   {`{"type":"string","format":"hostname"}`, []string{`"a-b.example"`}, []string{`"xn--a"`, `"-a"`}},
	"a list beside keywords":   {`{"enum":[{"a":1},{"a":"x"},[1]],"properties":{"a":{"type":"integer"}}}`, []string{`{"a":1}`, "[1]"}, []string{`{"a":"x"}`}},
}

func TestKeywordsAreHeld(t *testing.T) {
	for name, c := range held {
		t.Run(name, func(t *testing.T) {
			m := NewMasker(vocabularyOf(all), 1<<20)
			g := parley.JSONSchema([]byte(c.schema), true)
			for _, text := range c.yes {
				if !match(t, m, g, text) {
					t.Errorf("refuses %q", text)
				}
			}
			for _, text := range c.no {
				if match(t, m, g, text) {
					t.Errorf("takes %q", text)
				}
			}
		})
	}
}

// What is not strict is held all the same where it can be, and what cannot is named.
func TestLooseSchemasNameWhatIsLeftOut(t *testing.T) {
	for schema, want := range map[string][]string{
		`{"type":"object","properties":{"a":{}},"minProperties":1}`:                                nil,
		`{"type":"array","uniqueItems":true,"items":{"type":"string"}}`:                            {"uniqueItems"},
		`{"type":"array","uniqueItems":true,"items":{"type":"string","pattern":"a(?=b)"}}`:         {"pattern", "uniqueItems"},
		`{"type":"array","uniqueItems":true,"items":{},"not":{"minItems":5}}`:                      {"not", "uniqueItems"},
		`{"type":"array","uniqueItems":true,"items":{"oneOf":[{"minimum":1},{"maximum":2}]}}`:      {"oneOf", "uniqueItems"},
		`{"type":"object","minProperties":5,"dependentRequired":{"a":["b"]}}`:                      {"dependentRequired", "minProperties"},
		`{"type":"object","minProperties":5,"if":{"required":["a"]},"then":{"required":["b"]}}`:    {"if", "minProperties"},
		`{"type":"object","properties":{"a":{"type":"string","nullable":true}},"required":["a"]}`:  nil,
		`{"type":"array","items":{"type":"integer"},"description":"no keyword","links":["x","y"]}`: nil,
	} {
		g := parley.JSONSchema([]byte(schema), false)
		p, err := Compile(&g)
		if err != nil {
			t.Errorf("%s: %v", schema, err)
			continue
		}
		if got := p.Unenforced(); !slices.Equal(got, want) {
			t.Errorf("%s: %q is not enforced, want %q", schema, got, want)
		}
	}
}

// A trial that fails leaves nothing of itself behind.
func TestLooseSchemasShareOneGrammar(t *testing.T) {
	unique := parley.JSONSchema([]byte(`{"type":"object","properties":{"a":{"type":"array","uniqueItems":true,
		"items":{"$ref":"#/$defs/s"}}},"required":["a"],"$defs":{"s":{"type":"string","maxLength":2,"pattern":"^[ab]*$"}}}`), false)
	plain := parley.JSONSchema([]byte(`{"type":"string","maxLength":2,"pattern":"^[ab]*$"}`), false)
	m := NewMasker(vocabularyOf(all), 1<<20)
	g := parley.Sequence(unique, parley.Literal(";"), plain, parley.Literal(";"), unique)
	if !match(t, m, g, `{"a":["a","a"]};"b";{"a":["ab"]}`) || match(t, m, g, `{"a":["c"]};"b";{"a":[]}`) {
		t.Error("the parts are not held")
	}
}
