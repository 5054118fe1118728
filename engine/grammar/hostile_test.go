package grammar

import (
	"encoding/json"
	"fmt"
	"parley/engine/automaton"
	"runtime"
	"strings"
	"testing"

	"parley"
)

// nested returns s wrapped n times.
func nested(n int, before, s, after string) string {
	return strings.Repeat(before, n) + s + strings.Repeat(after, n)
}

// doubling returns definitions each of which has the one below it twice.
func doubling(n int, keyword string) string {
	var defs []string
	for i := range n {
		defs = append(defs,
			fmt.Sprintf(`"d%d":{"%s":[{"$ref":"#/$defs/d%d"},{"$ref":"#/$defs/d%d"}]}`, i, keyword, i+1, i+1))
	}
	return fmt.Sprintf(`{"$defs":{%s,"d%d":{"type":"integer"}},"$ref":"#/$defs/d0"}`, strings.Join(defs, ","), n)
}

// many joins n texts made from their numbers.
func many(n int, format string) string {
	var b strings.Builder
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, format, i)
	}
	return b.String()
}

// hostile are schemas meant to take time or memory, and what becomes of them: a
// part of the error, or "" if they compile.
var hostile = map[string]struct{ schema, refusal string }{
	"a reference to itself": {`{"$ref":"#"}`, "itself"},
	"references " +
		"in a ring": {`{"$defs":{"a":{"$ref":"#/$defs/b"},"b":{"$ref":"#/$defs/a"}},"$ref":"#/$defs/a"}`, "itself"},
	"left recursion":           {`{"anyOf":[{"$ref":"#"},{"type":"null"}]}`, "itself"},
	"left recursion by all of": {`{"allOf":[{"$ref":"#"},{"type":"null"}]}`, "itself"},
	"no finite value":          {`{"type":"object","properties":{"a":{"$ref":"#"}},"required":["a"]}`, "no text"},
	"no value at all":          {`{"allOf":[{"type":"string"},{"type":"integer"}]}`, "no text"},
	"an impossible range":      {`{"type":"integer","minimum":3,"maximum":2}`, "no text"},
	"an unknown reference":     {`{"$ref":"#/$defs/x"}`, "does not name"},
	"a foreign reference":      {`{"$ref":"http://example.com/s"}`, "does not name"},
	"2^63 items":               {`{"type":"array","items":{},"maxItems":9223372036854775808}`, "maxItems"},
	"2^63 characters":          {`{"type":"string","minLength":9223372036854775807}`, "minLength"},
	"a negative count":         {`{"type":"array","minItems":-1}`, "minItems"},
	"a million items":          {`{"type":"array","items":{"type":"array","items":{"type":"string","maxLength":1000000},"maxItems":1000000},"minItems":1000,"maxItems":1000000}`, ""},
	"a thousand nested arrays": {nested(1000, `{"type":"array","items":`, `{}`, `}`), "nested"},
	"deep brackets":            {nested(100000, `[`, ``, `]`), "JSON"},
	"nested arrays":            {nested(45, `{"type":"array","items":`, `{}`, `}`), ""},
	"nested counted arrays":    {nested(45, `{"type":"array","maxItems":7,"items":`, `{}`, `}`), ""},
	"any of, doubling":         {doubling(60, "anyOf"), ""},
	"all of, doubling":         {doubling(60, "allOf"), ""},
	"all of any of": {`{"allOf":[` + many(30,
		`{"anyOf":[{"properties":{"a%[1]d":{"type":"null"}}},{"properties":{"b%[1]d":{"type":"null"}}}]}`) + `]}`,
		"too "},
	"any of, " +
		"ambiguous": {`{"$defs":{"a":{"type":"object","properties":{"x":{"$ref":"#/$defs/c"}}},"b":{"type":"object","properties":{"x":{"$ref":"#/$defs/c"}}},"c":{"anyOf":[{"$ref":"#/$defs/a"},{"$ref":"#/$defs/b"}]}},"$ref":"#/$defs/c"}`, ""},
	"a thousand alternatives": {`{"anyOf":[` + many(1000,
		`{"type":"object","properties":{"k":{"const":"v%d"},"w":{"type":"string"}},"required":["k","w"]}`) + `]}`, ""},
	"a thousand references": {`{"$defs":{` + many(1000,
		`"d%d":{"type":"object","properties":{"a":{"type":"string"}}}`) + `},"anyOf":[` + many(1000,
		`{"$ref":"#/$defs/d%d"}`) + `]}`, "begin"},
	"a chain of references": {`{"$defs":{` + many(1000,
		`"d%d":{"$ref":"#/$defs/d0x"}`) + `,"d0x":{"type":"null"}},"$ref":"#/$defs/d999"}`, ""},
	"ten thousand values": {`{"enum":[` + many(10000, `"value %d"`) + `]}`, ""},
	"a hundred optional": {`{"type":"object","properties":{` + many(100,
		`"property%d":{"type":"string"}`) + `}}`, ""},
	"five hundred optional": {`{"type":"object","properties":{` + many(500,
		`"property%d":{"type":"string"}`) + `}}`, ""},
	"two thousand required": {`{"type":"object","properties":{` + many(2000,
		`"property%d":{"type":"string"}`) + `},"required":[` + many(2000, `"property%d"`) + `]}`, ""},
	"an exponential pattern":       {`{"type":"string","pattern":"(a|b)*a(a|b){30}$"}`, "too "},
	"a nested pattern":             {`{"type":"string","pattern":"^(((a+)+)+)+$"}`, ""},
	"a long pattern":               {`{"type":"string","pattern":"` + strings.Repeat("a", 5000) + `"}`, "pattern"},
	"a repeated pattern":           {`{"type":"string","pattern":"^(\\p{L}{1,100}){1,10}$"}`, "too "},
	"a pattern repeated too often": {`{"type":"string","pattern":"a{100000}"}`, "pattern"},
	"patterns together":            {`{"allOf":[` + many(12, `{"type":"string","pattern":"a.{%d}b"}`) + `]}`, "too "},
	"a pattern that looks ahead":   {`{"type":"string","pattern":"b(?=a)"}`, "look ahead"},
	"a pattern that cannot match":  {`{"type":"string","pattern":"(?=a)b"}`, "no text"},
	"a pattern that looks back":    {`{"type":"string","pattern":"(a)\\1"}`, "pattern"},
	"a pattern of word boundaries": {`{"type":"string","pattern":"\\bfoo\\b"}`, "pattern"},
	"a great divisor":              {`{"type":"integer","multipleOf":1000003}`, "multipleOf"},
	"no divisor":                   {`{"type":"integer","multipleOf":0}`, "multipleOf"},
	"many divisors":                {`{"allOf":[` + many(9, `{"type":"integer","multipleOf":40%d7}`) + `]}`, "too "},
	"a huge number":                {`{"type":"number","minimum":1e999999999}`, "out of range"},
	"a great number":               {`{"type":"number","maximum":1e300}`, ""},
	"too many bytes":               {`{"description":"` + strings.Repeat("x", schemaBytesMax) + `"}`, "bytes"},
	"not JSON":                     {`{"type":`, "JSON"},
	"no schema":                    {`5`, "object"},
	"a type that is none":          {`{"type":"strnig"}`, "strnig"},
	"not, of all values":           {`{"not":{}}`, "no text"},
	"not, of itself":               {`{"not":{"$ref":"#"}}`, "no text"},
	"not, nested":                  {nested(40, `{"not":`, `{"type":"string"}`, `}`), ""},
	"one of, doubling":             {doubling(40, "oneOf"), "too "},
	"one of, overlapping": {`{"oneOf":[` + many(12,
		`{"type":"object","properties":{"a%[1]d":{"type":"string"},"b%[1]d":{"type":"string"},"c%[1]d":{"minLength":3}}}`) + `]}`,
		"too "},
	"one of, by required members": {`{"type":"object","properties":{` + many(40,
		`"a%d":{"type":"string"}`) + `},"oneOf":[` + many(40, `{"required":["a%d"]}`) + `]}`, ""},
	"conditions in a row": {`{"type":"object","allOf":[` + many(200,
		`{"if":{"properties":{"k":{"const":%[1]d}},"required":["k"]},"then":{"properties":{"v":{"minimum":%[1]d}}}}`) + `]}`,
		"too "},
	"patterns of names": {`{"type":"object","patternProperties":{` + many(40, `"a.{%d}b":{}`) + `}}`,
		"patternProperties"},
	"many members, counted": {`{"type":"object","properties":{` + many(500,
		`"property%d":{"type":"string"}`) + `},"minProperties":400}`, "maxProperties"},
	"many contained": {`{"type":"array","contains":{"type":"null"},"minContains":100000}`, "minContains"},
	"an empty $ref":  {`{"properties":{"a":{"$ref":""}}}`, ""},
	"a broken $ref":  {`{"properties":{"a":{"$ref":"#/%zz"}}}`, "does not name"},
	"dependencies":   {`{"type":"object","dependentRequired":{` + many(60, `"a%d":["b"]`) + `}}`, "too "},
	"unique items":   {`{"type":"array","uniqueItems":true}`, `"uniqueItems"`},
}

func TestHostileSchemasAreBounded(t *testing.T) {
	for name, c := range hostile {
		t.Run(name, func(t *testing.T) {
			g := parley.Grammar{Kind: parley.GrammarSchema, Schema: json.RawMessage(c.schema), Strict: true}
			steps, err := compileCounting(&g)
			switch {
			case steps > automaton.StepsFree+automaton.StepsPerByte*len(c.schema)+automaton.NodesMax ||
				steps > automaton.StepsMax+automaton.NodesMax:
				t.Errorf("%d steps", steps)
			case c.refusal == "" && err != nil:
				t.Errorf("refused: %v", err)
			case c.refusal != "" && (err == nil || parley.CodeOf(err) != parley.InvalidRequest ||
				!strings.Contains(err.Error(), c.refusal)):
				t.Errorf("got the error %v, want one about %q", err, c.refusal)
			}
		})
	}
}

// compileCounting compiles and returns the steps it took.
func compileCounting(g *parley.Grammar) (steps int, err error) {
	c := newCompiler()
	err = automaton.Guard(func() {
		main := c.main(g)
		assemble(c.meter, c.rules, main)
	})
	return c.meter.Steps, err
}

func TestHostileSchemasTakeBoundedMemory(t *testing.T) {
	const most = 256 << 20
	for name, c := range hostile {
		g := parley.Grammar{Kind: parley.GrammarSchema, Schema: json.RawMessage(c.schema), Strict: true}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, _ = Compile(&g)
		runtime.ReadMemStats(&after)
		if took := after.TotalAlloc - before.TotalAlloc; took > most {
			t.Errorf("%s: %d MiB were allocated", name, took>>20)
		}
	}
}

// Ambiguous recursion doubles the places at each level. They are bounded, and
// what is offered is still taken.
func TestAmbiguityIsBounded(t *testing.T) {
	v := vocabularyOf(all, pieces...)
	g := parley.JSONSchema([]byte(hostile["any of, ambiguous"].schema), true)
	p, err := Compile(&g)
	if err != nil {
		t.Fatal(err)
	}
	at := NewMasker(v, 1<<20).Start(p)
	for depth := 0; ; depth++ {
		text := `{"x":`
		for i := range len(text) {
			if token := parley.Token(text[i]) + 2; !at.Mask().Allows(token) {
				finish(t, v, at, nil)
				return
			} else if !at.Accept(token) {
				t.Fatalf("at depth %d %q was offered and refused", depth, text[i])
			}
			if len(at.places) > 4*placesMax {
				t.Fatalf("%d places", len(at.places))
			}
		}
	}
}

func TestLenientSchemasLeaveOut(t *testing.T) {
	m := NewMasker(vocabularyOf(all), 1<<20)
	for _, schema := range []string{
		`{"type":"array","uniqueItems":true,"items":{"type":"integer"}}`,
		`{"type":"array","items":{"type":"integer"},"not":{"type":"string"}}`,
		`{"type":"array","items":{"anyOf":[{"type":"integer"},{"type":"string","pattern":"(?=x)","format":"stardate"}]}}`,
	} {
		if !match(t, m, parley.JSONSchema([]byte(schema), false), "[1,1]") {
			t.Errorf("%s refuses [1,1]", schema)
		}
	}
}

func TestHostileTrees(t *testing.T) {
	deep := parley.Literal("x")
	for range 10_000 {
		deep = parley.Sequence(deep)
	}
	wide := parley.Literal("x")
	for range 40 {
		wide = parley.Sequence(wide, wide)
	}
	for name, g := range map[string]parley.Grammar{
		"deep":               deep,
		"repeated nothing":   parley.Repeat(parley.Literal(""), 2, 0),
		"repeated option":    parley.Repeat(parley.Optional(parley.Literal("x")), 2, 5),
		"a count":            parley.Repeat(parley.Literal("x"), 0, 1<<40),
		"a negative count":   parley.Repeat(parley.Literal("x"), -1, 0),
		"no kind":            {},
		"no trigger":         parley.FreeText(parley.GrammarTrigger{Then: parley.JSONObject()}),
		"no schema":          parley.JSONSchema(nil, true),
		"a long regex":       parley.Regex(strings.Repeat("(a|b)?", 5000)),
		"an exponential one": parley.Regex("(a|b)*a(a|b){40}"),
	} {
		if _, err := Compile(&g); parley.CodeOf(err) != parley.InvalidRequest {
			t.Errorf("%s: got %v", name, err)
		}
	}
	if steps, err := compileCounting(&wide); err == nil || steps > automaton.StepsMax+automaton.NodesMax {
		t.Errorf("wide: %d steps, %v", steps, err)
	}
}

func TestGrammarTravelsAsJSON(t *testing.T) {
	for name, g := range masked {
		wire, err := json.Marshal(&g)
		if err != nil {
			t.Fatal(err)
		}
		var back parley.Grammar
		if err := json.Unmarshal(wire, &back); err != nil {
			t.Fatal(err)
		}
		a, err := Compile(&g)
		if err != nil {
			t.Fatal(err)
		}
		b, err := Compile(&back)
		if err != nil || a.Key() != b.Key() || a.Nodes() != b.Nodes() {
			t.Errorf("%s is another grammar after its journey: %v", name, err)
		}
	}
}
