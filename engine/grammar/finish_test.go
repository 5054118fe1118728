package grammar

import (
	"encoding/json"
	"math/rand/v2"
	"testing"

	"parley"
)

// TestCompletions completes texts that were begun at random: what comes out is a whole text of the grammar, and as long
// as was said before.
func TestCompletions(t *testing.T) {
	v := NewVocabulary(257, func(id parley.Token) []byte {
		if id == 256 {
			return nil
		}
		return []byte{byte(id)}
	}, []parley.Token{256})
	masker := NewMasker(v, 1<<20)
	for _, schema := range []string{
		`{"type":"object","properties":{"a":{"type":"string","minLength":3},"b":{"type":"array","items":{"type":"integer"},` +
			`"minItems":2},"c":{"enum":["long","longer"]}},"required":["a","b","c"],"additionalProperties":false}`,
		`{"$defs":{"t":{"type":"object","properties":{"of":{"anyOf":[{"type":"null"},{"$ref":"#/$defs/t"}]}},"required":["of"]}},` +
			`"$ref":"#/$defs/t"}`,
		`{"type":"string","format":"date"}`,
		`{"type":"number","minimum":-3}`,
	} {
		g := parley.JSONSchema([]byte(schema), true)
		program, err := Compile(&g)
		if err != nil {
			t.Fatal(err)
		}
		for seed := range uint64(60) {
			random := rand.New(rand.NewPCG(seed, 3))
			m, text := masker.Start(program.Measured()), []byte{}
			for range random.IntN(60) {
				for _, b := range random.Perm(128) {
					if m.Accept(parley.Token(b)) {
						text = append(text, byte(b))
						break
					}
				}
			}
			left := m.Left()
			rest, ok := m.Completion()
			if !ok || len(rest) != left {
				t.Fatalf("%s: %q: %d bytes complete it, %v, of %d", schema, text, len(rest), ok, left)
			}
			for _, b := range rest {
				if !m.Accept(b) {
					t.Fatalf("%s: %q does not take %q", schema, text, b)
				}
				text = append(text, byte(b))
			}
			if !m.Done() || !json.Valid(text) {
				t.Errorf("%s: %q is not whole", schema, text)
			}
		}
	}
}
