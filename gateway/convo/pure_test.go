package convo

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"parley"
)

func TestForest(t *testing.T) {
	// a - b - d - f
	//   \ c   \ e      g
	forest := must(NewForest([]Node{{ID: "a"}, {ID: "b", Parent: "a"}, {ID: "c", Parent: "a"}, {ID: "d", Parent: "b"},
		{ID: "e", Parent: "b"}, {ID: "f", Parent: "d"}, {ID: "g"}}))(t)
	same(t, "path", forest.Path("f"), []string{"a", "b", "d", "f"})
	same(t, "path of a first one", forest.Path("g"), []string{"g"})
	same(t, "path of none", forest.Path("x"), []string(nil))
	same(t, "tip", forest.Tip("a"), "c")
	same(t, "tip of b", forest.Tip("b"), "e")
	same(t, "tip of a leaf", forest.Tip("f"), "f")
	same(t, "siblings", forest.siblings("b"), []string{"b", "c"})
	same(t, "first ones", forest.siblings("a"), []string{"a", "g"})
	same(t, "siblings of none", forest.siblings("x"), []string(nil))
	for _, bad := range [][]Node{{{ID: "a", Parent: "a"}}, {{ID: "a", Parent: "b"}, {ID: "b", Parent: "a"}},
		{{ID: "a"}, {ID: "a"}}, {{}}} {
		_, err := NewForest(bad)
		refused(t, err, parley.InvalidRequest)
	}
}

func TestFitContext(t *testing.T) {
	// Each entry is a role's letter and its tokens: system, user, assistant, tool.
	path := func(text string) (messages []MessageSize) {
		for word := range strings.FieldsSeq(text) {
			tokens := 0
			for _, digit := range word[1:] {
				tokens = 10*tokens + int(digit-'0')
			}
			messages = append(messages,
				MessageSize{map[byte]string{'s': "system", 'u': "user", 'a': "assistant", 't': "tool"}[word[0]],
					tokens})
		}
		return messages
	}
	for _, c := range []struct {
		name   string
		policy Policy
		path   string
		budget Budget
		want   Fit
		fails  bool
	}{
		{"all fits", Refuse, "s5 u10 a10", Budget{Tokens: 25}, Fit{Tokens: 25}, false},
		{"refused", Refuse, "s5 u10 a10 u1", Budget{Tokens: 25}, Fit{}, true},
		{"no policy refuses", "", "u10 a10 u10", Budget{Tokens: 25}, Fit{}, true},
		{"the first turn goes", Drop, "s5 u10 a10 u10 a10 u10", Budget{Tokens: 40},
			Fit{Cut: 3, Out: []int{1, 2}, Tokens: 35}, false},
		{"whole turns go", Drop, "u10 a10 t10 a10 u10 a10 u10", Budget{Tokens: 60},
			Fit{Cut: 4, Out: []int{0, 1, 2, 3}, Tokens: 30}, false},
		{"instructions in the middle stay", Drop, "u10 s5 a10 u10 a10 u10", Budget{Tokens: 40},
			Fit{Cut: 3, Out: []int{0, 2}, Tokens: 35}, false},
		{"a stride at a time", Drop, "u5 a5 u5 a5 u5 a5 u5 a5 u1", Budget{Tokens: 40},
			Fit{Cut: 2, Out: []int{0, 1}, Tokens: 31}, false},
		{"the same cut a turn later", Drop, "u5 a5 u5 a5 u5 a5 u5 a5 u1 a4 u4", Budget{Tokens: 40},
			Fit{Cut: 2, Out: []int{0, 1}, Tokens: 39}, false},
		{"a stride too long is not needed", Drop, "u1 a1 u39", Budget{Tokens: 40},
			Fit{Cut: 2, Out: []int{0, 1}, Tokens: 39}, false},
		{"the last question stays", Drop, "u10 a10 u30", Budget{Tokens: 25}, Fit{}, true},
		{"one question only", Drop, "s10 u30", Budget{Tokens: 25}, Fit{}, true},
		{"room for a summary", Summarise, "s5 u10 a10 u10 a10 u10", Budget{Tokens: 45, SummaryTokens: 5},
			Fit{Cut: 3, Out: []int{1, 2}, Summarise: true, Tokens: 35}, false},
		{"no summary while all fits", Summarise, "u10 a10 u10", Budget{Tokens: 30, SummaryTokens: 20}, Fit{Tokens: 30},
			false},
		{"empty", Drop, "", Budget{}, Fit{}, false},
	} {
		got, err := FitContext(c.policy, path(c.path), c.budget)
		if (err != nil) != c.fails || err != nil && parley.CodeOf(err) != parley.ContextTooLong {
			t.Errorf("%s: got error %v", c.name, err)
		}
		same(t, c.name, got, c.want)
	}
}

// TestFitContextHolds grows random conversations turn by turn: what is kept
// fits, begins with a question, and its cut moves forward only, and not with
// every turn.
func TestFitContextHolds(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for range 200 {
		budget := Budget{Tokens: 100 + random.IntN(400), SummaryTokens: 20}
		path := []MessageSize{{"system", random.IntN(20)}}
		cut, moves, turns := 0, 0, 0
		for ; turns < 60; turns++ {
			path = append(path, MessageSize{"user", 1 + random.IntN(20)})
			fit, err := FitContext(Summarise, path, budget)
			check(t, err)
			room := budget.Tokens
			if fit.Summarise {
				room -= budget.SummaryTokens
			}
			sum := 0
			for i, m := range path {
				if !slices.Contains(fit.Out, i) {
					sum += m.Tokens
				}
			}
			if sum != fit.Tokens || sum > room || fit.Cut > 0 && path[fit.Cut].Role != "user" ||
				slices.Contains(fit.Out, 0) {
				t.Fatalf("%v under %v: %+v, sum %d", path, budget, fit, sum)
			}
			if fit.Cut < cut {
				t.Fatalf("the cut went back from %d to %d", cut, fit.Cut)
			}
			if fit.Cut > cut {
				moves++
			}
			cut = fit.Cut
			path = append(path, MessageSize{"assistant", 1 + random.IntN(20)})
		}
		if budget.Tokens > 200 && moves > turns/2 {
			t.Errorf("budget %d: the cut moved in %d of %d turns", budget.Tokens, moves, turns)
		}
	}
}

func TestPlaces(t *testing.T) {
	for _, p := range []pageCursor{{}, {1, "conv_a"}, {-5, "a.b.c"}, {1 << 62, strings.Repeat("x", NameMax)}} {
		got, err := parsePageCursor(p.encode())
		if err != nil || got != p {
			t.Errorf("%v came back as %v, %v", p, got, err)
		}
	}
	for _, bad := range []string{"", "!", "YQ", pageCursor{1, "a\nb"}.encode(),
		pageCursor{1, strings.Repeat("x", NameMax+1)}.encode()} {
		if p, err := parsePageCursor(bad); err == nil {
			t.Errorf("%q was read as %v", bad, p)
		}
	}
}

func FuzzParsePlace(f *testing.F) {
	f.Add(pageCursor{123, "conv_a"}.encode())
	f.Add("")
	f.Fuzz(func(t *testing.T, cursor string) {
		p, err := parsePageCursor(cursor)
		if err != nil {
			return
		}
		if again, err := parsePageCursor(p.encode()); err != nil || again != p {
			t.Errorf("%v came back as %v, %v", p, again, err)
		}
	})
}

func TestPlainText(t *testing.T) {
	for content, want := range map[string]string{
		"\"\xff\"": "\uFFFD",

		`"plain"`: "plain",
		`[{"type":"input_text","text":"a"},{"type":"input_image","image_url":"x"},{"type":"output_text","text":"b"}]`: "a\nb",
		`{"type":"message","role":"user","content":[{"type":"input_text","text":"a"}]}`:                               "a",
		`{"type":"reasoning","summary":[{"type":"summary_text","text":"thought"}]}`:                                   "thought",
		`{"type":"function_call_output","call_id":"c","output":"12\u0000 degrees"}`:                                   "12 degrees",
		`{"type":"refusal","refusal":"no"}`:                                                                           "no",
		`{"arguments":"{}","name":"f"}`:                                                                               "",
		`[[[[[[[[[["too deep"]]]]]]]]]]`:                                                                              "",
		`{"text":5}`:                                                                                                  "",
		`not JSON`:                                                                                                    "",
		`[{"content":"a","type":"message"},{"content":"b"}]`:                                                          "a\nb",
	} {
		if got := PlainText(json.RawMessage(content)); got != want {
			t.Errorf("%s gives %q, want %q", content, got, want)
		}
	}
}

func TestWords(t *testing.T) {
	for text, want := range map[string]string{
		"Hello, hello WORLD":     "hello world",
		"Café CRÈME naïve ﬁn":    "cafe creme fin naive",
		"x_1 2³ ½":               "1 12 23 x",
		"東京塔":                    "京塔 塔 東京",
		"abc東京abc":               "abc 京 東京",
		"":                       "",
		"\xff\x00 … — 🙂":         "",
		strings.Repeat("é", 200): strings.Repeat("e", wordBytesMax),
	} {
		if got := wordsOf(text); got != want {
			t.Errorf("%q gives %q, want %q", text, got, want)
		}
	}
	for query, want := range map[string][]string{"東京塔": {"京塔", "東京"}, "東": {"東"}, "b a B": {"a", "b"}} {
		same(t, query, must(queryWords(query))(t), want)
	}
}

func FuzzSearch(f *testing.F) {
	f.Add("a text about Café au lait", "cafe")
	f.Add("東京塔位於港區芝公園", "京塔")
	f.Add("İstanbul ǅ ŉ", "i")
	f.Fuzz(func(t *testing.T, text, query string) {
		text = storable(text)
		for word := range strings.FieldsSeq(wordsOf(text)) {
			if len(word) > wordBytesMax || !utf8.ValidString(word) || strings.ContainsAny(word, `"'*&|!():<\`) {
				t.Errorf("%q has the word %q", text, word)
			}
		}
		words, err := queryWords(query)
		if err != nil {
			words = nil
		}
		var shown strings.Builder
		for _, span := range snippetOf(text, words) {
			shown.WriteString(span.Text)
		}
		if s := shown.String(); !utf8.ValidString(s) || len(s) > snippetBefore+snippetAfter+2*indexBytesMax {
			t.Errorf("the snippet of %q for %q is %q", text, query, s)
		}
		if own, err := queryWords(text); err == nil {
			index := strings.Fields(wordsOf(text))
			for _, q := range own {
				if !slices.ContainsFunc(index, func(w string) bool { return strings.HasPrefix(w, q) }) {
					t.Errorf("%q does not find itself: %q is not in %q", text, q, index)
				}
			}
		}
	})
}

func TestSnippets(t *testing.T) {
	long := strings.Repeat("word ", 100) + "the needle is\n\n  here " + strings.Repeat("word ", 100)
	spans := snippetOf(long, []string{"needle"})
	if len(spans) != 3 || !spans[1].Hit || spans[1].Text != "needle" || len(spans[0].Text) > snippetBefore ||
		len(spans[2].Text) > snippetAfter || !strings.Contains(spans[2].Text, "is here") {
		t.Errorf("got %+v", spans)
	}
	same(t, "no hit", snippetOf("a\tb", []string{"x"}), []SnippetPart{{Text: "a b"}})
	same(t, "Markdown", snippetOf("Then:\n## Use `go_test` in **C#**\n- it *runs*", []string{"go"}),
		[]SnippetPart{{Text: "Then: Use "}, {Text: "go", Hit: true}, {Text: "_test in C# it *runs*"}})
}

// sampleArchive is an archive with everything in it.
func sampleArchive() *Archive {
	now := time.Date(2026, 5, 1, 10, 0, 0, 123000, time.UTC)
	return &Archive{Format: archiveFormat, Version: 1,
		Conversation: ArchivedConversation{Title: "t", Metadata: map[string]string{"a": "b"}, Policy: Drop, Leaf: "b",
			Created: now, Updated: now}, Messages: []ArchivedMessage{
			{ID: "a", Role: "user", Content: said("q"), Status: Completed, Created: now, Completed: now},
			{ID: "b", Parent: "a", Role: "assistant", Content: said("a"), Status: Failed, ErrorCode: parley.Overloaded,
				ErrorText: "full", InputTokens: 3, CostMicros: 4, DecodeMicros: 5, Created: now},
		}}
}

func TestArchiveIsChecked(t *testing.T) {
	for name, spoil := range map[string]func(a *Archive){
		"format":       func(a *Archive) { a.Format = "other" },
		"version":      func(a *Archive) { a.Version = ArchiveVersion + 1 },
		"title":        func(a *Archive) { a.Conversation.Title = "\n" },
		"leaf":         func(a *Archive) { a.Conversation.Leaf = "none" },
		"no leaf":      func(a *Archive) { a.Conversation.Leaf = "" },
		"parent":       func(a *Archive) { a.Messages[0].Parent = "b" },
		"double":       func(a *Archive) { a.Messages[1].ID = "a" },
		"role":         func(a *Archive) { a.Messages[0].Role = "ghost" },
		"status":       func(a *Archive) { a.Messages[0].Status = InProgress },
		"negative":     func(a *Archive) { a.Messages[0].InputTokens = -1 },
		"too early":    func(a *Archive) { a.Messages[0].Created = time.Date(1815, 1, 1, 0, 0, 0, 0, time.UTC) },
		"too many":     func(a *Archive) { a.Messages = make([]ArchivedMessage, MessagesMax+1) },
		"control code": func(a *Archive) { a.Messages[0].Finish = "\x00" },
	} {
		a := sampleArchive()
		spoil(a)
		var file bytes.Buffer
		check(t, a.WriteJSON(&file))
		if _, err := ParseArchive(file.Bytes()); parley.CodeOf(err) != parley.InvalidRequest {
			t.Errorf("%s: got %v", name, err)
		}
	}
	_, err := ParseArchive(make([]byte, ArchiveBytesMax+1))
	refused(t, err, parley.TooLarge)
}

func FuzzParseArchive(f *testing.F) {
	var file bytes.Buffer
	if err := sampleArchive().WriteJSON(&file); err != nil {
		f.Fatal(err)
	}
	f.Add(file.Bytes())
	f.Add([]byte(`{"format":"parley.conversation","version":1,"messages":[]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		a, err := ParseArchive(data)
		if err != nil {
			return
		}
		var written, page bytes.Buffer
		check(t, a.WriteJSON(&written))
		check(t, a.WriteMarkdown(&page))
		again, err := ParseArchive(written.Bytes())
		if err != nil {
			t.Fatalf("what was written cannot be read: %v", err)
		}
		var twice bytes.Buffer
		check(t, again.WriteJSON(&twice))
		if !bytes.Equal(written.Bytes(), twice.Bytes()) {
			t.Errorf("written as\n%s\nand then as\n%s", written.Bytes(), twice.Bytes())
		}
		for i := range a.Messages {
			m := a.Messages[i].message()
			if m.Text != storable(m.Text) {
				t.Errorf("the text %q cannot be stored", m.Text)
			}
		}
	})
}

// siblings returns the ids of all messages with the same parent as id, itself
// included, oldest first: the versions of a question or answer.
func (f *Forest) siblings(id string) []string {
	at, ok := f.at[id]
	if !ok {
		return nil
	}
	var ids []string
	for _, i := range f.children[f.nodes[at].Parent] {
		ids = append(ids, f.nodes[i].ID)
	}
	return ids
}
