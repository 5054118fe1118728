package gatewaycost

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/coder/websocket"
)

// An endpoint is a route that streams, and a request to it. In body, $model and $question
// are replaced.
type endpoint struct {
	name, path, body string
	// conversation creates a conversation first, whose id replaces $id in the path.
	conversation bool
	// socket sends the body as the first message of a WebSocket.
	socket bool
}

// question is what all requests ask.
const question = "Tell me something about gateways, please."

// endpoints are all routes that stream. What one of them costs is what a user of it pays,
// so each is held to the same bar.
var endpoints = []endpoint{
	{
		name: "chat completions",
		path: "/v1/chat/completions",
		body: `{"model":$model,"stream":true,"max_tokens":1000,"seed":500000,` + // for the upstream of other proxies
			`"messages":[{"role":"user","content":$question}]}`,
	},
	{
		name: "completions",
		path: "/v1/completions",
		body: `{"model":$model,"stream":true,"max_tokens":1000,"prompt":$question}`,
	},
	{
		name: "messages",
		path: "/v1/messages",
		body: `{"model":$model,"stream":true,"max_tokens":1000,"messages":[{"role":"user","content":$question}]}`,
	},
	{
		name: "responses",
		path: "/v1/responses",
		body: `{"model":$model,"stream":true,"max_output_tokens":1000,"input":$question}`,
	},
	{
		name:         "conversations",
		path:         "/v1/conversations/$id/messages",
		body:         `{"model":$model,"stream":true,"max_tokens":1000,"content":$question}`,
		conversation: true,
	},
	{
		name: "Ollama chat",
		path: "/api/chat",
		body: `{"model":$model,"options":{"num_predict":1000},"messages":[{"role":"user","content":$question}]}`,
	},
	{
		name: "Ollama generate",
		path: "/api/generate",
		body: `{"model":$model,"options":{"num_predict":1000},"prompt":$question}`,
	},
	{
		name:   "chat completions, WebSocket",
		path:   "/v1/chat/completions",
		body:   `{"model":$model,"stream":true,"max_tokens":1000,"messages":[{"role":"user","content":$question}]}`,
		socket: true,
	},
	{
		name:   "responses, WebSocket",
		path:   "/v1/responses",
		body:   `{"type":"response.create","model":$model,"max_output_tokens":1000,"input":$question}`,
		socket: true,
	},
}

// openStreams measures how much memory a stream of an endpoint takes that is open and
// moves slowly. Each endpoint has a gateway of its own, whose memory holds nothing of
// streams before.
func (b *Bench) openStreams(ctx context.Context, r Result, e endpoint) (Result, error) {
	b.Progress(r.Name)
	roomy, stop, err := b.Roomy(ctx)
	if err != nil {
		return r, err
	}
	defer stop()
	if r.Value, err = roomy.holdOpen(ctx, e, b.Open, b.Profiles); err != nil || e.name != endpoints[0].name {
		return r, err
	}
	for _, t := range b.Others {
		b.Progress(r.Name + ", " + t.Name)
		if r.Beside[t.Name], err = t.holdOpen(ctx, e, b.Open, ""); err != nil {
			return r, err
		}
	}
	return r, nil
}

const (
	// aTenth of the streams are open before any counts: what a gateway takes once, however
	// many streams it has, is not the memory of a stream.
	aTenth = 10
	// arriving is how many streams are opened at once.
	arriving = 128
)

// holdOpen opens n streams, and returns how much larger the process is for each of those
// after the first tenth. What its memory is used for is kept in the directory profiles, if
// it is not empty.
func (t *Target) holdOpen(ctx context.Context, e endpoint, n int, profiles string) (float64, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	var clients sync.WaitGroup
	defer clients.Wait()
	defer cancel(nil)
	c := newClient()
	defer c.CloseIdleConnections()
	open := func(n int) (int64, error) {
		if err := t.open(ctx, cancel, &clients, c, e, n); err != nil {
			return 0, err
		}
		u, err := usageOf(t.PID)
		return u.resident, err
	}
	before, err := open(n / aTenth)
	if err != nil {
		return 0, err
	}
	after, err := open(n - n/aTenth)
	if profiles != "" && t.Key != "" {
		file := filepath.Join(profiles, "open-streams-"+strings.NewReplacer(" ", "-", ",", "").Replace(e.name))
		err = errors.Join(err, t.fetch(ctx, "/debug/pprof/heap?gc=1", file+".pprof"),
			t.fetch(ctx, "/debug/pprof/goroutine?debug=1", file+"-goroutines.txt"))
	}
	return float64(after-before) / 1000 / float64(n-n/aTenth), err
}

// open opens n streams and returns when all of them have begun. They stay open until ctx
// ends; one that ends before cancels it.
func (t *Target) open(ctx context.Context, cancel context.CancelCauseFunc, clients *sync.WaitGroup, c *http.Client,
	e endpoint, n int) error {
	room := make(chan struct{}, arriving)
	var begun sync.WaitGroup
	for range n {
		select {
		case room <- struct{}{}:
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(5 * time.Minute):
			return fmt.Errorf("%s, %s: the next of %d streams does not begin", t.Name, e.name, n)
		}
		begun.Add(1)
		clients.Go(func() {
			opened := sync.OnceFunc(func() {
				<-room
				begun.Done()
			})
			defer opened()
			err := t.hold(ctx, c, e, opened)
			if ctx.Err() == nil {
				cancel(fmt.Errorf("%s, %s: a stream ended: %w", t.Name, e.name, err))
			}
		})
	}
	stop := time.AfterFunc(5*time.Minute, func() {
		cancel(fmt.Errorf("%s, %s: not all of %d streams begin", t.Name, e.name, n))
	})
	defer stop.Stop()
	begun.Wait()
	return context.Cause(ctx)
}

// fill puts the model and the question into a body.
func (e endpoint) fill(model string) string {
	quoted := func(s string) string {
		text, _ := json.Marshal(s)
		return string(text)
	}
	return strings.NewReplacer("$model", quoted(model), "$question", quoted(question)).Replace(e.body)
}

// hold opens one stream, calls opened when a token has arrived, and reads on until it ends
// or ctx does.
func (t *Target) hold(ctx context.Context, c *http.Client, e endpoint, opened func()) error {
	path := e.path
	if e.conversation {
		var made struct {
			ID string `json:"id"`
		}
		response, err := t.post(ctx, c, "/v1/conversations", "{}")
		if err != nil {
			return err
		}
		err = json.NewDecoder(response.Body).Decode(&made)
		_ = response.Body.Close() // all that is needed of it was read
		if err != nil {
			return err
		}
		path = strings.Replace(path, "$id", made.ID, 1)
	}
	var seen text
	if e.socket {
		conn, _, err := websocket.Dial(ctx, t.URL+path, &websocket.DialOptions{HTTPClient: c, HTTPHeader: t.header()})
		if err != nil {
			return err
		}
		defer conn.CloseNow()
		if err := conn.Write(ctx, websocket.MessageText, []byte(e.fill(t.Model))); err != nil {
			return err
		}
		for {
			_, message, err := conn.Read(ctx)
			if err != nil {
				return err
			}
			if seen.add(message, opened); !seen.open && isErrorFrame(message) {
				return fmt.Errorf("instead of a token came %.300s", message)
			}
		}
	}
	response, err := t.post(ctx, c, path, e.fill(t.Model))
	if err != nil {
		return err
	}
	defer response.Body.Close()
	some := make([]byte, 4096)
	for {
		n, err := response.Body.Read(some)
		if seen.add(some[:n], opened); err == io.EOF {
			return fmt.Errorf("%w after %.300q", err, seen.head)
		}
		if err != nil {
			return err
		}
	}
}

// isErrorFrame reports whether a message of a WebSocket says that its request failed. The connection
// stays open then, and no token comes.
func isErrorFrame(message []byte) bool {
	return bytes.Contains(message, []byte(`"error":{`)) || bytes.Contains(message, []byte(`"type":"error"`))
}

// text is what was read of a stream until its first token.
type text struct {
	head []byte
	open bool
}

// add calls opened once, when the upstream's word has been read.
func (s *text) add(some []byte, opened func()) {
	if s.open {
		return
	}
	s.head = append(s.head, some...)
	if bytes.Contains(s.head, []byte(`" the"`)) {
		s.open = true
		opened()
	}
}

// header returns what requests to the target carry.
func (t *Target) header() http.Header {
	h := http.Header{"Content-Type": {"application/json"}}
	if t.Key != "" {
		h.Set("Authorization", "Bearer "+t.Key)
	}
	return h
}

// post sends a body. A status other than 200 or 201 is an error.
func (t *Target) post(ctx context.Context, c *http.Client, path, body string) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, t.URL+path, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header = t.header()
	response, err := c.Do(r)
	if err != nil || response.StatusCode <= http.StatusCreated {
		return response, err
	}
	defer response.Body.Close()
	why, _ := io.ReadAll(io.LimitReader(response.Body, 300))
	return nil, fmt.Errorf("status %d: %s", response.StatusCode, why)
}
