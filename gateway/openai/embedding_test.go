package openai

import (
	"encoding/base64"
	"encoding/binary"
	"math"
	"strings"
	"testing"

	"parley"

	"github.com/google/go-cmp/cmp"
)

func TestEmbeddingRefusals(t *testing.T) {
	for _, c := range []struct{ name, body, param, code, message string }{
		{"no input", `{}`, "input", "missing_required_parameter", "Missing"},
		{"null", `{"input":null}`, "input", "missing_required_parameter", "Missing"},
		{"object", `{"input":{}}`, "input", "invalid_type", "array of token ids"},
		{"empty list", `{"input":[]}`, "input", "empty_array", "at least one input"},
		{"empty text", `{"input":""}`, "input", "empty_string", "empty string"},
		{"one empty text", `{"input":["a",""]}`, "input[1]", "empty_string", "empty string"},
		{"no tokens", `{"input":[[]]}`, "input[0]", "empty_array", "at least one token"},
		{"mixed", `{"input":[1,"a"]}`, "input[1]", "invalid_type", "an integer"},
		{"many", `{"input":[` + strings.Repeat(`"a",`, 2048) + `"a"]}`, "input", "array_above_max_length",
			"at most 2048 inputs"},
		{"format", `{"input":"a","encoding_format":"int8"}`, "encoding_format", "invalid_value", "'float', 'base64'"},
		{"dimensions", `{"input":"a","dimensions":0}`, "dimensions", "integer_below_min_value", ">= 1"},
		{"model", `{"input":"a","model":1}`, "model", "invalid_type", "a string"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := ParseEmbedding([]byte(c.body))
			checkRefusal(t, err, c.param, c.code, c.message)
		})
	}
	r, err := ParseEmbedding([]byte(`{"input":[3,9],"dimensions":5}`))
	if err != nil {
		t.Fatal(err)
	}
	checkRefusal(t, r.CheckVocab(9), "input", "invalid_value", "token id 9")
	checkRefusal(t, r.CheckWidth(4), "dimensions", "integer_above_max_value", "<= 4, but got 5")
	if err := r.CheckWidth(5); err != nil {
		t.Error(err)
	}
}

func TestEmbeddingAccepted(t *testing.T) {
	got, err := ParseEmbedding(
		[]byte(`{"model":"m","input":[[1,2],[3]],"encoding_format":"base64","dimensions":7,"user":"u"}`))
	want := &EmbeddingRequest{Model: "m", Base64: true, Dimensions: 7, Inputs: []Prompt{
		{Tokens: []parley.Token{1, 2}, IsTokens: true, Param: "input[0]"},
		{Tokens: []parley.Token{3}, IsTokens: true, Param: "input[1]"}}}
	if err != nil || cmp.Diff(want, got) != "" {
		t.Errorf("%v %s", err, cmp.Diff(want, got))
	}
}

func TestEmbeddingShape(t *testing.T) {
	vector := []float32{3, 4, 12}
	whole := (&EmbeddingRequest{}).Shape(2, vector)
	if diff := cmp.Diff(Embedding{"embedding", 2, []float32{3. / 13, 4. / 13, 12. / 13}}, whole); diff != "" {
		t.Error(diff)
	}
	cut := (&EmbeddingRequest{Dimensions: 2}).Shape(0, vector)
	if diff := cmp.Diff([]float32{0.6, 0.8}, cut.Embedding); diff != "" {
		t.Errorf("a cut vector has the length 1 again: %s", diff)
	}
	coded := (&EmbeddingRequest{Dimensions: 2, Base64: true}).Shape(0, vector)
	raw, err := base64.StdEncoding.DecodeString(coded.Embedding.(string))
	if err != nil || len(raw) != 8 || math.Float32frombits(binary.LittleEndian.Uint32(raw[4:])) != 0.8 {
		t.Errorf("%v %x", err, raw)
	}
	if diff := cmp.Diff([]float32{0, 0}, (&EmbeddingRequest{}).Shape(0, []float32{0, 0}).Embedding); diff != "" {
		t.Error(diff)
	}
}

func FuzzEmbeddingRequest(f *testing.F) {
	for _, body := range []string{`{"input":"a"}`, `{"input":["a","b"],"dimensions":3}`, `{"input":[1,2]}`,
		`{"input":[[1],[2,3]],"encoding_format":"base64"}`, `{"input":[`} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		r, err := ParseEmbedding(body)
		if err != nil {
			checkFuzzed(t, err)
			return
		}
		if n := len(r.Inputs); n < 1 || n > inputsMax || r.Dimensions < 0 {
			t.Errorf("accepted %+v", r)
		}
		if err := r.CheckVocab(100); err != nil {
			checkFuzzed(t, err)
		}
	})
}
