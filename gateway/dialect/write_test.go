package dialect

import (
	"encoding/json"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"parley"
	"parley/engine/grammar"
)

// bytesAsTokens is a vocabulary of all single bytes and an end.
func bytesAsTokens() *grammar.Vocabulary {
	return grammar.NewVocabulary(257, func(id parley.Token) []byte {
		if id == 256 {
			return nil
		}
		return []byte{byte(id)}
	}, []parley.Token{256})
}

// follow reports how much of text the grammar allows, and whether the text may
// end there.
func follow(t *testing.T, g parley.Grammar, text string) (allowed string, complete bool) {
	t.Helper()
	program, err := grammar.Compile(&g)
	if err != nil {
		t.Fatal(err)
	}
	m := grammar.NewMasker(bytesAsTokens(), 1<<20).Start(program)
	for i := range len(text) {
		if !m.Accept(parley.Token(text[i])) {
			return text[:i], false
		}
	}
	return text, m.Allowed(256)
}

const lookSchema = `{"type":"object","properties":{"at":{"type":"string"},"deep":{"type":"integer","minimum":3,"maximum":40},
	"how":{"enum":["far","near"]},"all":{"type":"array","items":{"type":"boolean"},"maxItems":2}},
	"required":["at","deep"],"additionalProperties":false}`

var someTools = []Tool{
	{
		Name: "look",
		Arguments: parley.JSONSchema([]byte(`{"type":"object","properties":{"at":{"type":"string","maxLength":3}},`+
			`"required":["at"],"additionalProperties":false}`), true),
		Schema: json.RawMessage(lookSchema),
		Strict: true,
	},
	{Name: "look_up", Arguments: parley.Literal("{}")},
}

// TestDialectsWriteWhatTheyRead writes calls at random under the grammar of
// each syntax: whatever comes out is read back as calls of the tools.
func TestDialectsWriteWhatTheyRead(t *testing.T) {
	masker := grammar.NewMasker(bytesAsTokens(), 1<<20)
	for _, s := range Table {
		g := s.Calls(someTools, 1, false)
		program, err := grammar.Compile(&g)
		if err != nil {
			t.Fatal(s.Name, err)
		}
		several := 0
		for seed := uint64(0); seed < 10 || several == 0 && !s.single && seed < 1000; seed++ {
			random := rand.New(rand.NewPCG(seed, 2))
			text := writeAtRandom(masker.Start(program), random)
			got := readIn(testReader(s, nil, false), text, false, func(left int) int { return 1 + random.IntN(left) })
			if got.Text != "" || got.Complete != len(got.Calls) || got.Complete == 0 || s.single && got.Complete > 1 {
				t.Fatalf("%s: %q was read as %+v", s.Name, text, got)
			}
			if got.Complete > 1 {
				several++
			}
			for _, call := range got.Calls {
				_, call, _ = strings.Cut(call, " ")
				name, arguments, _ := strings.Cut(call, "{")
				if !slices.ContainsFunc(someTools, func(t Tool) bool { return t.Name == name }) ||
					!json.Valid([]byte("{"+arguments)) {
					t.Errorf("%s: a call of %s with %s", s.Name, name, arguments)
				}
			}
		}
		if several == 0 && !s.single {
			t.Errorf("%s: never more than one call", s.Name)
		}
	}
}

// writeAtRandom takes any allowed byte until the text is over, and now and then what completes it.
func writeAtRandom(m *grammar.Matcher, random *rand.Rand) string {
	var text []byte
	for !m.Final() {
		if m.Allowed(256) && random.IntN(3) == 0 {
			break
		}
		if completion, ok := m.Completion(); ok && len(completion) > 0 && random.IntN(5) > 0 {
			m.Accept(completion[0])
			text = append(text, byte(completion[0]))
			continue
		}
		for _, b := range random.Perm(256) {
			if m.Accept(parley.Token(b)) {
				text = append(text, byte(b))
				break
			}
		}
	}
	return string(text)
}

func TestWhatModelsMayWrite(t *testing.T) {
	hermes, llama, mistral := dialectNamed(t, "hermes"), dialectNamed(t, "llama"), dialectNamed(t, "mistral")
	const call = "<tool_call>\n{\"name\": \"look_up\", \"arguments\": {}}\n</tool_call>"
	const object = `{"name": "look_up", "parameters": {}}`
	thoughtful := Thinking[0].AfterThoughts(parley.Literal("yes"), false)
	thinking := Thinking[0].AfterThoughts(parley.Literal("yes"), true)
	for _, c := range []struct {
		name       string
		g          parley.Grammar
		text, upTo string // upTo is empty if all of the text is allowed
		complete   bool
	}{
		{"nothing", hermes.MayCall(someTools, false), "", "", true},
		{"text", hermes.MayCall(someTools, false), "Hello <b> <tool_cal", "", true},
		{"text and calls", hermes.MayCall(someTools, false), "Hm.\n" + call + "\n" + call, "", true},
		{"no text after calls", hermes.MayCall(someTools, false), call + "\nSo", call + "\n", false},
		{"no half call", hermes.MayCall(someTools, false), "<tool_call>\n{\"name\": \"look", "", false},
		{"no other tool", hermes.MayCall(someTools, false), "<tool_call>\n{\"name\": \"loop",
			"<tool_call>\n{\"name\": \"loo", false},
		{"one call at most", hermes.MayCall(someTools, true), call + "\n<", call + "\n", false},
		{"calls only", hermes.Calls(someTools, 1, false), "So", "", false},
		{"llama text", llama.MayCall(someTools, false), "So {\"name\": 1}", "", true},
		{"llama call", llama.MayCall(someTools, false), object, "", true},
		{"llama marked call", llama.MayCall(someTools, false), "<|python_tag|>" + object, "", true},
		{"llama no code", llama.MayCall(someTools, false), "<|python_tag|>print", "<|python_tag|>", false},
		{"llama near the mark", llama.MayCall(someTools, false), "<|pyramid|> {", "", true},
		{"llama no other object", llama.MayCall(someTools, false), `{"name": "no`, `{"name": "`, false},
		{"llama one call", llama.MayCall(someTools, false), object + object, object, false},
		{"mistral list", mistral.MayCall(someTools, false),
			`[TOOL_CALLS][{"name": "look_up", "arguments": {}}, {"name": "look_up", "arguments": {}}]`, "", true},
		{"mistral one", mistral.MayCall(someTools, true), `[TOOL_CALLS][{"name": "look_up", "arguments": {}}, `,
			`[TOOL_CALLS][{"name": "look_up", "arguments": {}}`, false},
		{"no thoughts", thoughtful, "yes", "", true},
		{"thoughts", thoughtful, "<think>a <</thi b</think>\n\nyes", "", true},
		{"thoughts end", thoughtful, "<think>a</think>no", "<think>a</think>", false},
		{"thoughts must end", thoughtful, "<think>yes", "", false},
		{"thinking", thinking, "</th</think>yes", "", true},
	} {
		allowed, complete := follow(t, c.g, c.text)
		want := c.upTo
		if want == "" {
			want = c.text
		}
		if c.name == "calls only" {
			want = ""
		}
		if allowed != want || c.upTo == "" && complete != c.complete {
			t.Errorf("%s: allowed %q, complete: %v", c.name, allowed, complete)
		}
	}
}
