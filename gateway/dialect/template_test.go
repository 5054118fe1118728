package dialect

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"parley/internal/testkit"
	"parley/token"
)

var testNow = time.Unix(1_700_000_000, 0)

// A tried tool has a member of every kind.
const weatherTools = `[{"type":"function","function":{"name":"weather_of","description":"Find it","parameters":{
	"type":"object","properties":{"city":{"type":"string","description":"which"},"n":{"type":"integer"},
	"b":{"type":"boolean"},"list":{"type":"array","items":{"type":"string"}},
	"o":{"type":"object","properties":{"k":{"type":"string"}}}},"required":["city"]}}}]`

var weatherCalls = []token.ToolCall{
	{ID: "call_0123456789", Name: "weather_of", Arguments: `{"city": "Par\"is <b>\nat 3", "n": 3, "b": true, ` +
		`"list": ["a", "b"], "o": {"k": "v"}}`},
	{ID: "call_9876543210", Name: "weather_of", Arguments: `{"city": "3"}`},
}

func weatherTool(t *testing.T) Tool {
	var list []struct {
		Function struct{ Parameters json.RawMessage }
	}
	if err := json.Unmarshal([]byte(weatherTools), &list); err != nil {
		t.Fatal(err)
	}
	return Tool{Name: "weather_of", Schema: list[0].Function.Parameters}
}

// templatesOf finds the templates to try: those shared with this project and more, if TEMPLATES names a folder.
func templatesOf(t *testing.T) []string {
	folder := os.Getenv("TEMPLATES")
	if folder == "" {
		folder = testkit.SharedData(t, "templates")
	}
	files, err := filepath.Glob(filepath.Join(folder, "*.jinja"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no templates in %s: %v", folder, err)
	}
	return files
}

// withTools reports whether a template speaks of tools.
func withTools(source string) bool { return strings.Contains(source, "tools") }

// TestTemplatesDescribeToolsThemselves has every template that knows tools describe them, write calls and results, and
// reads the calls back as they were. It prints how many there are; none may be missing.
func TestTemplatesDescribeToolsThemselves(t *testing.T) {
	all, known, native := 0, 0, 0
	for _, file := range templatesOf(t) {
		name := strings.TrimSuffix(filepath.Base(file), ".jinja")
		t.Run(name, func(t *testing.T) {
			raw, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			all++
			special := map[string]string{"bos_token": "<s>", "eos_token": "</s>"}
			template, err := token.NewChatTemplate(string(raw), special)
			if err != nil {
				t.Fatal(err)
			}
			tools := Open(vocabularyOf(t, name), template, testNow)
			if withTools(string(raw)) {
				known++
				if !tools.describes {
					t.Fatalf("the template does not describe tools: %+v", tools)
				}
				native++
			}
			for n := range 2 {
				roundTrip(t, &tools, template, weatherCalls[:n+1])
			}
		})
	}
	fmt.Printf("%d templates, %d with tools, %d of them describe tools themselves\n", all, known, native)
	if native < known || known*2 < all {
		t.Errorf("%d of %d", native, known)
	}
}

// TestTemplatesThatWriteCallsBadly has the gateway write earlier calls where a template would lose something of them,
// in the dialect of that template, which still describes the tools.
func TestTemplatesThatWriteCallsBadly(t *testing.T) {
	const head = `{% for t in tools %}{{ t|tojson }}{% endfor %}{% for m in messages %}<{{ m.role }}>` +
		`{% if m.tool_calls %}`
	const tail = `{% else %}{{ m.content }}{% endif %}{% endfor %}`
	each := func(call string) string { return "{% for c in m.tool_calls %}" + call + "{% endfor %}" }
	members := func(m string) string {
		return "{% for k, v in c.function.arguments.items() %}" + m + "{% if not loop.last %}, {% endif %}{% endfor %}"
	}
	object := `{"name": "{{ c.function.name }}", "arguments": {{ c.function.arguments|tojson }}}` +
		`{% if not loop.last %}, {% endif %}`
	python := `{{ c.function.name }}(` + members(`{{ k }}="{{ v }}"`) + `){% if not loop.last %}, {% endif %}`
	first := "{% set c = m.tool_calls[0] %}"
	for name, k := range map[string]struct {
		writes string
		want   string
		badly  bool
	}{
		"texts without quotes": {"[" + each(python) + "]", "pythonic-list", true},
		"one call of two":      {"<tool_calls>[" + first + object + "]</tool_calls>", "apriel", true},
		"all":                  {"<tool_calls>[" + each(object) + "]</tool_calls>", "hunyuan-a13b", false},
		"a list":               {"[" + each(object) + "]", "list", false},
		"a space":              {"[TOOL_CALLS] [" + each(object) + "]", "mistral-spaced", false},
	} {
		t.Run(name, func(t *testing.T) {
			template, err := token.NewChatTemplate(head+k.writes+tail, nil)
			if err != nil {
				t.Fatal(err)
			}
			tools := Open(tinyTokenizer(), template, testNow)
			if tools.Name != k.want || tools.writes == k.badly || !tools.describes {
				t.Errorf("%s: writes %v, describes %v", tools.Name, tools.writes, tools.describes)
			}
			roundTrip(t, &tools, template, weatherCalls)
		})
	}
}

// vocabularyOf has the marks by which a model is known whose template writes no calls.
func vocabularyOf(t *testing.T, name string) *token.Tokenizer {
	if strings.HasPrefix(name, "LFM2") {
		return tinyTokenizerWith(t, "<|tool_call_start|>", "<|tool_call_end|>")
	}
	return tinyTokenizer()
}

// roundTrip renders calls and reads them back.
func roundTrip(t *testing.T, tools *Tools, template *token.ChatTemplate, calls []token.ToolCall) {
	conversation := []token.Message{{Role: "user", Content: probeQuestion}, {Role: "assistant", ToolCalls: calls}}
	for i, c := range calls {
		result := token.Message{Role: "tool", ToolCallID: c.ID, Content: fmt.Sprint("result ", i)}
		conversation = append(conversation, result)
	}
	prompt, err := tools.Render(template, &ChatInput{
		Messages: conversation,
		Tools:    json.RawMessage(weatherTools),
		OpenTurn: true,
		Now:      testNow,
	})
	if err != nil {
		t.Fatalf("%s: %v", tools.Name, err)
	}
	before, said, _ := strings.Cut(prompt.String(), probeQuestion)
	if !strings.Contains(before, "Find it") && !strings.Contains(said, "Find it") {
		t.Errorf("%s: the tool is not described:\n%s", tools.Name, prompt)
	}
	anywhere := *tools.Syntax
	anywhere.onlyFirst = false
	r := newReader(&anywhere, []Tool{weatherTool(t)}, nil, false, func() string { return "" })
	got := readIn(r, said, false, func(left int) int { return left })
	for i, c := range calls {
		if !strings.Contains(said, fmt.Sprint("result ", i)) {
			t.Errorf("%s: result %d is not in the prompt:\n%s", tools.Name, i, said)
		}
		if !slices.ContainsFunc(got.Calls, func(g string) bool {
			_, arguments, _ := strings.Cut(g, " weather_of")
			return sameJSON(arguments, c.Arguments)
		}) {
			t.Errorf("%s: call %d: read %q from:\n%s", tools.Name, i, got.Calls, said)
		}
	}
}

func sameJSON(a, b string) bool {
	var x, y any
	return json.Unmarshal([]byte(a), &x) == nil && json.Unmarshal([]byte(b), &y) == nil && reflect.DeepEqual(x, y)
}
