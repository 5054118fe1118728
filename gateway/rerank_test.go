package gateway

import (
	"context"
	"iter"
	"strings"
	"testing"
	"testing/synctest"

	"parley"
)

// A compass points a prompt's vector in the direction of its last token.
type compass struct{ worker }

func (c *compass) Generate(_ context.Context, r *parley.Request) iter.Seq2[parley.Delta, error] {
	return func(yield func(parley.Delta, error) bool) {
		x := float32(r.Prompt[len(r.Prompt)-1])
		yield(parley.Delta{Embedding: []float32{x, 60}, Finish: parley.FinishStop,
			Usage: &parley.Usage{PromptTokens: len(r.Prompt)}}, nil)
	}
}

func (s *server) rerank(extra string) (int, string) {
	s.t.Helper()
	response, body := s.do("POST", "/v1/rerank", `{"model":"`+modelID+`"`+extra+`}`)
	return response.StatusCode, anonymous(body)
}

func TestRerank(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, &compass{})
		_, body := s.rerank(`,"query":"a","documents":["z",{"text":"a"},"d"]`)
		o := parseObject(t, body)
		results := o["results"].([]any)
		var order []float64
		for _, r := range results {
			result := object(r.(map[string]any))
			order = append(order, result["index"].(float64))
			if score := result["relevance_score"].(float64); score > 1+1e-9 || score < 0 || result["document"] != nil {
				t.Errorf("%v", result)
			}
		}
		if len(order) != 3 || order[0] != 1 || order[1] != 2 || order[2] != 0 || o.text("id") != "rerank-ID" ||
			o.text("model") != modelID {
			t.Errorf("%s", body)
		}
		if tokens := o.at("usage", "total_tokens"); tokens.(float64) < 4 {
			t.Errorf("%s", body)
		}
		_, body = s.rerank(`,"query":"a","documents":["z","a"],"top_n":1,"return_documents":true`)
		if !strings.Contains(body, `"results":[{"index":1,"relevance_score":`) ||
			!strings.Contains(body, `"document":{"text":"a"}}]`) {
			t.Errorf("%s", body)
		}
		if status, body := s.rerank(`,"query":"a","documents":[]`); status != 400 ||
			!strings.Contains(body, `"param":"documents"`) {
			t.Errorf("%d: %s", status, body)
		}
		s.settled(&worker{})
	})
}
