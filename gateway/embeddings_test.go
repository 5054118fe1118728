package gateway

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"parley"
	"parley/gateway/job"

	"github.com/google/go-cmp/cmp"
)

// An embedder gives the vector (n, 0, 1) for a prompt of n tokens, after n
// seconds, and remembers how many it had at once.
type embedder struct {
	worker
	most   atomic.Int64
	broken bool
}

func (e *embedder) Generate(ctx context.Context, r *parley.Request) iter.Seq2[parley.Delta, error] {
	return func(yield func(parley.Delta, error) bool) {
		e.most.Store(max(e.most.Load(), e.active.Add(1)))
		defer e.active.Add(-1)
		select {
		case <-time.After(time.Duration(len(r.Prompt)) * time.Second):
		case <-ctx.Done():
			yield(parley.Delta{}, ctx.Err())
			return
		}
		d := parley.Delta{Embedding: []float32{float32(len(r.Prompt)), 0, 1}, Finish: parley.FinishStop,
			Usage: &parley.Usage{PromptTokens: len(r.Prompt)}}
		if e.broken || !r.Embed {
			d.Embedding = nil
		}
		yield(d, nil)
	}
}

func (s *server) embed(extra string) (int, string) {
	s.t.Helper()
	response, body := s.do("POST", "/v1/embeddings", `{"model":"`+modelID+`"`+extra+`}`)
	return response.StatusCode, anonymous(body)
}

func TestEmbeddings(t *testing.T) {
	published := loadSchema(t)
	synctest.Test(t, func(t *testing.T) {
		s := start(t, &embedder{})
		_, body := s.embed(`,"input":[[5,6,7],[8]],"dimensions":2`)
		wantBody(t, body,
			`{"object":"list","data":[{"object":"embedding","index":0,"embedding":[1,0]},{"object":"embedding","index":1,"embedding":[1,0]}],`+
				`"model":"tiny/llama:1","usage":{"prompt_tokens":4,"total_tokens":4}}`)
		published.want(t, "CreateEmbeddingResponse", body)
		_, body = s.embed(`,"input":[9],"encoding_format":"base64"`)
		wantBody(t, body,
			`{"object":"list","data":[{"object":"embedding","index":0,"embedding":"8wQ1PwAAAADzBDU/"}],"model":"tiny/llama:1","usage":{"prompt_tokens":1,"total_tokens":1}}`)
		if status, body := s.embed(`,"input":"a <|im_end|> b"`); status != 200 ||
			strings.Contains(body, `"prompt_tokens":3,`) {
			t.Errorf("special tokens are text: %d %s", status, body)
		}
		s.wantMetric(`parley_http_requests_total{code="200",route="/v1/embeddings"}`, "3")
	})
}

func TestEmbeddingRefusals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, &embedder{})
		for _, c := range []struct{ extra, want string }{
			{``, `"param":"input","code":"missing_required_parameter"`},
			{`,"input":[[1],[` + strings.Repeat("1,", 99) + `1]]`,
				`"message":"This model's maximum context length is 100 tokens. However, your input[1] resulted in 100 tokens. Please reduce the length of the input[1].","type":"invalid_request_error","param":"input[1]","code":"context_length_exceeded"`},
			{`,"input":[1024]`, `"param":"input","code":"invalid_value"`},
			{`,"input":"a","dimensions":4`,
				`"message":"Invalid 'dimensions': integer above maximum value. Expected a value <= 3, but got 4 instead.","type":"invalid_request_error","param":"dimensions","code":"integer_above_max_value"`},
		} {
			if status, body := s.embed(c.extra); status != 400 || !strings.Contains(body, c.want) {
				t.Errorf("%.40s gives %d: %s", c.extra, status, body)
			}
		}
		s = start(t, &embedder{broken: true})
		if status, _ := s.embed(`,"input":"a"`); status != 500 {
			t.Errorf("a worker without an embedding gives %d", status)
		}
	})
}

// TestEmbeddingsTogether sends more inputs than may be computed at once: the
// answers come in another order than they are given.
func TestEmbeddingsTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &embedder{}
		s := start(t, w)
		var inputs, want []string
		for i := range 50 {
			n := 1 + i*7%13
			inputs = append(inputs, "["+strings.Repeat("3,", n-1)+"3]")
			want = append(want, fmt.Sprintf(`{"object":"embedding","index":%d,"embedding":[1]}`, i))
		}
		_, body := s.embed(`,"dimensions":1,"input":[` + strings.Join(inputs, ",") + `]`)
		_, data, _ := strings.Cut(body, `"data":[`)
		data, _, _ = strings.Cut(data, `],"model"`)
		if diff := cmp.Diff(strings.Join(want, ","), data); diff != "" {
			t.Error(diff)
		}
		if n := w.most.Load(); n != job.EmbeddingsAtOnce {
			t.Errorf("%d at once, want %d", n, job.EmbeddingsAtOnce)
		}
	})
}

func TestEmbeddingsCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &embedder{}
		s := start(t, w)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second/2)
		defer cancel()
		r := mustRequest(t, ctx, `{"model":"`+modelID+`","input":["a","b","c"]}`)
		r.URL.Path = "/v1/embeddings"
		if _, err := s.client.Do(r); err == nil {
			t.Error("answered")
		}
		s.settled(&w.worker)
	})
}
