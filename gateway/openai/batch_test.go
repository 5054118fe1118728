package openai

import (
	"encoding/json"
	"net/url"
	"strings"
	"testing"
)

func TestBatchRefusals(t *testing.T) {
	for _, c := range []struct{ body, param, code, message string }{
		{`{}`, "input_file_id", "missing_required_parameter", "Missing"},
		{`{"input_file_id":"f","endpoint":"/v1/responses","completion_window":"24h"}`, "endpoint", "invalid_value",
			"'/v1/chat/completions', '/v1/completions', '/v1/embeddings'"},
		{`{"input_file_id":"f","endpoint":"/v1/completions","completion_window":"1h"}`, "completion_window",
			"invalid_value", "'24h'"},
		{`{"input_file_id":"f","endpoint":"/v1/completions","completion_window":"24h","metadata":{"a":1}}`,
			"metadata.a", "invalid_type", "a string"},
		{`{"input_file_id":"f","endpoint":"/v1/completions","completion_window":"24h","output_expires_after":{"anchor":"created_at","seconds":1}}`,
			"output_expires_after.seconds", "integer_below_min_value", ">= 3600"},
	} {
		_, err := ParseBatch([]byte(c.body))
		checkRefusal(t, err, c.param, c.code, c.message)
	}
	r, err := ParseBatch(
		[]byte(
			`{"input_file_id":"f","endpoint":"/v1/embeddings","completion_window":"24h","metadata":{"a":"b"},"output_expires_after":{"anchor":"created_at","seconds":4000}}`))
	if err != nil || r.InputFileID != "f" || r.Endpoint != "/v1/embeddings" || r.Metadata["a"] != "b" ||
		r.OutputSeconds != 4000 {
		t.Errorf("%+v %v", r, err)
	}
}

func TestPages(t *testing.T) {
	for query, param := range map[string]string{"limit=0": "limit", "limit=x": "limit", "limit=101": "limit",
		"order=up": "order"} {
		values, _ := url.ParseQuery(query)
		_, err := ParsePage(values, 20, 100)
		checkRefusal(t, err, param, "invalid_value", "Invalid")
	}
	values, _ := url.ParseQuery("after=a&order=asc&purpose=batch&limit=100")
	if p, err := ParsePage(values, 20, 100); err != nil ||
		p != (Page{After: "a", Limit: 100, Ascending: true, Purpose: "batch"}) {
		t.Errorf("%+v %v", p, err)
	}
}

func FuzzBatchLine(f *testing.F) {
	f.Add([]byte(`{"custom_id":"a","method":"POST","url":"/v1/completions","body":{"prompt":"x"}}`))
	f.Add([]byte(`{"custom_id":"a","method":"POST","url":"/v1/completions","body":{"stream":true}}`))
	f.Add([]byte(`{"custom_id":`))
	f.Fuzz(func(t *testing.T, line []byte) {
		l, err := ParseBatchLine(line)
		if err != nil {
			checkFuzzed(t, err)
			if e := BatchErrorOf(err, 1); e.Code == "" || e.Message == "" {
				t.Errorf("%+v", e)
			}
			return
		}
		if l.CustomID == "" || len(l.CustomID) > customIDBytesMax || !json.Valid(l.Body) ||
			!strings.HasPrefix(string(l.Body), "{") {
			t.Errorf("accepted %+v", l)
		}
	})
}

func FuzzBatchRequest(f *testing.F) {
	f.Add(
		[]byte(
			`{"input_file_id":"f","endpoint":"/v1/embeddings","completion_window":"24h","metadata":{"a":"b"},"output_expires_after":{"anchor":"created_at","seconds":4000}}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		if r, err := ParseBatch(body); err != nil {
			checkFuzzed(t, err)
		} else if r.Endpoint == "" || len(r.Metadata) > 16 {
			t.Errorf("accepted %+v", r)
		}
	})
}
