package gateway

import (
	"bufio"
	"context"
	"io"
	"iter"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"parley"
	"parley/gateway/models"
)

// An endless worker says one token, then waits to be cancelled.
type endless struct {
	worker
	ended chan struct{}
}

func (e *endless) Generate(ctx context.Context, r *parley.Request) iter.Seq2[parley.Delta, error] {
	return func(yield func(parley.Delta, error) bool) {
		defer close(e.ended)
		if yield(parley.Delta{Tokens: []parley.Token{52}}, nil) {
			<-ctx.Done()
			yield(parley.Delta{}, ctx.Err())
		}
	}
}

// TestDisconnectOnRealSocket leaves a stream by closing the connection, as a
// client that crashes does.
func TestDisconnectOnRealSocket(t *testing.T) {
	w := &endless{ended: make(chan struct{})}
	g, err := New(Config{
		Models: []models.Config{{ID: modelID, Worker: w, Tokenizer: tinyTokenizer(), Template: tinyTemplate(t)}},
		Log:    slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		g.ServeHTTP(w, r)
		close(served)
	}))
	defer server.Close()
	connection, err := net.Dial("tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	r := mustRequest(t, t.Context(), chatBody(`,"stream":true`))
	if err := r.Write(connection); err != nil {
		t.Fatal(err)
	}
	reader := bufio.NewReader(connection)
	for line := ""; !strings.Contains(line, `"content":"O"`); {
		if line, err = reader.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
	}
	connection.Close()
	<-w.ended
	<-served
}

// BenchmarkStream measures what one streamed token costs above the worker.
func BenchmarkStream(b *testing.B) {
	const tokens = 1000
	w := &instant{tokens: tokens}
	g, err := New(Config{
		Models: []models.Config{{ID: modelID, Worker: w, Tokenizer: tinyTokenizer(), Template: tinyTemplate(b),
			ContextTokens: 1 << 20}},
		Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		r := httptest.NewRequest("POST", "/v1/chat/completions", strings.NewReader(chatBody(`,"stream":true`)))
		r.Header.Set("Content-Type", "application/json")
		g.ServeHTTP(discard{header: http.Header{}}, r)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/tokens, "ns/token")
}

// An instant worker says many tokens at once.
type instant struct {
	worker
	tokens int
}

func (w *instant) Generate(_ context.Context, r *parley.Request) iter.Seq2[parley.Delta, error] {
	return func(yield func(parley.Delta, error) bool) {
		for range w.tokens {
			if !yield(parley.Delta{Tokens: []parley.Token{374}}, nil) {
				return
			}
		}
		yield(parley.Delta{Finish: parley.FinishLength,
			Usage: &parley.Usage{PromptTokens: len(r.Prompt), OutputTokens: w.tokens}}, nil)
	}
}

// discard is a client that reads everything at once.
type discard struct{ header http.Header }

func (d discard) Header() http.Header         { return d.header }
func (d discard) WriteHeader(int)             {}
func (d discard) Write(p []byte) (int, error) { return io.Discard.Write(p) }
func (d discard) Flush()                      {}
