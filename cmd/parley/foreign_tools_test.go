package main

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"parley/internal/supervise"
	"parley/internal/testkit"
)

// A calledTool is a call in an answer.
type calledTool struct{ Name, Arguments string }

// A toolAnswer is what a request with tools got, put together from a stream or not.
type toolAnswer struct {
	Status         int
	Text, Thoughts string
	Finish, Error  string
	Calls          []calledTool
	Chunks         int
}

// A toolMessage is a message of an answer, or a part of one.
type toolMessage struct {
	Content   string `json:"content"`
	Reasoning string `json:"reasoning_content"`
	ToolCalls []struct {
		Index    int        `json:"index"`
		Function calledTool `json:"function"`
		Custom   struct{ Name, Input string }
	} `json:"tool_calls"`
}

// askTools asks about the capital of France; more are further members of the request.
func askTools(t *testing.T, at, more string, stream bool) toolAnswer {
	t.Helper()
	return askToolsOf(t, at, "What is the capital of France?", `"max_tokens":400,`+more, stream)
}

// askToolsOf asks a question.
func askToolsOf(t *testing.T, at, question, more string, stream bool) (a toolAnswer) {
	t.Helper()
	body := fmt.Sprintf(`{"model":"polly-mini","temperature":0,"stream":%v,`+
		`"messages":[{"role":"user","content":%q}],%s}`, stream, question, more)
	resp, err := http.Post(at+"/v1/chat/completions", "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	a.Status = resp.StatusCode
	if !stream || resp.StatusCode != http.StatusOK {
		a.take(t, bodyOf(t, resp))
		return a
	}
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok && data != "[DONE]" {
			a.take(t, []byte(data))
		}
	}
	return a
}

// take adds one answer or one event of a stream.
func (a *toolAnswer) take(t *testing.T, data []byte) {
	t.Helper()
	var part struct {
		Error   *struct{ Message, Param string }
		Choices []struct {
			Message, Delta toolMessage
			FinishReason   string `json:"finish_reason"`
		}
	}
	if err := json.Unmarshal(data, &part); err != nil {
		t.Fatalf("%v: %s", err, data)
	}
	a.Chunks++
	if part.Error != nil {
		a.Error = part.Error.Param + ": " + part.Error.Message
	}
	for _, c := range part.Choices {
		a.Finish += c.FinishReason
		for _, m := range []toolMessage{c.Message, c.Delta} {
			a.Text += m.Content
			a.Thoughts += m.Reasoning
			for i, call := range m.ToolCalls {
				at := max(i, call.Index)
				for len(a.Calls) <= at {
					a.Calls = append(a.Calls, calledTool{})
				}
				a.Calls[at].Name += call.Function.Name + call.Custom.Name
				a.Calls[at].Arguments += call.Function.Arguments + call.Custom.Input
			}
		}
	}
}

// shellTool is a tool with two arguments, whose values are short enough for a small model to end them.
func shellTool(name string, strict bool) string {
	return `{"type":"function","function":{"name":"` + name + `","strict":` + strconv.FormatBool(strict) +
		`,"parameters":{"type":"object","properties":{"word":{"type":"string","maxLength":12},` +
		`"n":{"type":"integer"}},"required":["word","n"],"additionalProperties":false}}}`
}

// wrong says what is wrong with the arguments of a call of shellTool.
func (c *calledTool) wrong() error {
	var args struct {
		Word *string
		N    *int64
	}
	in := json.NewDecoder(strings.NewReader(c.Arguments))
	in.DisallowUnknownFields()
	if err := in.Decode(&args); err != nil {
		return err
	}
	if args.Word == nil || args.N == nil || len([]rune(*args.Word)) > 12 {
		return fmt.Errorf("arguments %s", c.Arguments)
	}
	return nil
}

// A prompter stands before llama-server and has it say a text: it adds a grammar that allows nothing else
// to requests that have none. Tokens, ids, streams and ends are llama-server's own.
type prompter struct {
	*httptest.Server
	say string
}

func newPrompter(t *testing.T, to string) *prompter {
	t.Helper()
	target, err := url.Parse(to)
	if err != nil {
		t.Fatal(err)
	}
	p := &prompter{}
	behind := &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(target) },
		FlushInterval: -1,
	}
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/completion" && p.say != "" {
			body, err := io.ReadAll(r.Body)
			var fields map[string]any
			if err = cmp.Or(err, json.Unmarshal(body, &fields)); err != nil {
				t.Error(err)
			}
			if fields["grammar"] == nil && fields["json_schema"] == nil {
				fields["grammar"] = "root ::= " + strconv.Quote(p.say)
			}
			body, _ = json.Marshal(fields)
			r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
			r.Header.Del("Content-Length")
		}
		behind.ServeHTTP(w, r)
	}))
	t.Cleanup(p.Close)
	return p
}

// frontOfKind serves a model with one worker of a kind.
func frontOfKind(t *testing.T, model, kind, at string) *crew {
	t.Helper()
	c := frontOf(t, "model: polly-mini="+model+"\npools: [{name: foreign, purpose: any, workers: [{url: \""+at+
		"\", kind: "+kind+"}]}]\n")
	c.ready(1)
	return c
}

const (
	cityFormat = `"response_format":{"type":"json_schema","json_schema":{"name":"x","strict":true,"schema":{"type":"object",` +
		`"properties":{"city":{"enum":["Paris","Rome"]}},"required":["city"],"additionalProperties":false}}}`
	patchTool = `{"type":"custom","custom":{"name":"patch","format":{"type":"grammar","grammar":{"syntax":"regex",` +
		`"definition":"[a-z]{3}-[0-9]{2}"}}}}`
	uniqueTool = `{"type":"function","function":{"name":"unique","strict":true,"parameters":{"type":"object",` +
		`"properties":{"a":{"type":"array","items":{"type":"integer"},"uniqueItems":true}},"required":["a"],` +
		`"additionalProperties":false}}}`
)

// TestLlamaServerCallsTools has llama-server call tools through the real server, in every way that docs/workers.md
// promises, as streams and whole.
func TestLlamaServerCallsTools(t *testing.T) {
	before := newPrompter(t, startLlama(t))
	c := frontOfKind(t, "polly-mini", "llamacpp", before.URL)
	two := `"tools":[` + shellTool("shell", false) + `,` + shellTool("other", false) + `]`
	strict := `"tools":[` + shellTool("shell", true) + `,` + shellTool("other", true) + `]`
	named := `,"parallel_tool_calls":false,"tool_choice":{"type":"function","function":{"name":"other"}}`
	required := `,"parallel_tool_calls":false,"tool_choice":"required"`
	said := `I look. <tool_call>` + "\n" + `{"name": "shell", "arguments": {"word": "ls", "n": 1}}` + "\n</tool_call>"
	for name, k := range map[string]struct {
		say, more string
		check     func(a toolAnswer) error
	}{
		"auto, no call": {"It is Paris.", two, answerIs("It is Paris.")},
		"auto, a call":  {said, two, callsAre("I look.", "shell", `{"word": "ls", "n": 1}`)},
		"auto, strict":  {"", strict, answerHas("Paris")},
		"required":      {"", two + required, oneCallOf("shell", "other")},
		"required, strict": {"", strict + required,
			oneCallOf("shell", "other")},
		"named":         {"", two + named, oneCallOf("other")},
		"named, strict": {"", strict + named, oneCallOf("other")},
		"format":        {"", cityFormat, cityAnswer},
		"format beside tools": {"", two + `,` + cityFormat,
			cityAnswer},
		"custom tool": {"", `"tools":[` + patchTool + `],"parallel_tool_calls":false,"tool_choice":"required"`,
			patchCall},
		"what GBNF cannot say": {"", `"tools":[` + uniqueTool + `],"tool_choice":"required"`,
			refusedBy("uniqueItems")},
		"what llama-server cannot do": {"", cityFormat + `,"parley":{"finish_json":true}`,
			refusedBy("engines of kind llamacpp do not support parley.finish_json")},
	} {
		for _, stream := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, stream %v", name, stream), func(t *testing.T) {
				before.say = k.say
				a := askTools(t, c.front.url, k.more, stream)
				if err := k.check(a); err != nil {
					t.Errorf("%v: %+v", err, a)
				}
				if stream && a.Status == http.StatusOK && a.Chunks < 3 {
					t.Errorf("the stream has %d chunks: %+v", a.Chunks, a)
				}
			})
		}
	}
}

func answerIs(text string) func(toolAnswer) error {
	return func(a toolAnswer) error {
		if a.Status != http.StatusOK || a.Text != text || a.Finish != "stop" || len(a.Calls) > 0 {
			return fmt.Errorf("want the text %q", text)
		}
		return nil
	}
}

func answerHas(text string) func(toolAnswer) error {
	return func(a toolAnswer) error {
		if a.Status != http.StatusOK || !strings.Contains(a.Text, text) || len(a.Calls) > 0 {
			return fmt.Errorf("want a text with %q", text)
		}
		return nil
	}
}

func callsAre(text, name, arguments string) func(toolAnswer) error {
	return func(a toolAnswer) error {
		if strings.TrimSpace(a.Text) != text || a.Finish != "tool_calls" ||
			!slices.Equal(a.Calls, []calledTool{{name, arguments}}) {
			return fmt.Errorf("want a call of %s(%s) after %q", name, arguments, text)
		}
		return nil
	}
}

func oneCallOf(names ...string) func(toolAnswer) error {
	return func(a toolAnswer) error {
		if len(a.Calls) != 1 || !slices.Contains(names, a.Calls[0].Name) || a.Finish != "tool_calls" || a.Text != "" {
			return fmt.Errorf("want one call of %v", names)
		}
		return a.Calls[0].wrong()
	}
}

func cityAnswer(a toolAnswer) error {
	var city map[string]string
	if err := json.Unmarshal([]byte(a.Text), &city); err != nil {
		return err
	}
	if len(city) != 1 || city["city"] != "Paris" && city["city"] != "Rome" || a.Finish != "stop" {
		return fmt.Errorf("want a city")
	}
	return nil
}

func patchCall(a toolAnswer) error {
	if len(a.Calls) != 1 || a.Calls[0].Name != "patch" || len(a.Calls[0].Arguments) != len("abc-12") ||
		a.Calls[0].Arguments[3] != '-' || a.Finish != "tool_calls" {
		return fmt.Errorf("want a call of patch")
	}
	return nil
}

func refusedBy(words string) func(toolAnswer) error {
	return func(a toolAnswer) error {
		if a.Status != http.StatusBadRequest || !strings.Contains(a.Error, words) {
			return fmt.Errorf("want it rejected with %q", words)
		}
		return nil
	}
}

// thinkingModel writes polly-mini as a model that thinks: with the template and the marks of one.
func thinkingModel(t *testing.T) string {
	t.Helper()
	const template = "{% for m in messages %}{{ '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n' }}" +
		"{% endfor %}{{ '<|im_start|>assistant\\n<think>\\n' }}"
	content, err := os.ReadFile(testkit.Root() + "/internal/builtin/polly-mini.gguf")
	if err != nil {
		t.Fatal(err)
	}
	text := func(s string) []byte { return append(binary.LittleEndian.AppendUint64(nil, uint64(len(s))), s...) }
	long := len(content)
	for _, mark := range [][2]string{{"<|fim_prefix|>", "<think>"}, {"<|fim_suffix|>", "</think>"}} {
		content = bytes.Replace(content, text(mark[0]), text(mark[1]), 1)
		quoted := strconv.Quote(mark[1]) + strings.Repeat(" ", len(mark[0])-len(mark[1]))
		content = bytes.ReplaceAll(content, []byte(strconv.Quote(mark[0])), []byte(quoted)) // in the JSON
	}
	key := []byte("tokenizer.chat_template")
	at := bytes.Index(content, key) + len(key) + 4 // after the type
	room := int(binary.LittleEndian.Uint64(content[at:]))
	// The template takes up what the marks are shorter, so that the tensors stay where they are.
	filled := template + "{#" + strings.Repeat(" ", room+long-len(content)-len(template)-4) + "#}"
	content = slices.Concat(content[:at], text(filled), content[at+8+room:])
	path := filepath.Join(t.TempDir(), "thinking.gguf")
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestLlamaServersThoughts reads thoughts from what llama-server says, alone, before a call and before a format.
func TestLlamaServersThoughts(t *testing.T) {
	model := thinkingModel(t)
	at := startLlamaWith(t, "-m", model, "-c", "4096", "-np", "4", "-t", "1", "--alias", "polly-mini")
	before := newPrompter(t, at)
	c := frontOfKind(t, model, "llamacpp", before.URL)
	tools := `"tools":[` + shellTool("shell", false) + `]`
	call := "<tool_call>\n" + `{"name": "shell", "arguments": {"word": "ls", "n": 1}}` + "\n</tool_call>"
	for name, k := range map[string]struct {
		say, more string
		check     func(a toolAnswer) error
	}{
		"text": {"I know it.\n</think>\n\nIt is Paris.", `"n":1`, answerIs("It is Paris.")},
		"call": {"I know it.\n</think>\n\n" + call, tools, callsAre("", "shell", `{"word": "ls", "n": 1}`)},
	} {
		for _, stream := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, stream %v", name, stream), func(t *testing.T) {
				before.say = k.say
				a := askTools(t, c.front.url, k.more, stream)
				if err := k.check(a); err != nil || strings.TrimSpace(a.Thoughts) != "I know it." {
					t.Errorf("%v: %+v", err, a)
				}
			})
		}
	}
}

// startChatSimulator starts llm-d-inference-sim, a double of vLLM, which PARLEY_VLLM_SIM names, with more flags.
func startChatSimulator(t *testing.T, more ...string) string {
	t.Helper()
	program := os.Getenv("PARLEY_VLLM_SIM")
	if program == "" {
		t.Skip("NOT RUN: tools on a double of vLLM. Build llm-d-inference-sim (github.com/llm-d) and name it in " +
			"PARLEY_VLLM_SIM")
	}
	addr, err := supervise.FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	port := addr[strings.LastIndex(addr, ":")+1:]
	cmd := exec.Command(program, append([]string{"--model", "polly-mini", "--port", port,
		"--force-dummy-tokenizer", "--max-model-len", "2048", "--seed", "1"}, more...)...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	return "http://" + addr
}

// TestSimulatorCallsTools has a double of vLLM call tools by its own means, as a server with chat alone: it is sent the
// tools, and makes up arguments by their schemas. It ends each of two calls with a reason of its own.
func TestSimulatorCallsTools(t *testing.T) {
	at := startChatSimulator(t, "--mode", "random", "--tool-call-extra-call-probability", "100")
	c := frontOfKind(t, "polly-mini", "openai-chat", at)
	two := `"tools":[` + shellTool("shell", false) + `,` + shellTool("other", false) + `]`
	for _, stream := range []bool{false, true} {
		a := askTools(t, c.front.url, two+`,"tool_choice":"required"`, stream)
		if len(a.Calls) != 2 || a.Finish != "tool_calls" || a.Error != "" {
			t.Errorf("stream %v, required: %+v", stream, a)
		}
		for _, call := range a.Calls {
			if err := call.wrong(); err != nil {
				t.Errorf("stream %v, %+v: %v", stream, call, err)
			}
		}
		a = askTools(t, c.front.url, two+`,"tool_choice":{"type":"function","function":{"name":"other"}}`, stream)
		if len(a.Calls) == 0 || a.Calls[0].Name != "other" || a.Finish != "tool_calls" {
			t.Errorf("stream %v, named: %+v", stream, a)
		}
		a = askTools(t, c.front.url, `"structured_outputs":{"regex":"[a-z]+"}`, stream)
		if err := refusedBy("engines of kind openai-chat do not support this grammar")(a); err != nil {
			t.Errorf("stream %v: %v: %+v", stream, err, a)
		}
	}
}

// TestSimulatorTakesTools has a double of vLLM read what vLLM is sent for tools. It says what it likes, so only the
// form of the answers is compared, and what is rejected before it is asked.
func TestSimulatorTakesTools(t *testing.T) {
	c := frontOfKind(t, "polly-mini", "vllm", startChatSimulator(t, "--mode", "random"))
	for _, more := range []string{
		`"tools":[` + shellTool("shell", false) + `]`,
		`"tools":[` + shellTool("shell", true) + `]`,
		`"tools":[` + shellTool("shell", false) + `],"tool_choice":"required"`,
		`"tools":[` + shellTool("shell", true) + `],"tool_choice":{"type":"function","function":{"name":"shell"}}`,
		cityFormat,
	} {
		for _, stream := range []bool{false, true} {
			a := askTools(t, c.front.url, more, stream)
			ended := a.Finish == "stop" || a.Finish == "length"
			if a.Status != http.StatusOK || a.Text == "" || a.Error != "" || !ended {
				t.Errorf("%s, stream %v: %+v", more, stream, a)
			}
		}
	}
	a := askTools(t, c.front.url, `"tools":[`+uniqueTool+`],"tool_choice":"required"`, false)
	if err := refusedBy("uniqueItems")(a); err != nil {
		t.Errorf("%v: %+v", err, a)
	}
}
