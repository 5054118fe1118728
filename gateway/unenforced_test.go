package gateway

import (
	"strings"
	"testing"
	"testing/synctest"

	"parley"
)

// TestUnenforcedKeywordsAreShown has a worker that holds an answer to a part of a schema: clients of all interfaces are
// told which keywords were left out, whole and in the last events of streams.
func TestUnenforcedKeywordsAreShown(t *testing.T) {
	const want = `"parley":{"unenforced":["contains","pattern"]}`
	left := "contains,pattern"
	synctest.Test(t, func(t *testing.T) {
		s := start(t, &worker{script: func(r *parley.Request) []say {
			said := speech(t, r, 0, "[]")
			said[len(said)-1].delta.Usage.Unenforced = left
			return said
		}}, roomy)
		for path, body := range map[string]string{
			"/v1/chat/completions": `"messages":[{"role":"user","content":"Hi"}]` + jsonFormat,
			"/v1/completions":      `"prompt":"Hi","guided_json":{"type":"array"}`,
			"/v1/responses":        `"input":"Hi","text":{"format":{"type":"json_schema","name":"a","schema":{}}}`,
			"/v1/messages":         `"max_tokens":9,"messages":[{"role":"user","content":"Hi"}]`,
		} {
			for _, extra := range []string{"", `,"stream":true`} {
				for _, left = range []string{"contains,pattern", ""} {
					_, answer := s.do("POST", path, `{"model":"`+modelID+`",`+body+extra+`}`)
					if n := strings.Count(answer, want); n == 0 != (left == "") || n > 1 {
						t.Errorf("%s%s, %q: %s", path, extra, left, answer)
					}
				}
			}
		}
	})
}
