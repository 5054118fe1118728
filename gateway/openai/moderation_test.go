package openai

import "testing"

func FuzzModeration(f *testing.F) {
	f.Add([]byte(`{"input":"x"}`))
	f.Add([]byte(`{"model":"m","input":["a",{"type":"text","text":"b"}]}`))
	f.Add([]byte(`{"input":[{"type":"image_url"}]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		r, err := ParseModeration(body)
		if err != nil {
			checkFuzzed(t, err)
		} else if len(r.Inputs) == 0 || len(r.Inputs) > moderationInputsMax {
			t.Errorf("accepted %d inputs", len(r.Inputs))
		}
	})
}
