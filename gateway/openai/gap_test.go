package openai

import "testing"

func FuzzFIMRequest(f *testing.F) {
	for _, body := range []string{`{"prompt":"a"}`,
		`{"prompt":"a","suffix":"b","suffix_first":true,"single_line":true,"user":"u"}`,
		`{"prompt":[1,2],"suffix":[3],"max_tokens":5,"random_seed":1,"prompt_cache_key":"k"}`, `{"prompt":{}}`,
		`{"prompt":"a","suffix":[`,
		`{"prompt":"a","prompt_cache_options":{"ttl":"30m"},"prompt_cache_retention":"24h"}`} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		r, err := ParseFIM(body)
		if err != nil {
			checkFuzzed(t, err)
			return
		}
		if r.MaxTokens < 1 || r.Gap != nil && len(r.Gap.Session) > sessionBytesMax || r.Retain < 0 ||
			r.Retain > retainMax {
			t.Errorf("accepted %+v", r)
		}
		if err := r.CheckVocab(100); err != nil {
			checkFuzzed(t, err)
		}
	})
}
