package gateway

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"parley"
)

// TestCompact makes one item of a chain of responses, and goes on from that
// alone.
func TestCompact(t *testing.T) {
	published := loadSchema(t)
	synctest.Test(t, func(t *testing.T) {
		w := &worker{script: func(r *parley.Request) []say {
			if strings.Contains(tinyTokenizer().Decode(r.Prompt, false), "Summarise the conversation") {
				return speech(t, r, 0, "They greeted.<|im_end|>")
			}
			return speech(t, r, 0, "Yes<|im_end|>")
		}}
		s := startKept(t, w, roomy)
		_, first := s.call("POST", "/v1/responses", responseBody(`"Good morning"`, ""))
		_, body := s.do("POST", "/v1/responses/compact",
			fmt.Sprintf(`{"model":%q,"previous_response_id":%q,"input":"And now?"}`, modelID, first.text("id")))
		published.want(t, "CompactResource", body)
		o := parseObject(t, body)
		if o.text("object") != "response.compaction" || !strings.HasPrefix(o.text("id"), "resp_") ||
			o.at("usage", "output_tokens").(float64) == 0 {
			t.Errorf("got %s", body)
		}
		output := o["output"].([]any)
		item := object(output[0].(map[string]any))
		if len(output) != 2 || item.text("type") != "compaction" || !strings.HasPrefix(item.text("id"), "cmp_") ||
			item.text("encrypted_content") != base64.StdEncoding.EncodeToString([]byte("They greeted.")) {
			t.Fatalf("got %s", body)
		}
		if asked := w.askedText(len(w.asked) - 1); !strings.Contains(asked, "Good morning") ||
			strings.Contains(asked, "And now?") {
			t.Errorf("summed up: %q", asked)
		}
		_, rest, _ := strings.Cut(body, `"output":`)
		list := rest[:strings.Index(rest, `,"created_at"`)]
		status, next := s.call("POST", "/v1/responses", responseBody(list, ""))
		if asked := w.askedText(len(w.asked) - 1); status != 200 || !strings.Contains(asked,
			"Summary of the conversation before this:\nThey greeted.") || !strings.Contains(asked, "And now?") {
			t.Errorf("%d %v: asked %q", status, next, asked)
		}
		_, chained := s.call("POST", "/v1/responses",
			responseBody(`"Go on"`, `,"previous_response_id":"`+next.text("id")+`"`))
		if asked := w.askedText(len(w.asked) - 1); !strings.Contains(asked, "They greeted.") {
			t.Errorf("%v: the stored chain lost its beginning: %q", chained, asked)
		}
	})
}

func TestCompactRefusals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startKept(t, &worker{script: speak(t, "Yes<|im_end|>", 0)}, roomy)
		for body, want := range map[string]string{
			`{"model":"` + modelID + `"}`:                                          `missing_required_parameter`,
			`{"model":"nobody","input":"Hi"}`:                                      `model_not_found`,
			`{"model":"` + modelID + `","previous_response_id":"resp_x"}`:          `previous_response_not_found`,
			responseBody(`[{"type":"compaction"}]`, ""):                            `encrypted_content`,
			responseBody(`[{"type":"compaction","encrypted_content":"?"}]`, ""):    `did not write it`,
			responseBody(`[{"type":"compaction","encrypted_content":"//8="}]`, ""): `did not write it`,
		} {
			if status, o := s.call("POST", "/v1/responses/compact", body); status < 400 || status >= 500 ||
				!strings.Contains(fmt.Sprint(o), want) {
				t.Errorf("%s gives %d %v", body, status, o)
			}
		}
	})
}
