package gatewaycost

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"net/http"
	"strconv"
	"strings"
	"time"

	"parley"
	"parley/worker"
	"parley/worker/wire"
)

// An Upstream answers any prompt with the same token, as many as are asked for,
// at once or one every n microseconds, n being the request's seed. It speaks
// Parley's wire to gateways, and OpenAI's to proxies that pass everything on.
type Upstream struct {
	// Model is what it answers for.
	Model parley.Model
	// Token is what it says, Text the same as text.
	Token parley.Token
	Text  string
	// Pace is the time before each token, if it is not 0; then seeds do not count.
	Pace time.Duration
}

// pace returns the time before each token of a request.
func (u *Upstream) pace(seed uint64) time.Duration {
	return cmp.Or(u.Pace, time.Duration(seed)*time.Microsecond)
}

// Models lists the one model.
func (u *Upstream) Models() []parley.Model { return []parley.Model{u.Model} }

// Generate says the token over and over.
func (u *Upstream) Generate(ctx context.Context, r *parley.Request) iter.Seq2[parley.Delta, error] {
	return func(yield func(parley.Delta, error) bool) {
		pace := u.pace(r.Sampling.Seed)
		for i := range r.MaxTokens {
			if err := wait(ctx, pace); err != nil {
				yield(parley.Delta{}, err)
				return
			}
			d := parley.Delta{Tokens: []parley.Token{u.Token}}
			if i == r.MaxTokens-1 {
				d.Finish = parley.FinishLength
				d.Usage = &parley.Usage{PromptTokens: len(r.Prompt), OutputTokens: r.MaxTokens, Miss: "new"}
			}
			if !yield(d, nil) {
				return
			}
		}
	}
}

func wait(ctx context.Context, pace time.Duration) error {
	if pace == 0 {
		return ctx.Err()
	}
	select {
	case <-time.After(pace):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Handler serves both languages.
func (u *Upstream) Handler() http.Handler {
	mux := http.NewServeMux()
	server := &wire.Server{To: u}
	mux.HandleFunc("GET "+wire.Path, func(w http.ResponseWriter, r *http.Request) {
		_ = server.Serve(w, r) // what goes wrong is the client's to see
	})
	mux.HandleFunc("GET "+worker.AboutPath, func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(worker.About{
			Version:     "toll",
			Instance:    "toll",
			Models:      u.Models(),
			Blocks:      1 << 20,
			BlockTokens: 16,
		})
	})
	mux.HandleFunc("POST /v1/chat/completions", u.chat)
	return mux
}

// chat answers as an OpenAI server does, with the fewest members that clients
// read.
func (u *Upstream) chat(w http.ResponseWriter, r *http.Request) {
	var asked struct {
		MaxTokens int    `json:"max_tokens"`
		Seed      uint64 `json:"seed"`
		Stream    bool   `json:"stream"`
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, 1<<20))
	if err != nil || json.Unmarshal(body, &asked) != nil {
		http.Error(w, "no JSON", http.StatusBadRequest)
		return
	}
	if !asked.Stream {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w,
			`{"id":"x","object":"chat.completion","created":1,"model":%q,"choices":[{"index":0,"message":{"role":"assistant","content":%q},"finish_reason":"length"}],"usage":{"prompt_tokens":1,"completion_tokens":%d}}`,
			u.Model.ID, strings.Repeat(u.Text, asked.MaxTokens), asked.MaxTokens)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	control := http.NewResponseController(w)
	chunk := []byte("data: " + `{"id":"x","object":"chat.completion.chunk","created":1,"model":` + strconv.Quote(
		u.Model.ID) + `,"choices":[{"index":0,"delta":{"content":` + strconv.Quote(
		u.Text) + `},"finish_reason":null}]}` + "\n\n")
	for range asked.MaxTokens {
		if wait(r.Context(), u.pace(asked.Seed)) != nil {
			return
		}
		if _, err := w.Write(chunk); err != nil || control.Flush() != nil {
			return
		}
	}
	_, _ = io.WriteString(w, "data: [DONE]\n\n")
}
