package remote

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

	"parley/cli"
	"parley/gateway/openai"
	"parley/internal/load"
)

// DefaultURL is where a server listens that was told nothing else.
var DefaultURL = "http://127.0.0.1:8080" // tests change it: there may be a server on the machine they run on

// A Client talks to a server for the person at the terminal.
type Client struct {
	Root string // such as http://127.0.0.1:8080
	// Key is shown to the server; if it is empty, the local token is, where this user
	// runs the server without keys.
	Key  string
	HTTP *http.Client
	// OfFleet says that it asks about a fleet, and that key may be the fleet's token.
	OfFleet bool
}

// URL returns the flag's address, else that of the variable PARLEY_URL,
// else the default one. named is false for the last.
func URL(flag string) (text string, named bool) {
	if flag != "" {
		return flag, true
	}
	if text := os.Getenv("PARLEY_URL"); text != "" {
		return text, true
	}
	return DefaultURL, false
}

// New checks an address, which may end in /v1 as OpenAI clients write it.
// Nothing is sent yet.
func New(address string) (*Client, error) {
	u, err := url.Parse(address)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Hostname() == "" || u.RawQuery != "" ||
		u.User != nil {
		return nil, fmt.Errorf("%q is not a server address: expected one such as %s: %w", address, DefaultURL,
			cli.ErrUsage)
	}
	u.Path = strings.TrimSuffix(strings.TrimRight(u.Path, "/"), "/v1")
	return &Client{Root: strings.TrimRight(u.String(), "/"), Key: os.Getenv("PARLEY_API_KEY"), HTTP: &http.Client{}},
		nil
}

// DocumentBytesMax bounds what is read of an answer that is not a stream.
const DocumentBytesMax = 16 << 20

// Get reads a document. A server that cannot be reached is a load.ErrNoServer.
func (c *Client) Get(ctx context.Context, path string) ([]byte, error) {
	resp, err := c.Send(ctx, http.MethodGet, path, nil)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	return io.ReadAll(io.LimitReader(resp.Body, DocumentBytesMax))
}

// Call sends a request with a JSON body, nil for none, and reads the answer.
func (c *Client) Call(ctx context.Context, method, path string, body, answer any) error {
	var text []byte
	if body != nil {
		var err error
		if text, err = json.Marshal(body); err != nil {
			return err
		}
	}
	resp, err := c.Send(ctx, method, path, text)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	return json.NewDecoder(io.LimitReader(resp.Body, DocumentBytesMax)).Decode(answer)
}

// Send sends a request. An answer other than 200 is an error with what the server says.
func (c *Client) Send(ctx context.Context, method, path string, body []byte) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, method, c.Root+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	if key := cmp.Or(c.Key, LocalTokenOf(c.Root)); key != "" {
		r.Header.Set("Authorization", "Bearer "+key)
	}
	resp, err := c.HTTP.Do(r)
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
						"certificate authority", c.Root, err)
		}
		return nil, fmt.Errorf("%w at %s: %w", load.ErrNoServer, c.Root, err)
	}
	if resp.StatusCode != http.StatusOK {
		defer resp.Body.Close()
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 64<<10)) // what arrived of it is all there is to say
		return nil, c.refused(resp.StatusCode, load.ErrorMessage(text))
	}
	return resp, nil
}

// ErrWantsKey says that there is a server, and what it lacks.
var ErrWantsKey = errors.New("set PARLEY_API_KEY to an API key")

// ErrNoFleet says that a server has no workers of its own to speak of.
var ErrNoFleet = errors.New("the server has no fleet: start it with --worker or with pools in its --config")

func (c *Client) refused(status int, message string) error {
	switch {
	case status == http.StatusUnauthorized && c.OfFleet:
		return fmt.Errorf(
			"the server answered %d: %s Set PARLEY_API_KEY to an admin key, or PARLEY_FLEET_OPERATE_TOKEN to the "+
				"operate token", status, message)
	case status == http.StatusNotFound && c.OfFleet && strings.HasPrefix(message, "Unknown request URL"):
		return ErrNoFleet
	case status == http.StatusUnauthorized:
		return fmt.Errorf("%s: %w", strings.TrimSuffix(message, "."), ErrWantsKey)
	}
	return fmt.Errorf("the server answered %d: %s", status, message)
}

// Models lists what the server offers.
func (c *Client) Models(ctx context.Context) ([]openai.Model, error) {
	body, err := c.Get(ctx, "/v1/models")
	if err != nil {
		return nil, err
	}
	var list openai.ModelList
	if err := json.Unmarshal(body, &list); err != nil || list.Object != "list" {
		return nil, fmt.Errorf("%s does not serve the OpenAI API: /v1/models is not a list of models", c.Root)
	}
	return list.Data, nil
}
