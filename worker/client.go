package worker

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unicode"

	"parley"
	"parley/worker/wire"
)

// connectionsIdleMax is how many connections to one engine are kept for reuse:
// as many as answers that usually run side by side.
const connectionsIdleMax = 256

// idleMax is how long an unused connection is kept.
const idleMax = time.Minute

// newClient returns a client for one engine: all that is asked of a foreign one,
// and what a Parley worker says of itself, which it does within patience; 0 for as
// long as it takes.
func newClient(c *Config, patience time.Duration) *http.Client {
	t := &http.Transport{
		DialContext:           c.dialer().DialContext,
		DialTLSContext:        c.dialTLS,
		DisableCompression:    true,
		MaxIdleConns:          connectionsIdleMax,
		MaxIdleConnsPerHost:   connectionsIdleMax,
		IdleConnTimeout:       idleMax,
		ResponseHeaderTimeout: patience,
	}
	if c.Upstream != nil {
		t.Proxy = http.ProxyFromEnvironment
	}
	return &http.Client{Transport: t, CheckRedirect: noRedirect}
}

// noRedirect has redirects returned as they are: a worker is where it was said to be, and
// prompts and keys go nowhere else.
func noRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// dialTLS connects to the engine and speaks TLS.
func (c *Config) dialTLS(ctx context.Context, network, address string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, c.Silence)
	defer cancel()
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if c.TLS != nil {
		config = c.TLS()
	}
	dialer := tls.Dialer{NetDialer: c.dialer(), Config: config} // the address has the server's name
	return dialer.DialContext(ctx, network, address)
}

// dialer connects to the engine, and to no address outside its networks.
func (c *Config) dialer() *net.Dialer {
	d := &net.Dialer{Timeout: c.Silence, KeepAlive: c.Silence}
	if len(c.Networks) == 0 {
		return d
	}
	d.Control = func(_, address string, _ syscall.RawConn) error {
		at, err := netip.ParseAddrPort(address)
		if err != nil {
			return err
		}
		for _, n := range c.Networks {
			if n.Contains(at.Addr().Unmap()) {
				return nil
			}
		}
		return fmt.Errorf("%v is not in an allowed network", at.Addr())
	}
	return d
}

// dial connects to the engine, with TLS where its URL says so.
func (c *Config) dial(ctx context.Context) (net.Conn, error) {
	u, err := url.Parse(c.URL)
	if err != nil {
		return nil, err
	}
	if u.Scheme == "http" {
		return c.dialer().DialContext(ctx, "tcp", addressOf(u, "80"))
	}
	return c.dialTLS(ctx, "tcp", addressOf(u, "443"))
}

func addressOf(u *url.URL, port string) string {
	if p := u.Port(); p != "" {
		port = p
	}
	return net.JoinHostPort(u.Hostname(), port)
}

// anthropicVersion is the version of Anthropic's API that is spoken.
const anthropicVersion = "2023-06-01"

// distrust has the next probe ask again: an answer failed.
func (r *Remote) distrust() { r.probed.Store(nil) }

// without returns a text without the key of the engine, which some services repeat in
// their errors.
func (r *Remote) without(text string) string {
	if len(r.cfg.Key) < 8 {
		return text
	}
	return strings.ReplaceAll(text, r.cfg.Key, "…")
}

// request prepares a request to the engine.
func (r *Remote) request(ctx context.Context, method, path string, body io.Reader) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, method, r.cfg.URL+path, body)
	if err != nil {
		return nil, parley.Errorf(parley.InvalidRequest, "worker %s: %v", r.cfg.URL, err)
	}
	if trace, ok := parley.TraceOf(ctx); ok {
		req.Header.Set("Traceparent", trace.String())
	}
	switch {
	case r.cfg.Kind == Anthropic:
		req.Header.Set("Anthropic-Version", anthropicVersion)
		if r.cfg.Key != "" {
			req.Header.Set("X-Api-Key", r.cfg.Key)
		}
	case r.cfg.Key != "":
		req.Header.Set("Authorization", "Bearer "+r.cfg.Key)
	}
	return req, nil
}

// send posts a value as JSON, or gets if there is none. The answer has status
// 200, and its body must be closed.
func (r *Remote) send(ctx context.Context, path string, value any) (*http.Response, error) {
	return r.sendBy(ctx, r.client, path, value)
}

func (r *Remote) sendBy(ctx context.Context, client *http.Client, path string, value any) (*http.Response, error) {
	method, body := http.MethodGet, io.Reader(nil)
	if value != nil {
		text, err := json.Marshal(value)
		if err != nil {
			return nil, parley.Errorf(parley.InvalidRequest, "the request cannot be sent: %v", err)
		}
		method, body = http.MethodPost, bytes.NewReader(text)
	}
	req, err := r.request(ctx, method, path, body)
	if err != nil {
		return nil, err
	}
	if value != nil {
		req.Header.Set("Content-Type", "application/json")
		// Engines close connections that were idle for some seconds, or had some
		// hundred requests, without a word. An empty key is not sent, and has the
		// request that met this sent again on a new one.
		req.Header["Idempotency-Key"] = []string{}
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, r.unreachable(ctx, err)
	}
	if resp.StatusCode != http.StatusOK {
		defer resp.Body.Close()
		return nil, r.refusal(resp)
	}
	return resp, nil
}

// answerMax bounds an answer that is read as a whole.
const answerMax = 16 << 20

// get reads one JSON object from the engine.
func (r *Remote) get(ctx context.Context, path string, into any) error {
	resp, err := r.send(ctx, path, nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(io.LimitReader(resp.Body, answerMax)).Decode(into); err != nil {
		return r.garbled(ctx, err)
	}
	return nil
}

// unreachable says why the engine could not be asked, or why its answer ended
// before it was complete.
func (r *Remote) unreachable(ctx context.Context, err error) error {
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return parley.Errorf(parley.DeadlineExceeded, "the answer was not complete in the time allowed")
	case ctx.Err() != nil:
		return parley.Errorf(parley.Cancelled, "the client hung up before the answer was complete")
	case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
		return parley.Errorf(parley.Unavailable, "worker %s ended the answer before it was complete", r.cfg.URL)
	}
	return parley.Errorf(parley.Unavailable, "worker %s is unreachable: %v", r.cfg.URL, err)
}

// garbled says that the engine's answer makes no sense.
func (r *Remote) garbled(ctx context.Context, err error) error {
	if ctx.Err() != nil || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		return r.unreachable(ctx, err)
	}
	return parley.Errorf(parley.Unavailable, "worker %s (%s) sent an invalid answer: %v", r.cfg.URL, r.cfg.Kind, err)
}

// refusal makes an error of an answer whose status is not 200.
func (r *Remote) refusal(resp *http.Response) error {
	text, _ := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	r.distrust()
	return r.refused(resp.StatusCode, text, resp.Header.Get("Retry-After"))
}

// reasonMax bounds what clients are shown of an engine's words.
const reasonMax = 1000

// shown returns the words of a foreign engine as clients may read them: in one line, and without the engine's address.
func (r *Remote) shown(message string) string {
	message = strings.ReplaceAll(message, r.cfg.URL, "the engine")
	if u, err := url.Parse(r.cfg.URL); err == nil && u.Host != "" {
		message = strings.ReplaceAll(message, u.Host, "the engine")
	}
	message = strings.Join(strings.FieldsFunc(message, func(c rune) bool {
		return unicode.IsSpace(c) || unicode.IsControl(c)
	}), " ")
	if len(message) > reasonMax {
		message = strings.ToValidUTF8(message[:reasonMax], "") + "…"
	}
	return message
}

// waitOf returns the time of a Retry-After header, 0 if there is none.
func waitOf(header string, now time.Time) time.Duration {
	if seconds, err := strconv.Atoi(header); err == nil {
		return time.Duration(min(max(seconds, 0), int(retryMax/time.Second))) * time.Second
	}
	if at, err := http.ParseTime(header); err == nil {
		return min(max(at.Sub(now), 0), retryMax)
	}
	return 0
}

// retryMax bounds what an engine may say of when to come again.
const retryMax = 24 * time.Hour

// refused makes an error of a status and the text that explains it.
func (r *Remote) refused(status int, body []byte, retryAfter string) error {
	f := explain(body)
	f.Message = r.without(f.Message)
	e := &parley.Error{Code: codeOf(status, f.Message), Message: f.Message, Param: f.Param}
	if f.Code != "" {
		e.Code, e.Wait = f.Code, f.Wait
	} else if e.Code != parley.Unavailable {
		e.Message = r.shown(f.Message)
		if f.Message == noReason {
			e.Message = "The engine answered with status " + strconv.Itoa(status) + " and gave no reason."
		}
	}
	e.Wait = cmp.Or(waitOf(retryAfter, time.Now()), e.Wait)
	if e.Code == parley.Unavailable {
		e.Message = "worker " + r.cfg.URL + " rejected the request with status " + strconv.Itoa(
			status) + ": " + f.Message
	}
	switch {
	case f.Code == "" && isAccess(status):
		e.Message += ". " + r.keyAdvice()
		return &KeyError{e}
	case f.Code == "" && status == http.StatusInternalServerError:
		e.Message = "The engine answered with an error: " + r.shown(f.Message)
		return &EngineError{e}
	}
	return e
}

// statusOverloaded is what Anthropic's API answers when it has no room.
const statusOverloaded = 529

// A KeyError says that a worker does not accept the key of this gateway: no request will succeed there until
// an operator sets another key.
type KeyError struct{ Err *parley.Error }

// Error returns the message.
func (e *KeyError) Error() string { return e.Err.Error() }

// Unwrap returns the error without what it is about.
func (e *KeyError) Unwrap() error { return e.Err }

// An EngineError is a fault that an engine reports of itself. The engine is there: the request may be the cause.
type EngineError struct{ Err *parley.Error }

// Error returns the message.
func (e *EngineError) Error() string { return e.Err.Error() }

// Unwrap returns the error without what it is about.
func (e *EngineError) Unwrap() error { return e.Err }

// isAccess reports whether a status is about the gateway's own key.
func isAccess(status int) bool {
	return status == http.StatusUnauthorized || status == http.StatusForbidden ||
		status == http.StatusProxyAuthRequired
}

// keyAdvice says where an operator sets the key of the worker.
func (r *Remote) keyAdvice() string {
	sent := "No key is sent to it"
	if r.cfg.Key != "" {
		sent = "It does not accept the key that it is sent"
	}
	if r.cfg.Upstream != nil {
		return sent + ": set key or key_file of its entry in upstreams"
	}
	if r.cfg.Kind == Parley {
		return sent + ": set --worker-key to the same value on this server and on the worker"
	}
	return sent + ": set key or key_file of its entry in pools (docs/fleet.md)"
}

// codeOf says what a status of a foreign engine means: clients get the same status.
// The engine's own faults, and credentials of ours that it refuses, are not about the
// request; they are about the engine, which gets no more of them.
func codeOf(status int, message string) parley.Code {
	if isAccess(status) {
		return parley.Unavailable
	}
	switch status {
	case http.StatusBadRequest, http.StatusUnprocessableEntity:
		switch {
		case tooLong(message):
			return parley.ContextTooLong
		case status == http.StatusUnprocessableEntity:
			return parley.Unprocessable
		}
		return parley.InvalidRequest
	case http.StatusRequestEntityTooLarge:
		return parley.TooLarge
	case http.StatusNotFound:
		return parley.NotFound
	case http.StatusMethodNotAllowed:
		return parley.MethodNotAllowed
	case http.StatusConflict:
		return parley.Conflict
	case http.StatusTooManyRequests:
		return parley.RateLimited
	case http.StatusServiceUnavailable, statusOverloaded:
		return parley.Overloaded
	}
	if status >= 400 && status < 500 {
		return parley.InvalidRequest
	}
	return parley.Unavailable
}

// tooLong reports whether a message is about the context: engines have no code
// for that.
func tooLong(message string) bool {
	m := strings.ToLower(message)
	if strings.Contains(m, "prompt is too long") || strings.Contains(m, "context_length_exceeded") {
		return true
	}
	return strings.Contains(m, "context") && (strings.Contains(m, "length") || strings.Contains(m, "size") ||
		strings.Contains(m, "exceed"))
}

const noReason = "no reason given"

// explain finds what an error's body says: OpenAI's {"error": {"message"}}, our
// own fault in it, {"error": "…"}, {"detail": "…"}, {"message": "…"}, or just text.
func explain(body []byte) wire.Fault {
	var plain struct {
		Error   json.RawMessage `json:"error"`
		Message string          `json:"message"`
		Detail  json.RawMessage `json:"detail"`
	}
	if json.Unmarshal(body, &plain) != nil {
		return wire.Fault{Message: cmp.Or(strings.TrimSpace(string(body[:min(len(body), 500)])), noReason)}
	}
	var inner struct {
		Message string          `json:"message"`
		Param   string          `json:"param"`
		Parley  json.RawMessage `json:"parley"`
	}
	var text, detail string
	var own wire.Fault
	if json.Unmarshal(plain.Error, &inner) == nil && json.Unmarshal(inner.Parley, &own) == nil {
		return own
	}
	_ = json.Unmarshal(plain.Error, &text)
	if json.Unmarshal(plain.Detail, &detail) != nil {
		detail = string(plain.Detail)
	}
	message := cmp.Or(inner.Message, text, plain.Message, detail, noReason)
	return wire.Fault{Message: message, Param: inner.Param}
}

// RefusalBody returns the body with which a Parley worker refuses: OpenAI's
// form, and within it all that our own client wants to know.
func RefusalBody(err error) []byte {
	f := wire.FaultOf(err)
	body, _ := json.Marshal(map[string]any{"error": map[string]any{
		"message": f.Message, "type": string(f.Code), "param": nullable(f.Param), "code": string(f.Code), "parley": f,
	}})
	return body
}

func nullable(s string) any {
	if s == "" {
		return nil
	}
	return s
}
