package grammar_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"parley"
	"parley/engine/grammar"
	"parley/internal/testkit"
)

// FuzzCompile feeds schemas and expressions as they may come from anyone. It
// must not panic, and what it refuses must be the caller's fault.
func FuzzCompile(f *testing.F) {
	for _, schema := range dialects {
		f.Add([]byte(schema), true)
	}
	f.Add([]byte(`{"anyOf":[{"$ref":"#"},{"type":["object","array"],"items":[{}],"additionalItems":false}]}`), false)
	f.Add([]byte(`^(a|b)*[^"\\]{2,5}$`), false)
	f.Fuzz(func(t *testing.T, data []byte, strict bool) {
		for _, g := range []parley.Grammar{parley.JSONSchema(data, strict), parley.Regex(string(data)),
			parley.FreeText(parley.GrammarTrigger{Text: string(data), Then: parley.Literal("x"), Again: strict})} {
			if p, err := grammar.Compile(&g); err != nil && parley.CodeOf(err) != parley.InvalidRequest {
				t.Errorf("%v", err)
			} else if err == nil && p.Nodes() == 0 {
				t.Error("a program of nothing")
			}
		}
	})
}

// A schemaMaker draws random schemas.
type schemaMaker struct {
	random *rand.Rand
	defs   int
}

func (m *schemaMaker) pick(texts ...string) string { return texts[m.random.IntN(len(texts))] }

func (m *schemaMaker) schema(depth int) string {
	kinds := 9
	if depth <= 0 {
		kinds = 5
	}
	switch m.random.IntN(kinds) {
	case 0:
		return m.pick(`{"type":"null"}`, `{"type":"boolean"}`, `{"const":"x"}`, `{"enum":[1,"a",[2]]}`,
			`{"type":["string","null"],"maxLength":4}`)
	case 1, 2:
		return m.number()
	case 3, 4:
		return m.text()
	case 5:
		return fmt.Sprintf(`{"type":"array","items":%s,"minItems":%d,"maxItems":%d}`, m.schema(depth-1),
			m.random.IntN(3), 2+m.random.IntN(3))
	case 6:
		return fmt.Sprintf(`{"%s":[%s,%s]}`, m.pick("anyOf", "oneOf"), m.schema(depth-1), m.schema(depth-1))
	case 7:
		return fmt.Sprintf(`{"$ref":"#/$defs/d%d"}`, m.random.IntN(m.defs))
	}
	return m.object(depth)
}

func (m *schemaMaker) number() string {
	least := m.random.IntN(400) - 200
	most := least + 1 + m.random.IntN(300)
	kind := m.pick("integer", "number")
	extra := m.pick("", "", fmt.Sprintf(`,"multipleOf":%d`, 1+m.random.IntN(3)), `,"multipleOf":0.5`)
	return fmt.Sprintf(`{"type":"%s","%s":%d.%d,"%s":%d%s}`, kind, m.pick("minimum", "exclusiveMinimum"), least,
		m.random.IntN(5)*2,
		m.pick("maximum", "exclusiveMaximum"), most+2, extra)
}

func (m *schemaMaker) text() string {
	return m.pick(`{"type":"string","maxLength":5}`, `{"type":"string","minLength":2,"maxLength":4}`,
		`{"type":"string","pattern":"^[a-c]{1,3}$"}`,
		`{"type":"string","pattern":"x","maxLength":6}`, `{"type":"string","format":"date"}`,
		`{"type":"string","pattern":"^\\S\\d?$","minLength":2}`)
}

func (m *schemaMaker) object(depth int) string {
	var properties, required []string
	for i := range m.random.IntN(4) {
		name := string(rune('a' + i))
		properties = append(properties, fmt.Sprintf(`"%s":%s`, name, m.schema(depth-1)))
		if m.random.IntN(2) == 0 {
			required = append(required, `"`+name+`"`)
		}
	}
	others := m.pick("", `,"additionalProperties":false`, `,"additionalProperties":{"type":"boolean"}`)
	return fmt.Sprintf(`{"type":"object","properties":{%s},"required":[%s]%s}`, strings.Join(properties, ","),
		strings.Join(required, ","), others)
}

func (m *schemaMaker) document() string {
	m.defs = 3
	var defs []string
	for i := range m.defs {
		defs = append(defs, fmt.Sprintf(`"d%d":%s`, i, m.schema(2)))
	}
	body := m.schema(3)
	return fmt.Sprintf(`{"$defs":{%s},"allOf":[%s]}`, strings.Join(defs, ","), body)
}

// FuzzAnswersAreValid draws a schema and answers under it, and asks a validator
// that knows nothing of grammars.
func FuzzAnswersAreValid(f *testing.F) {
	for seed := range uint64(60) {
		f.Add(seed)
	}
	d := newDreamer(f, 2)
	f.Fuzz(func(t *testing.T, seed uint64) {
		d.random = rand.New(rand.NewPCG(seed, 9))
		maker := &schemaMaker{random: d.random}
		schema := maker.document()
		g := parley.JSONSchema([]byte(schema), true)
		p, err := grammar.Compile(&g)
		if err != nil {
			if !strings.Contains(err.Error(), "no text") && !strings.Contains(err.Error(), "itself") {
				t.Fatalf("%v\n%s", err, schema)
			}
			return
		}
		start := grammar.NewMasker(d.v, 4<<20).Start(p)
		for range 3 {
			text := d.dream(t, start.Fork())
			if err := testkit.ValidateJSON(schema, text); err != nil {
				t.Fatalf("%v\n%s\n%.400s", err, schema, text)
			}
		}
	})
}
