package grammar_test

import (
	"flag"
	"math/rand/v2"
	"testing"

	"parley"
	"parley/engine/grammar"
	"parley/engine/sample"
	"parley/internal/builtin"
	"parley/internal/testkit"
	"parley/token"
)

// pollyTokens returns the vocabulary of the built-in model, as an engine sees it.
func pollyTokens(t testing.TB) (size int, bytesOf func(parley.Token) []byte, ends []parley.Token) {
	t.Helper()
	m, _ := builtin.Find("polly")
	ck, err := m.Open()
	if err != nil {
		t.Fatal(err)
	}
	tk, err := token.FromGGUF(ck.Meta)
	if err != nil {
		t.Fatal(err)
	}
	return tk.Size(), func(id parley.Token) []byte {
		if tk.IsSpecial(id) {
			return nil
		}
		return tk.Bytes(id)
	}, tk.Special().EOS
}

func compile(t testing.TB, g parley.Grammar) *grammar.Program {
	t.Helper()
	p, err := grammar.Compile(&g)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// A dreamer stands in for a model: its scores are noise. Noise writes strings
// without end, so after a while it leans towards single bytes that close.
type dreamer struct {
	v       *grammar.Vocabulary
	bytesOf func(parley.Token) []byte
	ends    []parley.Token
	random  *rand.Rand
	scratch sample.Scratch
	scores  []float32
	noise   []float32
	lean    []float32
	bank    []float32 // noise to take scores from
}

func newDreamer(t testing.TB, seed uint64) *dreamer {
	size, bytesOf, ends := pollyTokens(t)
	d := &dreamer{v: grammar.NewVocabulary(size, bytesOf, ends), bytesOf: bytesOf, ends: ends,
		random: rand.New(rand.NewPCG(seed, 1)), scores: make([]float32, size), noise: make([]float32, size),
		lean: make([]float32, size)}
	for i := range d.lean {
		switch string(bytesOf(parley.Token(i))) {
		case "\"", "}", "]", "0":
			d.lean[i] = 1
		}
	}
	for _, end := range ends {
		d.lean[end] = 1
	}
	d.bank = make([]float32, 16*size)
	for i := range d.bank {
		d.bank[i] = float32(d.random.NormFloat64() * 3)
	}
	return d
}

// dream writes one answer under a grammar, at temperature 1. It fails the test
// if the grammar stops the model before the answer is complete.
func (d *dreamer) dream(t testing.TB, at *grammar.Matcher) string {
	t.Helper()
	sampler := sample.New(parley.Sampling{Temperature: 1, Seed: d.random.Uint64()}, nil, d.v.Size(), 0)
	var text []byte
	for n := 0; !at.Final(); n++ {
		lean := float32(max(0, n-20)) / 3
		noise := d.bank[d.random.IntN(len(d.bank)-len(d.noise)):]
		for i := range d.noise {
			d.noise[i] = noise[i] + lean*d.lean[i]
		}
		mask := at.Mask()
		mask.Apply(d.scores, d.noise)
		token, err := sampler.Choose(d.scores, &d.scratch)
		if err != nil {
			t.Fatalf("after %q: %v", text, err)
		}
		if !mask.Allows(token) || !at.Allowed(token) || !at.Accept(token) {
			t.Fatalf("after %q: token %d (%q) was offered and refused", text, token, d.bytesOf(token))
		}
		sampler.Accept(token)
		text = append(text, d.bytesOf(token)...)
		if n > 20000 {
			t.Fatalf("no end after %d tokens: %.300q", n, text)
		}
	}
	return string(text)
}

// dialects are schemas of the kinds that people send.
var dialects = map[string]string{
	"strict object":    `{"type":"object","properties":{"name":{"type":"string"},"age":{"type":"integer"},"ok":{"type":"boolean"}},"required":["name","age","ok"],"additionalProperties":false}`,
	"optional members": `{"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"string","maxLength":3},"c":{"type":"null"}},"required":["b"]}`,
	"all optional":     `{"type":"object","properties":{"x":{"type":"boolean"},"xy":{"type":"boolean"},"xyz":{"type":"boolean"}},"additionalProperties":false}`,
	"nested":           `{"type":"object","properties":{"user":{"type":"object","properties":{"id":{"type":"integer"},"tags":{"type":"array","items":{"type":"string","maxLength":5}}},"required":["id","tags"],"additionalProperties":false}},"required":["user"],"additionalProperties":false}`,
	"enum":             `{"enum":["red","green","blue",1,2.5,null,true,{"a":[1,"x"]},"qu\"ote\n"]}`,
	"const":            `{"type":"object","properties":{"kind":{"const":"circle"},"r":{"type":"number"}},"required":["kind","r"]}`,
	"any of":           `{"anyOf":[{"type":"string","maxLength":4},{"type":"integer"},{"type":"null"}]}`,
	"one of objects":   `{"oneOf":[{"type":"object","properties":{"t":{"const":"a"},"v":{"type":"integer"}},"required":["t","v"],"additionalProperties":false},{"type":"object","properties":{"t":{"const":"b"},"v":{"type":"boolean"}},"required":["t","v"],"additionalProperties":false}]}`,
	"alike beginnings": `{"anyOf":[{"type":"object","properties":{"v":{"type":"string"}},"required":["v"],"additionalProperties":false},{"type":"object","properties":{"v":{"type":"string"},"w":{"type":"integer"}},"required":["v","w"],"additionalProperties":false}]}`,
	"all of":           `{"allOf":[{"type":"object","properties":{"a":{"type":"integer"}},"required":["a"]},{"type":"object","properties":{"a":{"minimum":3,"maximum":7},"b":{"type":"boolean"}},"required":["b"]}]}`,
	"references":       `{"$defs":{"p":{"type":"object","properties":{"x":{"type":"number"},"y":{"type":"number"}},"required":["x","y"],"additionalProperties":false}},"type":"object","properties":{"from":{"$ref":"#/$defs/p"},"to":{"$ref":"#/$defs/p"}},"required":["from","to"],"additionalProperties":false}`,
	"linked list":      `{"$defs":{"n":{"type":"object","properties":{"v":{"type":"integer"},"next":{"anyOf":[{"$ref":"#/$defs/n"},{"type":"null"}]}},"required":["v","next"],"additionalProperties":false}},"$ref":"#/$defs/n"}`,
	"tree":             `{"type":"object","properties":{"name":{"type":"string","maxLength":2},"children":{"type":"array","items":{"$ref":"#"},"maxItems":2}},"required":["name","children"],"additionalProperties":false}`,
	"recursion " +
		"by all of": `{"$defs":{"base":{"type":"object","properties":{"id":{"type":"integer"}},"required":["id"]},"node":{"allOf":[{"$ref":"#/$defs/base"},{"type":"object","properties":{"kids":{"type":"array","items":{"$ref":"#/$defs/node"},"maxItems":1}}}]}},"$ref":"#/$defs/node"}`,
	"items":              `{"type":"array","items":{"type":"integer","minimum":0,"maximum":9}}`,
	"counted items":      `{"type":"array","items":{"type":"boolean"},"minItems":2,"maxItems":5}`,
	"counted strings":    `{"type":"array","items":{"type":"string","minLength":1,"maxLength":3},"minItems":1,"maxItems":3}`,
	"many items":         `{"type":"array","items":{"type":"null"},"minItems":3,"maxItems":1000000}`,
	"tuple":              `{"type":"array","prefixItems":[{"type":"string","maxLength":3},{"type":"integer"}],"items":{"type":"boolean"},"minItems":2,"maxItems":4}`,
	"short tuple":        `{"type":"array","prefixItems":[{"type":"integer"},{"type":"integer"}],"items":false,"minItems":1}`,
	"lengths":            `{"type":"string","minLength":3,"maxLength":6}`,
	"long string":        `{"type":"string","minLength":20,"maxLength":300}`,
	"pattern":            `{"type":"string","pattern":"^[A-Z]{2}-\\d{3}$"}`,
	"pattern within":     `{"type":"string","pattern":"ab+c","maxLength":12}`,
	"pattern of quotes":  `{"type":"string","pattern":"^[\"\\\\\\n]{2,4}é?$"}`,
	"pattern of choices": `{"type":"string","pattern":"^(a|bc)*x$|^yy","maxLength":9}`,
	"integers from to":   `{"type":"integer","minimum":-12,"maximum":1305}`,
	"integers above":     `{"type":"integer","exclusiveMinimum":99,"exclusiveMaximum":102}`,
	"integers below":     `{"type":"integer","maximum":-5}`,
	"even":               `{"type":"integer","minimum":0,"maximum":50,"multipleOf":4}`,
	"numbers from to":    `{"type":"number","minimum":-1.25,"maximum":10.5}`,
	"numbers above":      `{"type":"number","exclusiveMinimum":0,"exclusiveMaximum":0.01}`,
	"prices":             `{"type":"number","minimum":0,"multipleOf":0.05,"maximum":3}`,
	"date":               `{"type":"string","format":"date"}`,
	"time":               `{"type":"string","format":"time"}`,
	"date-time":          `{"type":"string","format":"date-time"}`,
	"uuid":               `{"type":"string","format":"uuid"}`,
	"email":              `{"type":"string","format":"email"}`,
	"ipv4":               `{"type":"string","format":"ipv4"}`,
	"ipv6":               `{"type":"string","format":"ipv6"}`,
	"hostname":           `{"type":"string","format":"hostname","maxLength":12}`,
	"nullable":           `{"type":"string","maxLength":3,"nullable":true}`,
	"types":              `{"type":["integer","string","null"],"maxLength":2,"minimum":1,"maximum":3}`,
	"map":                `{"type":"object","additionalProperties":{"type":"integer"}}`,
	"map beside members": `{"type":"object","properties":{"id":{"type":"integer"}},"required":["id"],"additionalProperties":{"type":"boolean"}}`,
	"counted map":        `{"type":"object","additionalProperties":{"type":"null"},"minProperties":1,"maxProperties":2}`,
	"required, " +
		"not named": `{"type":"object","properties":{"a":{"type":"null"}},"required":["a","b"],"additionalProperties":{"type":"boolean"}}`,
	"any":             `{}`,
	"any object":      `{"type":"object"}`,
	"any array":       `{"type":"array","maxItems":2}`,
	"true":            `true`,
	"old definitions": `{"definitions":{"c":{"enum":["x","y"]}},"type":"object","properties":{"c":{"$ref":"#/definitions/c"}},"required":["c"],"additionalProperties":false}`,
	"keys to " +
		"be escaped": `{"type":"object","properties":{"a\"b":{"type":"null"},"ü\n":{"type":"null"}},"required":["a\"b","ü\n"],"additionalProperties":false}`,
	"enum held by a length": `{"enum":["a","abc","abcdef",7],"type":"string","maxLength":4}`,
	"annotated " +
		"reference": `{"$defs":{"c":{"type":"integer","minimum":1,"maximum":2}},"type":"object","properties":{"c":{"allOf":[{"$ref":"#/$defs/c"}],"description":"x","default":1}},"required":["c"],"additionalProperties":false}`,
}

var noiseRounds = flag.Int("noise", 40, "how many texts noise writes under each schema")

func TestNoiseWritesWhatTheSchemaAllows(t *testing.T) {
	d := newDreamer(t, 1)
	masker := grammar.NewMasker(d.v, 8<<20)
	rounds := *noiseRounds
	if testing.Short() {
		rounds = 10
	}
	for name, schema := range dialects {
		t.Run(name, func(t *testing.T) {
			start := masker.Start(compile(t, parley.JSONSchema([]byte(schema), true)))
			for i := range rounds {
				text := d.dream(t, start.Fork())
				if testing.Verbose() && i == 0 {
					t.Logf("%.200s", text)
				}
				if err := testkit.ValidateJSON(schema, text); err != nil {
					t.Fatalf("%v\n%.400s", err, text)
				}
			}
		})
	}
}
