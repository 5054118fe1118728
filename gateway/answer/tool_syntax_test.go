package answer

import (
	"encoding/json"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"parley"
	"parley/engine/grammar"
	"parley/gateway/openai"
	"parley/internal/testkit"
	"parley/token"
)

// templateSyntaxes is what the templates of real models are found to write. A
// plain template does not speak of tools, or in a way that is not in the table.
var templateSyntaxes = map[string]string{
	"Qwen-Qwen2.5-7B-Instruct":                    "hermes",
	"NousResearch-Hermes-3-Llama-3.1-8B-tool_use": "hermes",
	"Bielik-11B-v3.0-Instruct":                    "hermes",
	"ibm-granite-granite-4.1":                     "hermes",
	"MiMo-VL":                                     "hermes",
	"Reka-Edge":                                   "hermes",
	"meta-llama-Llama-3.2-3B-Instruct":            "llama",
	"mistralai-Mistral-Nemo-Instruct-2407":        "mistral",
	"Mistral-Small-3.2-24B-Instruct-2506":         "mistral-ids",
	"unsloth-mistral-Devstral-Small-2507":         "mistral-args",
	"GLM-4.7-Flash":                               "plain",
	"Qwen3-Coder":                                 "plain",
	"microsoft-Phi-3.5-mini-instruct":             "plain",
	"google-gemma-4-31B-it-interleaved":           "plain",
	"deepseek-ai-DeepSeek-V3.1":                   "plain",
}

func realTemplate(t *testing.T, name string) *token.ChatTemplate {
	source, err := os.ReadFile(testkit.SharedData(t, "templates", name+".jinja"))
	if err != nil {
		t.Fatal(err)
	}
	template, err := token.NewChatTemplate(string(source), map[string]string{"bos_token": "<s>", "eos_token": "</s>"})
	if err != nil {
		t.Fatal(err)
	}
	return template
}

// TestTemplates finds the syntax of real templates, and has them render a
// conversation with calls in it. What they wrote is read back as it was.
func TestTemplates(t *testing.T) {
	request, err := openai.ParseChat([]byte(`{"messages":[{"role":"user","content":"Hi"},
		{"role":"assistant","content":null,"tool_calls":[{"id":"call_0123456789","type":"function","function":{"name":"lookup","arguments":"{\"key\": \"blue\"}"}}]},
		{"role":"tool","tool_call_id":"call_0123456789","content":"the sky"}],
		"tools":[{"type":"function","function":{"name":"lookup","description":"Find it","parameters":{"type":"object","properties":{"key":{"type":"string","description":"what"}}}}}]}`))
	if err != nil {
		t.Fatal(err)
	}
	now := time.Unix(1_700_000_000, 0)
	for name, want := range templateSyntaxes {
		t.Run(name, func(t *testing.T) {
			template := realTemplate(t, name)
			box := OpenToolbox(tinyTokenizer(), template, now)
			if got := box.syntax.name; box.native && got != want || !box.native && want != "plain" {
				t.Fatalf("the syntax is %s, native: %v", got, box.native)
			}
			messages, tools, err := box.Messages(request)
			if err != nil {
				t.Fatal(err)
			}
			prompt, err := template.Render(messages,
				token.RenderOptions{Tools: tools, AddGenerationPrompt: true, Now: now})
			if err != nil {
				t.Fatal(err)
			}
			text := prompt.String()
			for _, part := range []string{"Find it", "lookup", "blue", "the sky"} {
				if !strings.Contains(text, part) {
					t.Errorf("%q is not in the prompt:\n%s", part, text)
				}
			}
			anywhere := *box.syntax
			anywhere.onlyFirst = false
			got := readIn(testReader(&anywhere, nil, false), text, false, func(left int) int { return left })
			if !slices.ContainsFunc(got.Calls, func(c string) bool {
				return strings.HasSuffix(c, `lookup{"key": "blue"}`)
			}) {
				t.Errorf("read %q from:\n%s", got.Calls, text)
			}
		})
	}
}

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

var someTools = []ToolGrammar{
	{"look",
		parley.JSONSchema(
			[]byte(
				`{"type":"object","properties":{"at":{"type":"string","maxLength":3}},"required":["at"],"additionalProperties":false}`), true)},
	{"look_up", parley.Literal("{}")},
}

// TestSyntaxesWriteWhatTheyRead writes calls at random under the grammar of
// each syntax: whatever comes out is read back as calls of the tools.
func TestSyntaxesWriteWhatTheyRead(t *testing.T) {
	masker := grammar.NewMasker(bytesAsTokens(), 1<<20)
	for _, s := range Syntaxes {
		g := s.Calls(someTools, 1, false)
		program, err := grammar.Compile(&g)
		if err != nil {
			t.Fatal(s.name, err)
		}
		several := 0
		for seed := range uint64(40) {
			random := rand.New(rand.NewPCG(seed, 2))
			text := writeAtRandom(masker.Start(program), random)
			got := readIn(testReader(s, nil, false), text, false, func(left int) int { return 1 + random.IntN(left) })
			if got.Text != "" || got.Complete != len(got.Calls) || got.Complete == 0 || s.single && got.Complete > 1 {
				t.Fatalf("%s: %q was read as %+v", s.name, text, got)
			}
			if got.Complete > 1 {
				several++
			}
			for _, call := range got.Calls {
				_, call, _ = strings.Cut(call, " ")
				name, arguments, _ := strings.Cut(call, "{")
				if !slices.ContainsFunc(someTools, func(t ToolGrammar) bool { return t.Name == name }) ||
					!json.Valid([]byte("{"+arguments)) {
					t.Errorf("%s: a call of %s with %s", s.name, name, arguments)
				}
			}
		}
		if several == 0 && !s.single {
			t.Errorf("%s: never more than one call", s.name)
		}
	}
}

// writeAtRandom takes any allowed byte until the text is over.
func writeAtRandom(m *grammar.Matcher, random *rand.Rand) string {
	var text []byte
	for !m.Final() {
		if m.Allowed(256) && random.IntN(3) == 0 {
			break
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
	hermes, llama, mistral := syntaxNamed(t, "hermes"), syntaxNamed(t, "llama"), syntaxNamed(t, "mistral")
	const call = "<tool_call>\n{\"name\": \"look_up\", \"arguments\": {}}\n</tool_call>"
	const object = `{"name": "look_up", "parameters": {}}`
	box := Tools{syntax: hermes, Thoughts: ThoughtMarkers[0]}
	thoughtful := *box.afterThoughts(new(parley.Literal("yes")), false)
	thinking := *box.afterThoughts(new(parley.Literal("yes")), true)
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

// TestSpecialMarks has vocabularies in which marks are special tokens: they are
// part of answers all the same.
func TestSpecialMarks(t *testing.T) {
	raw, err := os.ReadFile(testkit.Golden("tiny-llama", "tokenizer.json"))
	if err != nil {
		t.Fatal(err)
	}
	var file map[string]any
	if err := json.Unmarshal(raw, &file); err != nil {
		t.Fatal(err)
	}
	next := float64(tinyTokenizer().Size())
	added := file["added_tokens"].([]any)
	for i, mark := range []string{"[TOOL_CALLS]", "[ARGS]", "<|hidden|>"} {
		added = append(added, map[string]any{"id": next + float64(i), "content": mark, "special": true,
			"single_word": false, "lstrip": false, "rstrip": false, "normalized": false})
	}
	file["added_tokens"] = added
	changed, err := json.Marshal(file)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.WriteFile(dir+"/tokenizer.json", changed, 0o600); err != nil {
		t.Fatal(err)
	}
	tokenizer, err := token.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	ids, err := tokenizer.Encode("Hm[TOOL_CALLS]f[ARGS]{}<|hidden|>", token.Options{ParseSpecial: true})
	if err != nil {
		t.Fatal(err)
	}
	text := newText(tokenizer.NewAnswerDecoder(), nil)
	var said strings.Builder
	for _, id := range ids {
		said.WriteString(text.push(id))
	}
	said.WriteString(text.flush())
	if said.String() != "Hm[TOOL_CALLS]f[ARGS]{}" || tokenizer.Decode(ids, true) != "Hmf{}" {
		t.Errorf("said %q, without special tokens %q", said.String(), tokenizer.Decode(ids, true))
	}
}
