package openai

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestRerankRefusals(t *testing.T) {
	for _, c := range []struct{ name, body, param, code, message string }{
		{"no query", `{"documents":["a"]}`, "query", "missing_required_parameter", "Missing"},
		{"no documents", `{"query":"a"}`, "documents", "missing_required_parameter", "Missing"},
		{"text", `{"query":"a","documents":"b"}`, "documents", "invalid_type", "an array of strings"},
		{"none", `{"query":"a","documents":[]}`, "documents", "empty_array", "at least one document"},
		{"empty", `{"query":"a","documents":["b",""]}`, "documents[1]", "empty_string", "at least one character"},
		{"number", `{"query":"a","documents":[1]}`, "documents[0]", "invalid_type", "'text'"},
		{"without text", `{"query":"a","documents":[{"title":"b"}]}`, "documents[0].text",
			"missing_required_parameter", "Missing"},
		{"many", `{"query":"a","documents":[` + strings.Repeat(`"b",`, documentsMax) + `"b"]}`, "documents",
			"array_above_max_length", "at most 1000 documents"},
		{"top", `{"query":"a","documents":["b"],"top_n":0}`, "top_n", "integer_below_min_value", ">= 1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := ParseRerank([]byte(c.body))
			checkRefusal(t, err, c.param, c.code, c.message)
		})
	}
}

func TestRerankAccepted(t *testing.T) {
	got, err := ParseRerank(
		[]byte(
			`{"model":"m","query":"q","documents":["a",{"text":"b","title":"t"}],"top_n":9,"return_documents":true,"max_tokens_per_doc":5}`))
	want := &RerankRequest{Model: "m", Top: 2, Quoted: true, Inputs: []Prompt{
		{Text: "q", Param: "query"}, {Text: "a", Param: "documents[0]"}, {Text: "b", Param: "documents[1]"}}}
	if err != nil || cmp.Diff(want, got) != "" {
		t.Errorf("%v %s", err, cmp.Diff(want, got))
	}
}

func FuzzRerankRequest(f *testing.F) {
	for _, body := range []string{`{"query":"a","documents":["b"]}`,
		`{"query":"a","documents":[{"text":"b"}],"top_n":1,"return_documents":true}`, `{"query":1,"documents":[`} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		r, err := ParseRerank(body)
		if err != nil {
			checkFuzzed(t, err)
			return
		}
		if n := len(r.Documents()); n < 1 || n > documentsMax || r.Top < 1 || r.Top > n {
			t.Errorf("accepted %+v", r)
		}
	})
}
