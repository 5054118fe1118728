package grammar_test

import (
	"math/rand/v2"
	"testing"

	"parley"
	"parley/engine/grammar"
	"parley/internal/testkit"
	"parley/token"
)

// qwenTokens returns a vocabulary of 150,000 tokens.
func qwenTokens(t testing.TB) (size int, bytesOf func(parley.Token) []byte, ends []parley.Token) {
	tk, err := token.Load(testkit.SharedData(t, "tokenizers", "qwen2"))
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

// places are texts after which a mask is measured: those in which a constrained
// answer mostly stands.
var places = []struct{ name, schema, text string }{
	{"in a string",
		`{"type":"object","properties":{"name":{"type":"string"},"b":{"type":"integer"}},"required":["name","b"],"additionalProperties":false}`, `{"name": "Ann`},
	{"at a key",
		`{"type":"object","properties":{"name":{"type":"string"},"b":{"type":"integer"}},"required":["name","b"],"additionalProperties":false}`, `{`},
	{"after a value",
		`{"type":"object","properties":{"name":{"type":"string"},"b":{"type":"integer"}},"required":["name","b"],"additionalProperties":false}`, `{"name": "Ann"`},
	{"in a number", `{"type":"array","items":{"type":"integer"}}`, `[1`},
	{"in a counted string", `{"type":"object","properties":{"s":{"type":"string","maxLength":100}},"required":["s"]}`,
		`{"s":"An`},
	{"near its end", `{"type":"object","properties":{"s":{"type":"string","maxLength":10}},"required":["s"]}`,
		`{"s":"Annabel`},
	{"in a pattern", `{"type":"string","pattern":"^[a-z]+(-[a-z]+)*$"}`, `"an`},
	{"at any value", `{}`, ``},
	{"in a name of any", `{"type":"object"}`, `{"a`},
	{"in a date", `{"type":"string","format":"date"}`, `"20`},
	{"in a list of enums", `{"type":"array","items":{"enum":["red","green","blue"]}}`, `["red", "`},
}

type vocabulary struct {
	name   string
	tokens func(testing.TB) (int, func(parley.Token) []byte, []parley.Token)
}

var vocabularies = []vocabulary{{"polly", pollyTokens}, {"qwen2", qwenTokens}}

// reach returns a matcher behind text, which it spells in single bytes.
func reach(b *testing.B, m *grammar.Masker, p *grammar.Program, single map[byte]parley.Token,
	text string) *grammar.Matcher {
	at := m.Start(p)
	for i := range len(text) {
		if !at.Accept(single[text[i]]) {
			b.Fatalf("%q is refused at %d", text, i)
		}
	}
	return at
}

func singles(size int, bytesOf func(parley.Token) []byte) map[byte]parley.Token {
	single := map[byte]parley.Token{}
	for t := range parley.Token(size) {
		if s := bytesOf(t); len(s) == 1 {
			single[s[0]] = t
		}
	}
	return single
}

// BenchmarkMiss computes a mask that nothing is known of but the vocabulary.
func BenchmarkMiss(b *testing.B) {
	for _, voc := range vocabularies {
		b.Run(voc.name, func(b *testing.B) {
			size, bytesOf, ends := voc.tokens(b)
			v, single := grammar.NewVocabulary(size, bytesOf, ends), singles(size, bytesOf)
			for _, c := range places {
				b.Run(c.name, func(b *testing.B) {
					p := compile(b, parley.JSONSchema([]byte(c.schema), true))
					b.ReportAllocs()
					for b.Loop() {
						b.StopTimer()
						at := reach(b, grammar.NewMasker(v, 1<<20), p, single, c.text)
						b.StartTimer()
						at.Mask()
					}
				})
			}
		})
	}
}

// BenchmarkStep is what a constrained token costs once its mask is known: the
// mask, its application and the acceptance.
func BenchmarkStep(b *testing.B) {
	for _, voc := range vocabularies {
		b.Run(voc.name, func(b *testing.B) {
			size, bytesOf, ends := voc.tokens(b)
			v, single := grammar.NewVocabulary(size, bytesOf, ends), singles(size, bytesOf)
			scores, dst := make([]float32, size), make([]float32, size)
			for i := range scores {
				scores[i] = rand.Float32()
			}
			for _, c := range places {
				b.Run(c.name, func(b *testing.B) {
					at := reach(b, grammar.NewMasker(v, 1<<22), compile(b, parley.JSONSchema([]byte(c.schema), true)),
						single, c.text)
					var token parley.Token
					for mask := at.Mask(); !mask.Allows(token); token++ {
					}
					b.ReportAllocs()
					for b.Loop() {
						at.Mask().Apply(dst, scores)
						at.Allowed(token)
					}
				})
			}
		})
	}
}

// BenchmarkCompile compiles schemas of common sizes.
func BenchmarkCompile(b *testing.B) {
	for _, name := range []string{"strict object", "tree", "date-time", "one of objects", "numbers from to"} {
		b.Run(name, func(b *testing.B) {
			g := parley.JSONSchema([]byte(dialects[name]), true)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := grammar.Compile(&g); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkVocabulary arranges a vocabulary, once for each model.
func BenchmarkVocabulary(b *testing.B) {
	for _, voc := range vocabularies {
		b.Run(voc.name, func(b *testing.B) {
			size, bytesOf, ends := voc.tokens(b)
			b.ReportAllocs()
			for b.Loop() {
				grammar.NewVocabulary(size, bytesOf, ends)
			}
		})
	}
}
