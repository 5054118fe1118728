package gateway

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"net/http"
	"os"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"parley"
	"parley/gateway/hijack"
	"parley/gateway/models"
	"parley/internal/testkit"
	"parley/token"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const modelID = "tiny/llama:1"

var tinyTokenizer = sync.OnceValue(func() *token.Tokenizer {
	t, err := token.Load(testkit.Golden("tiny-llama"))
	if err != nil {
		panic(err)
	}
	return t
})

func tinyTemplate(t testing.TB) *token.ChatTemplate {
	source, err := os.ReadFile(testkit.Golden("tiny-llama", "chat_template.jinja"))
	if err != nil {
		t.Fatal(err)
	}
	return templateOf(t, string(source))
}

func templateOf(t testing.TB, source string) *token.ChatTemplate {
	template, err := token.NewChatTemplate(string(source), nil)
	if err != nil {
		t.Fatal(err)
	}
	return template
}

func tokensOf(t testing.TB, text string) []parley.Token {
	ids, err := tinyTokenizer().Encode(text, token.Options{ParseSpecial: true})
	if err != nil {
		t.Fatal(err)
	}
	return ids
}

// A say is one thing a scripted worker does: wait, then yield.
type say struct {
	after time.Duration
	delta parley.Delta
	err   error
	panic string
}

// A worker answers requests by script and counts those under way.
type worker struct {
	script func(r *parley.Request) []say
	active atomic.Int64
	mu     sync.Mutex
	asked  []*parley.Request
}

func (w *worker) Models() []parley.Model {
	return []parley.Model{{ID: modelID, ContextTokens: 100}}
}

func (w *worker) Generate(ctx context.Context, r *parley.Request) iter.Seq2[parley.Delta, error] {
	return func(yield func(parley.Delta, error) bool) {
		w.active.Add(1)
		defer w.active.Add(-1)
		w.mu.Lock()
		w.asked = append(w.asked, r)
		w.mu.Unlock()
		for _, s := range w.script(r) {
			select {
			case <-time.After(s.after):
			case <-ctx.Done():
				yield(parley.Delta{}, ctx.Err())
				return
			}
			if s.panic != "" {
				panic(s.panic)
			}
			if !yield(s.delta, s.err) || s.err != nil {
				return
			}
		}
	}
}

// request returns the only request the worker was asked.
func (w *worker) request(t *testing.T) *parley.Request {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.asked) != 1 {
		t.Fatalf("the worker was asked %d times", len(w.asked))
	}
	return w.asked[0]
}

// speak says text token by token, every step, in all choices at once.
func speak(t testing.TB, text string, step time.Duration) func(*parley.Request) []say {
	return func(r *parley.Request) []say {
		return speech(t, r, step, text)
	}
}

// speech says the first text in choice 0, the second in choice 1 and so on;
// the last counts for all that follow. Each word of the vocabulary has the
// log-probability -0.5, with the token 7 as the alternative.
func speech(t testing.TB, r *parley.Request, step time.Duration, texts ...string) []say {
	var said []say
	output := 0
	choices := max(r.Choices, 1)
	for choice := range choices {
		ids := tokensOf(t, texts[min(choice, len(texts)-1)])
		for i, id := range ids {
			d := parley.Delta{Choice: choice, Tokens: []parley.Token{id}}
			if r.Logprobs {
				d.Logprobs = []parley.Logprob{{Token: id, Logprob: -0.5,
					Top: []parley.TopLogprob{{Token: id, Logprob: -0.5}, {Token: 7, Logprob: -3}}}}
			}
			if r.PromptLogprobs && choice == 0 && i == 0 {
				for _, id := range r.Prompt[1:] {
					d.PromptLogprobs = append(d.PromptLogprobs, parley.Logprob{Token: id, Logprob: -1.5})
				}
			}
			if i == len(ids)-1 {
				d.Finish = parley.FinishStop
			}
			said = append(said, say{after: step, delta: d})
			output++
		}
	}
	said[len(said)-1].delta.Usage = &parley.Usage{PromptTokens: len(r.Prompt), CachedTokens: 2, Miss: "new",
		OutputTokens: output,
		Queued:       10 * time.Millisecond, Prefill: 20 * time.Millisecond, Decode: time.Second}
	return said
}

// A server is a gateway on a network without sockets.
type server struct {
	t       *testing.T
	gateway *Gateway
	client  *http.Client
	proof   *proof
	log     *bytes.Buffer
}

// start serves w. It belongs inside a synctest bubble, where it also ends.
func start(t *testing.T, w parley.Worker, change ...func(*Config)) *server {
	s := &server{t: t, log: new(bytes.Buffer)}
	config := Config{
		Models: []models.Config{{ID: modelID, Worker: w, Tokenizer: tinyTokenizer(), Template: tinyTemplate(t)}},
		Log:    slog.New(slog.NewTextHandler(s.log, &slog.HandlerOptions{Level: slog.LevelInfo})),
	}
	for _, f := range change {
		f(&config)
	}
	var err error
	if s.gateway, err = New(config); err != nil {
		t.Fatal(err)
	}
	listener, client := testkit.Listen()
	s.proof = &proof{t: t, inner: client.Transport, seen: map[string]bool{}}
	s.client = &http.Client{Transport: s.proof}
	server := hijack.NewServer("", s.gateway)
	go hijack.Serve(server, listener)
	t.Cleanup(func() {
		client.CloseIdleConnections()
		server.Close()
	})
	return s
}

// open sends a request; the caller reads the body.
func (s *server) open(ctx context.Context, method, path, body string, headers ...string) *http.Response {
	s.t.Helper()
	r, err := http.NewRequestWithContext(ctx, method, "http://parley"+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	response, err := s.client.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	return response
}

// do sends a request and returns the whole answer.
func (s *server) do(method, path, body string, headers ...string) (*http.Response, string) {
	s.t.Helper()
	response := s.open(s.t.Context(), method, path, body, headers...)
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	if id := response.Header.Get("X-Request-Id"); !regexp.MustCompile(`^req_[0-9a-f]{32}$`).MatchString(id) {
		s.t.Errorf("x-request-id is %q", id)
	}
	return response, string(answer)
}

// chat sends a chat with extra members and returns the status and the answer,
// with the random part of ids replaced.
func (s *server) chat(extra string) (int, string) {
	s.t.Helper()
	response, body := s.do("POST", "/v1/chat/completions", chatBody(extra))
	return response.StatusCode, anonymous(body)
}

func chatBody(extra string) string {
	return `{"model":"` + modelID + `","messages":[{"role":"user","content":"Hi"}]` + extra + `}`
}

func (s *server) complete(extra string) (int, string) {
	s.t.Helper()
	response, body := s.do("POST", "/v1/completions", `{"model":"`+modelID+`"`+extra+`}`)
	return response.StatusCode, anonymous(body)
}

var randomPart = regexp.MustCompile(`[0-9a-f]{32}`)

func anonymous(body string) string { return randomPart.ReplaceAllString(body, "ID") }

// metric returns the value of a line of GET /metrics.
func (s *server) metric(line string) string {
	s.t.Helper()
	_, body := s.do("GET", "/metrics", "")
	for l := range strings.Lines(body) {
		if value, ok := strings.CutPrefix(l, line+" "); ok {
			return strings.TrimSpace(value)
		}
	}
	return "absent"
}

func (s *server) wantMetric(line, want string) {
	s.t.Helper()
	synctest.Wait()
	if got := s.metric(line); got != want {
		s.t.Errorf("%s is %s, want %s", line, got, want)
	}
}

// wantLog waits until the server has nothing left to do, and so to log.
func (s *server) wantLog(parts ...string) {
	s.t.Helper()
	synctest.Wait()
	for _, part := range parts {
		if !strings.Contains(s.log.String(), part) {
			s.t.Errorf("the log does not say %s:\n%s", part, s.log)
		}
	}
}

func wantBody(t *testing.T, got, want string) {
	t.Helper()
	got, want = strings.TrimSpace(got), strings.TrimSpace(want)
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func lines(l ...any) string {
	var b strings.Builder
	for _, s := range l {
		fmt.Fprintf(&b, "%s\n\n", s)
	}
	return b.String()
}

// A breaking worker sets a flag before it answers.
type breaking struct {
	worker
	broken *bool
}

func (b *breaking) Generate(ctx context.Context, r *parley.Request) iter.Seq2[parley.Delta, error] {
	return func(yield func(parley.Delta, error) bool) {
		*b.broken = true
		yield(parley.Delta{Tokens: []parley.Token{9}}, nil)
	}
}
