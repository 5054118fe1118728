package load

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"syscall"
	"time"

	"parley/sim/traffic"
)

// A Client sends requests to one target. It may be used by many goroutines.
type Client struct {
	target  Target
	url     string
	http    *http.Client
	answers answers
}

const timeoutDefault = 5 * time.Minute

// NewClient checks the target. Nothing is sent yet.
func NewClient(t Target) (*Client, error) {
	target, err := checkURL(t.URL, t.AllowRemote)
	err = errors.Join(err, t.Send.check(), t.Content.Validate())
	if err != nil {
		return nil, err
	}
	t.Timeout = cmp.Or(t.Timeout, timeoutDefault)
	c := &Client{target: t, url: target, http: t.HTTP, answers: answers{}}
	if c.http == nil {
		c.http = newHTTP(t.AllowRemote)
	}
	return c, nil
}

// URL returns the address under which the API's endpoints lie.
func (c *Client) URL() string { return c.url }

// Close drops idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// checkURL returns the URL without a slash at its end.
func checkURL(text string, allowRemote bool) (string, error) {
	u, err := url.Parse(text)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Hostname() == "" || u.RawQuery != "" ||
		u.User != nil {
		return "", fmt.Errorf("%q is not the URL of a server: expected one such as http://127.0.0.1:8080/v1", text)
	}
	if !allowRemote && !isLoopback(u.Hostname()) {
		return "",
			fmt.Errorf(
				"%s is not this machine: a load test can take a server down, so say --allow-remote if you may do "+
					"that to it", u.Hostname())
	}
	if u.Path == "" || u.Path == "/" {
		u.Path = "/v1"
	}
	return strings.TrimRight(u.String(), "/"), nil
}

func isLoopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return strings.EqualFold(host, "localhost") || (err == nil && ip.Unmap().IsLoopback())
}

// newHTTP returns a client that keeps its connections, follows no redirects
// and asks no proxy: what it measures is the server named.
func newHTTP(allowRemote bool) *http.Client {
	dialer := &net.Dialer{Timeout: 10 * time.Second}
	if !allowRemote {
		// A name such as localhost may be configured to lead elsewhere.
		dialer.Control = func(_, address string, _ syscall.RawConn) error {
			if at, err := netip.ParseAddrPort(address); err != nil || !at.Addr().Unmap().IsLoopback() {
				return fmt.Errorf("%s is not this machine: say --allow-remote if you may put it under load", address)
			}
			return nil
		}
	}
	return &http.Client{
		Transport: &http.Transport{
			DialContext: dialer.DialContext, DisableCompression: true,
			MaxIdleConnsPerHost: inFlightDefault, TLSHandshakeTimeout: 10 * time.Second,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// A Model is one that the server offers.
type Model struct {
	ID string `json:"id"`
	// ContextTokens bounds prompt and answer together; 0 if the server does not
	// say.
	ContextTokens int `json:"max_model_len"`
}

// ErrNoServer is in the error of a server that cannot be reached.
var ErrNoServer = errors.New("no server answers")

// Models asks the server which models it has.
func (c *Client) Models(ctx context.Context) ([]Model, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	request, err := c.request(ctx, http.MethodGet, "/models", nil)
	if err != nil {
		return nil, err
	}
	resp, err := c.http.Do(request)
	if err != nil {
		if wrapped, ok := errors.AsType[*url.Error](err); ok {
			err = wrapped.Err // it would name the URL once more
		}
		return nil, fmt.Errorf("%w at %s: %w", ErrNoServer, c.url, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("GET %s/models: %w", c.url, refusal(resp))
	}
	var list struct {
		Data []Model `json:"data"`
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, 4<<20)).Decode(&list); err != nil {
		return nil, fmt.Errorf("GET %s/models did not return a list of models: %w", c.url, err)
	}
	return list.Data, nil
}

func (c *Client) request(ctx context.Context, method, path string, body []byte) (*http.Request, error) {
	r, err := http.NewRequestWithContext(ctx, method, c.url+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "text/event-stream")
		r.Header.Set("Cache-Control", "no-store") // what is measured is to be computed
	}
	if c.target.Key != "" {
		r.Header.Set("Authorization", "Bearer "+c.target.Key)
	}
	return r, nil
}

// Send sends one request and reads the answer to its end. All times count from
// intended. ctx is that of the run: its end makes the request unfinished.
func (c *Client) Send(ctx context.Context, r *traffic.Request, intended time.Time) Record {
	record := Record{WantedTokens: r.OutputTokens}
	got := answer{keep: r.Answer != 0 && r.TurnsLeft > 0}
	err := c.exchange(ctx, r, &got, func() { record.Late = Millis(time.Since(intended)) })
	if err != nil {
		f := failureOf(ctx, err)
		record.Outcome, record.Kind, record.Message = f.outcome, f.kind, f.message
		return record
	}
	got.fill(&record, intended, time.Now())
	if got.keep {
		c.answers.remember(r, got.text.String())
	}
	return record
}

// exchange sends r and reads the answer. It calls sending when the request is
// ready to leave.
func (c *Client) exchange(ctx context.Context, r *traffic.Request, got *answer, sending func()) error {
	body, err := c.target.body(r, c.answers.recall(r))
	if err != nil {
		return err
	}
	return c.post(ctx, c.target.Send.path(), body, got, sending)
}

// post sends a body and reads the stream that answers it. It calls sending when
// the request is ready to leave.
func (c *Client) post(ctx context.Context, path string, body []byte, got *answer, sending func()) error {
	ctx, cancel := context.WithTimeout(ctx, c.target.Timeout)
	defer cancel()
	request, err := c.request(ctx, http.MethodPost, path, body)
	if err != nil {
		return err
	}
	sending()
	resp, err := c.http.Do(request)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")) // without one it is not a stream either
	if resp.StatusCode != http.StatusOK || kind != "text/event-stream" {
		return refusal(resp)
	}
	if err := got.read(resp.Body); err != nil {
		return err
	}
	_, _ = io.CopyN(io.Discard, resp.Body, 4<<10) // to the end, so that the connection can be used again
	return nil
}
