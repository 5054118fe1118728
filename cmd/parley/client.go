package main

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"parley/cli"
	"parley/gateway/openai"
	"parley/internal/load"
)

// defaultURL is where a server listens that was told nothing else.
var defaultURL = "http://127.0.0.1:8080" // tests change it: there may be a server on the machine they run on

// A client talks to a server for the person at the terminal.
type client struct {
	root string // such as http://127.0.0.1:8080
	// key is shown to the server; if it is empty, the local token is, where this user
	// runs the server without keys.
	key  string
	http *http.Client
	// ofFleet says that it asks about a fleet, and that key may be the fleet's token.
	ofFleet bool
}

// serverURL returns the flag's address, else that of the variable PARLEY_URL,
// else the default one. named is false for the last.
func serverURL(flag string) (text string, named bool) {
	if flag != "" {
		return flag, true
	}
	if text := os.Getenv("PARLEY_URL"); text != "" {
		return text, true
	}
	return defaultURL, false
}

// newClient checks an address, which may end in /v1 as OpenAI clients write it.
// Nothing is sent yet.
func newClient(address string) (*client, error) {
	u, err := url.Parse(address)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Hostname() == "" || u.RawQuery != "" ||
		u.User != nil {
		return nil, fmt.Errorf("%q is not a server address: expected one such as %s: %w", address, defaultURL,
			cli.ErrUsage)
	}
	u.Path = strings.TrimSuffix(strings.TrimRight(u.Path, "/"), "/v1")
	return &client{root: strings.TrimRight(u.String(), "/"), key: os.Getenv("PARLEY_API_KEY"), http: &http.Client{}},
		nil
}

// documentBytesMax bounds what is read of an answer that is not a stream.
const documentBytesMax = 16 << 20

// get reads a document. A server that cannot be reached is a load.ErrNoServer.
func (c *client) get(ctx context.Context, path string) ([]byte, error) {
	resp, err := c.send(ctx, http.MethodGet, path, nil)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	return io.ReadAll(io.LimitReader(resp.Body, documentBytesMax))
}

func (c *client) send(ctx context.Context, method, path string, body []byte) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, method, c.root+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	if key := cmp.Or(c.key, localTokenOf(c.root)); key != "" {
		r.Header.Set("Authorization", "Bearer "+key)
	}
	resp, err := c.http.Do(r)
	if err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if wrapped, ok := errors.AsType[*url.Error](err); ok {
			err = wrapped.Err // it would name the address once more
		}
		if _, untrusted := errors.AsType[*tls.CertificateVerificationError](err); untrusted {
			return nil,
				fmt.Errorf(
					"the certificate of the server at %s is not trusted: %w: set SSL_CERT_FILE to the file of its "+
						"certificate authority", c.root, err)
		}
		return nil, fmt.Errorf("%w at %s: %w", load.ErrNoServer, c.root, err)
	}
	if resp.StatusCode != http.StatusOK {
		defer resp.Body.Close()
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 64<<10)) // what arrived of it is all there is to say
		return nil, c.refused(resp.StatusCode, load.ErrorMessage(text))
	}
	return resp, nil
}

// errWantsKey says that there is a server, and what it lacks.
var errWantsKey = errors.New("set PARLEY_API_KEY to an API key")

// errNoFleet says that a server has no workers of its own to speak of.
var errNoFleet = errors.New("the server has no fleet: start it with --worker or with pools in its --config")

func (c *client) refused(status int, message string) error {
	switch {
	case status == http.StatusUnauthorized && c.ofFleet:
		return fmt.Errorf(
			"the server answered %d: %s Set PARLEY_API_KEY to an admin key, or PARLEY_FLEET_OPERATE_TOKEN to the "+
				"operate token", status, message)
	case status == http.StatusNotFound && c.ofFleet && strings.HasPrefix(message, "Unknown request URL"):
		return errNoFleet
	case status == http.StatusUnauthorized:
		return fmt.Errorf("%s: %w", strings.TrimSuffix(message, "."), errWantsKey)
	}
	return fmt.Errorf("the server answered %d: %s", status, message)
}

// models lists what the server offers.
func (c *client) models(ctx context.Context) ([]openai.Model, error) {
	body, err := c.get(ctx, "/v1/models")
	if err != nil {
		return nil, err
	}
	var list openai.ModelList
	if err := json.Unmarshal(body, &list); err != nil || list.Object != "list" {
		return nil, fmt.Errorf("%s does not serve the OpenAI API: /v1/models is not a list of models", c.root)
	}
	return list.Data, nil
}

// A question is the body of a chat request.
type question struct {
	Model          string    `json:"model,omitempty"`
	Messages       []message `json:"messages"`
	Stream         bool      `json:"stream"`
	StreamOptions  any       `json:"stream_options,omitempty"`
	ResponseFormat any       `json:"response_format,omitempty"`
	Progress       bool      `json:"return_progress,omitempty"`
	Template       any       `json:"chat_template_kwargs,omitempty"`
	parameters
}

// A message is one turn of a conversation.
type message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// A reply is what came of a question, as far as it came.
type reply struct {
	Model   string          `json:"model"`
	Text    string          `json:"text"`
	Finish  string          `json:"finish_reason"`
	Usage   *openai.Usage   `json:"usage,omitempty"`
	Timings *openai.Timings `json:"timings,omitempty"`
	// FirstMs and TotalMs are as seen from here.
	FirstMs float64 `json:"first_ms"`
	TotalMs float64 `json:"total_ms"`
}

// A chunk is one event of an answer. Servers differ, so everything is optional.
type chunk struct {
	Model   string `json:"model"`
	Choices []struct {
		Delta struct {
			Content          string `json:"content"`
			ReasoningContent string `json:"reasoning_content"`
		} `json:"delta"`
		FinishReason string `json:"finish_reason"`
	} `json:"choices"`
	Usage    *openai.Usage    `json:"usage"`
	Timings  *openai.Timings  `json:"timings"`
	Progress *openai.Progress `json:"prompt_progress"`
	Error    json.RawMessage  `json:"error"`
}

// errCut says that an answer broke off.
var errCut = errors.New("the connection to the server was lost mid-answer")

// ask sends a question and passes the answer to hear as it arrives. The reply includes
// what arrived before an error.
func (c *client) ask(ctx context.Context, q question, hear hearing) (r reply, err error) {
	q.Stream, q.StreamOptions = true, map[string]bool{"include_usage": true}
	body, err := json.Marshal(q)
	if err != nil {
		return r, err
	}
	started := time.Now()
	defer func() { r.TotalMs = millisSince(started) }()
	resp, err := c.send(ctx, http.MethodPost, "/v1/chat/completions", body)
	if err != nil {
		return r, err
	}
	defer resp.Body.Close()
	for data, err := range load.Events(resp.Body) {
		switch {
		case ctx.Err() != nil:
			return r, ctx.Err()
		case err != nil:
			return r, fmt.Errorf("%w: %w", errCut, err)
		case string(data) == "[DONE]":
			return r, nil
		}
		if err := r.take(data, started, &hear); err != nil {
			return r, err
		}
	}
	switch {
	case ctx.Err() != nil:
		return r, ctx.Err()
	case r.Finish == "":
		return r, errCut
	}
	return r, nil
}

// take adds one event to the reply.
func (r *reply) take(data []byte, started time.Time, hear *hearing) error {
	var c chunk
	if err := json.Unmarshal(data, &c); err != nil {
		return fmt.Errorf("the server sent an invalid event: %w", err)
	}
	if len(c.Error) > 0 && string(c.Error) != "null" {
		return fmt.Errorf("the server failed: %s", load.ErrorMessage(data))
	}
	if c.Model != "" {
		r.Model = c.Model
	}
	if c.Usage != nil {
		r.Usage = c.Usage
	}
	if c.Timings != nil {
		r.Timings = c.Timings
	}
	if c.Progress != nil && hear.wait != nil {
		hear.wait(*c.Progress)
	}
	for i := range c.Choices {
		text, thought := c.Choices[i].Delta.Content, c.Choices[i].Delta.ReasoningContent
		if r.FirstMs == 0 && text+thought != "" {
			r.FirstMs = millisSince(started)
		}
		r.Text += text
		if finish := c.Choices[i].FinishReason; finish != "" {
			r.Finish = finish
		}
		if thought != "" {
			if err := hear.say(thought, true); err != nil {
				return err
			}
		}
		if text != "" {
			if err := hear.say(text, false); err != nil {
				return err
			}
		}
	}
	return nil
}

func millisSince(t time.Time) float64 { return float64(time.Since(t).Microseconds()) / 1000 }
