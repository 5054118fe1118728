package host

import (
	"strings"
	"sync"
	"testing"

	"parley"
	"parley/internal/testkit"
)

// dialects are schemas as the common dialects of JSON Schema write them, each
// with the keywords that its name tells of.
var dialects = map[string]string{
	"nested objects": `{"type":"object","properties":{"person":{"type":"object","properties":{"name":{"type":"string","maxLength":16},
		"home":{"type":"object","properties":{"city":{"type":"string","maxLength":12},"zip":{"type":"integer","minimum":0,"maximum":99999}},"required":["city","zip"],"additionalProperties":false}},
		"required":["name","home"],"additionalProperties":false},"note":{"type":["string","null"],"maxLength":10}},"required":["person"],"additionalProperties":false}`,
	"arrays with bounds": `{"type":"object","properties":{"tags":{"type":"array","items":{"type":"string","minLength":1,"maxLength":8},"minItems":2,"maxItems":4},
		"point":{"type":"array","prefixItems":[{"type":"number","minimum":-90,"maximum":90},{"type":"number","minimum":-180,"maximum":180}],"items":false,"minItems":2},
		"grid":{"type":"array","items":{"type":"array","items":{"type":"boolean"},"minItems":2,"maxItems":2},"maxItems":2}},"required":["tags","point","grid"]}`,
	"enums and " +
		"constants": `{"type":"object","properties":{"kind":{"const":"pet"},"animal":{"enum":["cat","dog","parrot","two words","quo\"te","é"]},
		"legs":{"enum":[0,2,4,1.5,null,true,"many"]},"size":{"type":"string","enum":["s","m","l"]}},"required":["kind","animal","legs","size"],"additionalProperties":false}`,
	"any of": `{"type":"object","properties":{"shape":{"anyOf":[{"type":"object","properties":{"type":{"const":"circle"},"radius":{"type":"integer","minimum":1,"maximum":99}},"required":["type","radius"],"additionalProperties":false},
		{"type":"object","properties":{"type":{"const":"box"},"sides":{"type":"array","items":{"type":"integer","minimum":0,"maximum":9},"minItems":2,"maxItems":3}},"required":["type","sides"],"additionalProperties":false},
		{"type":"null"}]},"id":{"oneOf":[{"type":"integer","minimum":0,"maximum":999},{"type":"string","pattern":"^[a-f]{4}$"}]}},"required":["shape","id"]}`,
	"references": `{"$defs":{"digit":{"type":"integer","minimum":0,"maximum":9},"side":{"enum":["left","right"]},
		"chain":{"anyOf":[{"type":"null"},{"$ref":"#/$defs/digit"},{"type":"array","items":{"$ref":"#/$defs/chain"},"minItems":1,"maxItems":1}]}},
		"type":"object","properties":{"first":{"$ref":"#/$defs/digit"},"sides":{"type":"array","items":{"$ref":"#/$defs/side"},"maxItems":2},"chain":{"$ref":"#/$defs/chain"}},
		"required":["first","sides","chain"],"additionalProperties":false}`,
	"patterns": `{"type":"object","properties":{"plate":{"type":"string","pattern":"^[A-Z]{2}-[0-9]{3,4}$"},"slug":{"type":"string","pattern":"^[a-z]+(-[a-z]+){0,2}$","maxLength":24},
		"colour":{"type":"string","pattern":"^#[0-9a-fA-F]{6}$"},"date":{"type":"string","format":"date"},"ip":{"type":"string","format":"ipv4"}},"required":["plate","slug","colour","date","ip"],"additionalProperties":false}`,
	"number ranges": `{"type":"object","properties":{"age":{"type":"integer","minimum":18,"maximum":65},"below":{"type":"integer","exclusiveMaximum":0,"minimum":-40},
		"share":{"type":"number","minimum":0,"maximum":1},"open":{"type":"number","exclusiveMinimum":1.5,"exclusiveMaximum":2.25},"even":{"type":"integer","multipleOf":4,"minimum":0,"maximum":400}},
		"required":["age","below","share","open","even"],"additionalProperties":false}`,
	"all of, draft 7": `{"definitions":{"named":{"type":"object","properties":{"name":{"type":"string","maxLength":10}},"required":["name"]}},
		"allOf":[{"$ref":"#/definitions/named"},{"type":"object","properties":{"age":{"type":"integer","minimum":0,"maximum":9}},"required":["age"]}]}`,
	"optional members": `{"type":"object","properties":{"a":{"type":"string","maxLength":5},"b":{"type":"integer","minimum":0,"maximum":9},"c":{"type":"boolean"},"d":{"type":"null"},"e":{"type":"array","items":{"type":"integer","minimum":0,"maximum":9},"maxItems":2}},"additionalProperties":false}`,
}

// TestDialectsDecode has the small built-in model write 25 documents for each
// schema, at temperature 1, many at once and with guesses: each must be complete
// and valid.
func TestDialectsDecode(t *testing.T) {
	const documents = 25 // parley-bench schemas writes thousands
	h := startHost(t, openBuiltin(t, "polly-mini"), Config{Name: "polly-mini", KVTokens: 65536})
	for name, schema := range dialects {
		t.Run(strings.ReplaceAll(name, " ", "_"), func(t *testing.T) {
			g := parley.JSONSchema([]byte(schema), true)
			prompt := chatPrompt(t, h, "Make up something about "+name+" and write it as JSON.")
			var group sync.WaitGroup
			for seed := range uint64(documents) {
				group.Go(func() {
					text, finish := written(t, h, &parley.Request{Prompt: prompt, Grammar: &g,
						Sampling: parley.Sampling{Temperature: 1, Seed: seed}})
					if err := testkit.ValidateJSON(schema, text); finish != parley.FinishStop || err != nil {
						t.Errorf("seed %d ended by %s: %v: %s", seed, finish, err, text)
					}
				})
			}
			group.Wait()
		})
	}
}

// written returns the text of an answer and why it ended.
func written(t *testing.T, h *Host, r *parley.Request) (string, parley.Finish) {
	var text []byte
	var finish parley.Finish
	for d, err := range h.Generate(t.Context(), r) {
		if err != nil {
			t.Error(err)
			return "", ""
		}
		for _, id := range d.Tokens {
			if !h.Tokenizer.IsSpecial(id) {
				text = append(text, h.Tokenizer.Bytes(id)...)
			}
		}
		finish = d.Finish
	}
	return string(text), finish
}
