package dialect

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

func dialectNamed(t testing.TB, name string) *Syntax {
	for _, s := range Table {
		if s.Name == name {
			return s
		}
	}
	t.Fatalf("there is no dialect %s", name)
	return nil
}

// A reading is a whole choice as plain values.
type reading struct {
	Reasoning, Text string
	Calls           []string
	Complete        int
	Contents        string
}

// readIn reads a text in pieces of the lengths that cut returns.
func readIn(r *Reader, text string, cutOff bool, cut func(left int) int) reading {
	var got reading
	var calls []CallFragment
	add := func() {
		for _, p := range r.Parts() {
			got.Reasoning += p.Thoughts
			got.Text += p.Text
			switch {
			case p.Call == nil:
			case p.Call.Index == len(calls):
				calls = append(calls, *p.Call)
			default:
				calls[p.Call.Index].Arguments += p.Call.Arguments
			}
		}
	}
	for rest := text; rest != ""; {
		n := cut(len(rest))
		r.Read(rest[:n])
		rest = rest[n:]
		add()
	}
	r.End(cutOff)
	add()
	got.Complete = r.Complete()
	for _, c := range calls {
		got.Calls = append(got.Calls, c.ID+" "+c.Name+c.Arguments)
	}
	for i := range len(text) {
		if r.IsContent(i) {
			got.Contents += text[i : i+1]
		}
	}
	return got
}

func testReader(d *Syntax, thoughts *Thoughts, thinking bool) *Reader {
	ids := 0
	return newReader(d, someTools, thoughts, thinking, func() string { ids++; return fmt.Sprintf("call_%d", ids) })
}

var readings = []struct {
	name, syntax, text string
	cut                bool
	want               reading
}{
	{"text", "hermes", "Hello <b>there</b> {\"name\": 1}", false, reading{Text: "Hello <b>there</b> {\"name\": 1}"}},
	{"call", "hermes", "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": [1, \"}\\\"\"]}}\n</tool_call>", false,
		reading{Calls: []string{`call_1 f{"a": [1, "}\""]}`}, Complete: 1}},
	{"text and calls", "hermes",
		"I look.\n<tool_call>{\"name\":\"f\",\"arguments\":{}}</tool_call>\n<tool_call>\n{\"name\": \"g-2\", " +
			"\"arguments\": {\"x\": {}}}\n</tool_call>\n", false,
		reading{Text: "I look.\n", Calls: []string{"call_1 f{}", `call_2 g-2{"x": {}}`}, Complete: 2}},
	{"text after calls", "hermes", "<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call> done", false,
		reading{Text: " done", Calls: []string{"call_1 f{}"}, Complete: 1}},
	{"opening of nothing", "hermes", "a <tool_call> b <tool_cal", false, reading{Text: "a <tool_call> b <tool_cal"}},
	{"opening twice", "hermes", "<tool_call><tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call>", false,
		reading{Text: "<tool_call>", Calls: []string{"call_1 f{}"}, Complete: 1}},
	{"arguments first", "hermes", "<tool_call>\n{\"arguments\": {}, \"name\": \"f\"}\n</tool_call>", false,
		reading{Text: "<tool_call>\n{\"arguments\": {}, \"name\": \"f\"}\n</tool_call>"}},
	{"broken tail", "hermes", "<tool_call>\n{\"name\": \"f\", \"arguments\": {}}, oh", false,
		reading{Text: "}, oh", Calls: []string{"call_1 f{}"}, Complete: 1}},
	{"cut in the head", "hermes", "Well. <tool_call>\n{\"name\": \"f", true, reading{Text: "Well. "}},
	{"ended in the head", "hermes", "Well. <tool_call>\n{\"name\": \"f", false,
		reading{Text: "Well. <tool_call>\n{\"name\": \"f"}},
	{"cut in the arguments", "hermes", "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": \"b", true,
		reading{Calls: []string{`call_1 f{"a": "b`}}},
	{"cut in the tail", "hermes", "<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool", true,
		reading{Calls: []string{"call_1 f{}"}, Complete: 1}},
	{"thoughts", "hermes", "\n<think>\nIs it <tool_call>? </thin </think>\n\nYes <think>", false,
		reading{Reasoning: "\nIs it <tool_call>? </thin ", Text: "Yes <think>"}},
	{"thoughts and a call", "hermes",
		"<think>hm</think>\n\n<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call>", false,
		reading{Reasoning: "hm", Calls: []string{"call_1 f{}"}, Complete: 1}},
	{"thoughts without end", "hermes", "<think>hm </thi", true, reading{Reasoning: "hm </thi"}},
	{"nearly thoughts", "hermes", " <thin", false, reading{Text: " <thin"}},
	{"nothing", "hermes", "", false, reading{}},
	{"space", "hermes", "  \n", false, reading{Text: "  \n"}},
	{"call", "llama", "{\"name\": \"f\", \"parameters\": {\"a\": 1}}", false,
		reading{Calls: []string{`call_1 f{"a": 1}`}, Complete: 1}},
	{"marked call", "llama", "<|python_tag|>{\"name\": \"f\", \"parameters\": {\"a\": 1}}", false,
		reading{Calls: []string{`call_1 f{"a": 1}`}, Complete: 1}},
	{"later object", "llama", "So: {\"name\": \"f\", \"parameters\": {}}", false,
		reading{Text: "So: {\"name\": \"f\", \"parameters\": {}}"}},
	{"other object", "llama", "{\"name\": \"f\", \"age\": {}}", false, reading{Text: "{\"name\": \"f\", \"age\": {}}"}},
	{"code", "llama", "<|python_tag|>print(1)", false, reading{Text: "<|python_tag|>print(1)"}},
	{"list", "mistral",
		"[TOOL_CALLS][{\"name\": \"f\", \"arguments\": {}}, {\"name\": \"g\", \"arguments\": {\"a\": [\"]\"]}}]", false,
		reading{Calls: []string{"call_1 f{}", `call_2 g{"a": ["]"]}`}, Complete: 2}},
	{"list twice opened", "mistral", "[TOOL_CALLS][TOOL_CALLS][{\"name\": \"f\", \"arguments\": {}}]", false,
		reading{Text: "[TOOL_CALLS]", Calls: []string{"call_1 f{}"}, Complete: 1}},
	{"list with a word", "mistral", "[TOOL_CALLS][{\"name\": \"f\", \"arguments\": {}} and", false,
		reading{Text: " and", Calls: []string{"call_1 f{}"}, Complete: 1}},
	{"ids", "mistral-ids", "Hm[TOOL_CALLS]f[CALL_ID]abcdefgh1[ARGS]{\"a\": 1}[TOOL_CALLS]g[CALL_ID]abcdefgh2[ARGS]{}",
		false,
		reading{Text: "Hm", Calls: []string{`abcdefgh1 f{"a": 1}`, "abcdefgh2 g{}"}, Complete: 2}},
	{"args", "mistral-args", "[TOOL_CALLS]f[ARGS]{\"a\": 1}[TOOL_CALLS]g[ARGS]{}", false,
		reading{Calls: []string{`call_1 f{"a": 1}`, "call_2 g{}"}, Complete: 2}},
}

func TestReader(t *testing.T) {
	for _, c := range readings {
		t.Run(c.syntax+"/"+c.name, func(t *testing.T) {
			c.want.Contents = c.want.Text
			for split := range len(c.text) + 1 {
				first := true
				got := readIn(testReader(dialectNamed(t, c.syntax), Thinking[0], false), c.text, c.cut,
					func(left int) int {
						if first && split > 0 && split < left {
							first = false
							return split
						}
						return left
					})
				if diff := cmp.Diff(c.want, got); diff != "" {
					t.Fatalf("cut at %d: %s", split, diff)
				}
			}
		})
	}
}

// TestReaderHoldsLittle checks that text and the strings of arguments are shown as soon as they cannot be anything
// else.
func TestReaderHoldsLittle(t *testing.T) {
	shown := func(r *Reader) (text string) {
		for _, p := range r.Parts() {
			if p.Text += p.Thoughts; p.Call != nil {
				p.Text += p.Call.Name + p.Call.Arguments
			}
			text += p.Text
		}
		return text
	}
	for _, c := range []struct {
		dialect string
		steps   []struct{ add, shown string }
	}{
		{"hermes", []struct{ add, shown string }{
			{"One <", "One "}, {"tool", ""}, {"s", "<tools"}, {" two", " two"}, {"<tool_call", ""},
			{"ing", "<tool_calling"}, {"<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": \"", `f{"a": "`},
			{"long", "long"},
		}},
		{"qwen-coder", []struct{ add, shown string }{
			{"Hm <tool_call>\n<function=look>", "Hm "}, {"\n<parameter=at>", "look{"}, {"\nsome \"text\"", `"at": "some \"text\"`},
			{"\n", ""}, {"more</para", `\nmore`}, {"meter>", `"`}, {"\n</function>\n</tool_call>", "}"},
		}},
		{"harmony", []struct{ add, shown string }{
			{"<|channel|>analysis<|mess", ""}, {"age|>Hm", "Hm"}, {"<|end|><|start|>assistant<|channel|>final", ""},
			{"<|message|>Yes", "Yes"},
		}},
	} {
		d := dialectNamed(t, c.dialect)
		r := testReader(d, d.thoughts, false)
		for _, s := range c.steps {
			r.Read(s.add)
			if got := shown(r); got != s.shown {
				t.Errorf("%s: after %q: %q, want %q", c.dialect, s.add, got, s.shown)
			}
		}
	}
}

func TestReaderStartsInThoughts(t *testing.T) {
	got := readIn(testReader(Table[0], Thinking[1], true), "so it is[/THINK] Yes.", false, func(left int) int {
		return left
	})
	if diff := cmp.Diff(reading{Reasoning: "so it is", Text: "Yes.", Contents: "Yes."}, got); diff != "" {
		t.Error(diff)
	}
}

// FuzzReader cuts texts anywhere: what is read is the same, and nothing but
// syntax and the space around it is lost.
func FuzzReader(f *testing.F) {
	for i, c := range readings {
		f.Add(c.text, uint64(i), uint8(i), i%2 == 0, i%3 == 0)
	}
	f.Fuzz(func(t *testing.T, text string, seed uint64, which uint8, cutOff, thinking bool) {
		if !utf8.ValidString(text) || len(text) > 4096 {
			t.Skip()
		}
		s := Table[int(which)%len(Table)]
		if s.frames != nil || s.primer != "" {
			thinking = false
		}
		want := readIn(testReader(s, Thinking[0], thinking), text, cutOff, func(left int) int { return left })
		random := rand.New(rand.NewPCG(seed, 1))
		got := readIn(testReader(s, Thinking[0], thinking), text, cutOff, func(left int) int {
			return 1 + random.IntN(left)
		})
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatal(diff)
		}
		if got.Text != got.Contents {
			t.Fatalf("the text is %q, its bytes are said to be %q", got.Text, got.Contents)
		}
		if len(got.Calls) == 0 && got.Reasoning == "" && !cutOff && !thinking && s.isPlain() &&
			!strings.Contains(text, Thinking[0].Open) && got.Text != text {
			t.Fatalf("%q was read as %q", text, got.Text)
		}
	})
}
