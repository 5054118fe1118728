package gatewaycost

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// A Target is a server under load.
type Target struct {
	Name string
	// URL is where it listens, Key what it wants to see, PID its process.
	URL, Key string
	PID      int
	// Model is what to ask for.
	Model string
}

// A shot is one request and how its answer came.
type shot struct {
	tokens int
	pace   time.Duration
	stream bool
}

// brief returns a shot of the same kind that is soon over.
func (s shot) brief() shot {
	s.tokens = min(s.tokens, 20)
	return s
}

// A hit is what came of it.
type hit struct {
	first time.Duration
	err   error
}

// newClient returns a client that keeps as many connections as are used.
func newClient() *http.Client {
	dialer := &net.Dialer{Timeout: time.Minute}
	return &http.Client{Transport: &http.Transport{DialContext: dialer.DialContext, MaxIdleConnsPerHost: 10_000,
		MaxIdleConns: 10_000, DisableCompression: true}}
}

var done = []byte("data: [DONE]")

// fire sends one request and reads the whole answer. A stream that does not end
// as it should, or an answer without its length, is an error.
func (t *Target) fire(ctx context.Context, c *http.Client, s shot, opened func()) (h hit) {
	body := fmt.Sprintf(
		`{"model":%q,"max_tokens":%d,"seed":%d,"stream":%v,"messages":[{"role":"user","content":"Tell me something about gateways, please."}]}`,
		t.Model, s.tokens, s.pace.Microseconds(), s.stream)
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, t.URL+"/v1/chat/completions",
		bytes.NewReader([]byte(body)))
	if err != nil {
		return hit{err: err}
	}
	r.Header.Set("Content-Type", "application/json")
	if t.Key != "" {
		r.Header.Set("Authorization", "Bearer "+t.Key)
	}
	began := time.Now()
	response, err := c.Do(r)
	if err != nil {
		return hit{err: err}
	}
	defer response.Body.Close()
	var tail []byte
	some := make([]byte, 4096)
	for {
		n, err := response.Body.Read(some)
		if n > 0 && h.first == 0 {
			h.first = time.Since(began)
			opened()
		}
		tail = append(tail[max(0, len(tail)-512):], some[:n]...)
		if err == io.EOF {
			break
		}
		if err != nil {
			return hit{err: fmt.Errorf("an answer broke off: %w", err)}
		}
	}
	switch {
	case response.StatusCode != http.StatusOK:
		h.err = fmt.Errorf("status %d: %.300s", response.StatusCode, tail)
	case s.stream && !bytes.Contains(tail, done):
		h.err = fmt.Errorf("a stream was cut off; its end is %q", tail)
	}
	return h
}

// volley sends n requests, some at a time, and returns how they came. The
// first error ends it.
func (t *Target) volley(ctx context.Context, n, atOnce int, s shot) (hits []hit, err error) {
	return t.spread(ctx, n, atOnce, 0, s)
}

// spread is volley with the beginnings spread over a time, so that clients whose
// answers take equally long do not come in step.
func (t *Target) spread(ctx context.Context, n, atOnce int, over time.Duration, s shot) (hits []hit, err error) {
	c := newClient()
	defer c.CloseIdleConnections()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	hits = make([]hit, n)
	var next atomic.Int64
	var clients sync.WaitGroup
	for client := range min(atOnce, n) {
		clients.Go(func() {
			time.Sleep(over * time.Duration(client) / time.Duration(atOnce))
			for i := next.Add(1) - 1; i < int64(n) && ctx.Err() == nil; i = next.Add(1) - 1 {
				if hits[i] = t.fire(ctx, c, s, func() {}); hits[i].err != nil {
					cancel(fmt.Errorf("%s: %w", t.Name, hits[i].err))
				}
			}
		})
	}
	clients.Wait()
	return hits, context.Cause(ctx)
}
