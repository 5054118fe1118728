package host

import (
	"encoding/json"
	"testing"
)

// FuzzQuestion reads bodies from strangers: what is taken must be a request that
// is within its bounds.
func FuzzQuestion(f *testing.F) {
	f.Add(
		[]byte(
			`{"prompt":[1,2],"n":2,"max_tokens":null,"stop":["a","b"],"logprobs":3,"logit_bias":{"5":1},"structured_outputs":{"json":"{}"}}`), false)
	f.Add(
		[]byte(
			`{"messages":[{"role":"user","content":[{"type":"text","text":"x"}]}],"logprobs":true,"top_logprobs":2,"response_format":{"type":"json_object"}}`), true)
	f.Fuzz(func(t *testing.T, body []byte, chat bool) {
		var q question
		if json.Unmarshal(body, &q) != nil {
			return
		}
		for i := range q.Messages {
			_, _ = q.Messages[i].text()
		}
		r, err := q.request(chat)
		if err == nil && (r.Choices < 1 || r.Choices > seqsDefault || r.MaxTokens < 0 || r.TopLogprobs < 0 ||
			r.TopLogprobs > 20) {
			t.Errorf("%s became %+v", body, r)
		}
	})
}
