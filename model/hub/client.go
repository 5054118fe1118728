package hub

import (
	"context"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// DefaultEndpoint is the Hub itself.
const DefaultEndpoint = "https://huggingface.co"

// A Client speaks to one Hub. The zero value is the public one without a token.
type Client struct {
	// Endpoint is the address of the Hub or of a mirror; default [DefaultEndpoint].
	Endpoint string
	// Token opens private and gated repositories; empty for none.
	Token string
	// HTTP sends the requests; default: the proxies that the environment names. Its
	// CheckRedirect is not used.
	HTTP *http.Client
	// RangeBytes is how much one request asks for, default 32 MiB, and Parallel how many
	// run at the same time for a file, default 4.
	RangeBytes int64
	Parallel   int
	// Attempts is how often a request that brings nothing is sent, default 6.
	Attempts int
	// Backoff is the wait before the second attempt, default 500 ms; it doubles up to
	// 30 s. WaitMax is the longest Retry-After that is obeyed, default 5 min: a longer one
	// fails the download.
	Backoff, WaitMax time.Duration
	// Stall is how long a connection may bring nothing, default 30 s.
	Stall time.Duration
	// Notify is told why a download waits; nil for nothing.
	Notify func(text string)
}

// FromEnv returns the client that the variables of the Hub's own tools describe:
// HF_ENDPOINT, HF_TOKEN (or the file HF_TOKEN_PATH, or HF_HOME/token, that `hf auth
// login` writes). Proxies come from HTTPS_PROXY, HTTP_PROXY and NO_PROXY.
func FromEnv(lookup func(string) (string, bool)) *Client {
	value := func(key string) string {
		text, _ := lookup(key)
		return strings.TrimSpace(text)
	}
	c := &Client{Endpoint: strings.TrimRight(value("HF_ENDPOINT"), "/"), Token: value("HF_TOKEN")}
	if c.Token == "" {
		c.Token = tokenFile(value)
	}
	return c
}

// tokenFile reads the token that the Hub's own login stored, if there is one.
func tokenFile(value func(string) string) string {
	path := value("HF_TOKEN_PATH")
	if home := value("HF_HOME"); path == "" && home != "" {
		path = filepath.Join(home, "token")
	}
	if home := value("HOME"); path == "" && home != "" {
		path = filepath.Join(home, ".cache", "huggingface", "token")
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}

func (c *Client) endpoint() string {
	if c.Endpoint == "" {
		return DefaultEndpoint
	}
	return strings.TrimRight(c.Endpoint, "/")
}

const (
	rangeBytesDefault = 32 << 20
	parallelDefault   = 4
	attemptsDefault   = 6
	backoffDefault    = 500 * time.Millisecond
	backoffMax        = 30 * time.Second
	waitMaxDefault    = 5 * time.Minute
	stallDefault      = 30 * time.Second
	redirectsMax      = 10
)

func or[T comparable](value, fallback T) T {
	var zero T
	if value == zero {
		return fallback
	}
	return value
}

// plainHTTP has no limit on the whole request: files are large. A server that does not
// begin to answer is given up after a minute.
func plainHTTP() *http.Client {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.ResponseHeaderTimeout = time.Minute
	transport.MaxIdleConnsPerHost = 2 * parallelDefault
	return &http.Client{Transport: transport}
}

// prepared returns the client with all defaults filled in, ready to send.
func (c *Client) prepared() *Client {
	p := *c
	p.Endpoint = c.endpoint()
	p.RangeBytes = or(c.RangeBytes, rangeBytesDefault)
	p.Parallel = or(c.Parallel, parallelDefault)
	p.Attempts = or(c.Attempts, attemptsDefault)
	p.Backoff = or(c.Backoff, backoffDefault)
	p.WaitMax = or(c.WaitMax, waitMaxDefault)
	p.Stall = or(c.Stall, stallDefault)
	client := c.HTTP
	if client == nil {
		client = plainHTTP()
	}
	guarded := *client
	guarded.CheckRedirect = p.checkRedirect
	p.HTTP = &guarded
	return &p
}

// checkRedirect keeps the token from every other host, and secrets in addresses from
// plain connections.
func (c *Client) checkRedirect(r *http.Request, via []*http.Request) error {
	if len(via) >= redirectsMax {
		return &Error{Kind: Broken, Message: "the server redirects in a circle"}
	}
	if before := via[len(via)-1].URL; before.Scheme == "https" && r.URL.Scheme != "https" {
		return errorf(Refused, "the server redirects from https to %s, which is not encrypted", r.URL.Scheme)
	}
	if !c.isOwn(r.URL) {
		r.Header.Del("Authorization")
	}
	return nil
}

// isOwn reports whether an address is the endpoint's: the same scheme, host and port.
func (c *Client) isOwn(u *url.URL) bool {
	own, err := url.Parse(c.Endpoint)
	return err == nil && strings.EqualFold(own.Host, u.Host) && own.Scheme == u.Scheme
}

// request makes a request that carries the token where it may.
func (c *Client) request(ctx context.Context, method, address string) (*http.Request, error) {
	r, err := http.NewRequestWithContext(ctx, method, address, nil)
	if err != nil {
		return nil, err
	}
	r.Header.Set("User-Agent", "parley")
	r.Header.Set("Accept-Encoding", "identity")
	if c.Token != "" && c.isOwn(r.URL) {
		r.Header.Set("Authorization", "Bearer "+c.Token)
	}
	return r, nil
}

// notify says why a download waits.
func (c *Client) notify(text string) {
	if c.Notify != nil {
		c.Notify(text)
	}
}
