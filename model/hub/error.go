package hub

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// A Kind says what kind of failure an [Error] is.
type Kind string

// The kinds of failures.
const (
	// NotFound: there is no such repository, revision or file, or it is private.
	NotFound Kind = "not found"
	// Gated: its owner must grant access first, or the token is missing or wrong.
	Gated Kind = "no access"
	// Busy: the server asked to wait for longer than we do, or failed too often.
	Busy Kind = "busy"
	// Broken: the connection failed too often, or the answer makes no sense.
	Broken Kind = "broken"
	// Refused: what the server offers is not safe to take.
	Refused Kind = "refused"
	// Mismatch: the bytes have another checksum.
	Mismatch Kind = "checksum"
	// NoRoom: the disk has too little room.
	NoRoom Kind = "no room"
)

// An Error is a download that cannot succeed as it is. Message says what to do.
type Error struct {
	Kind    Kind
	Message string
}

// Error returns the message.
func (e *Error) Error() string { return e.Message }

func errorf(kind Kind, format string, args ...any) *Error {
	return &Error{kind, fmt.Sprintf(format, args...)}
}

// A temporary failure may succeed if it is tried again after wait, or after the usual
// backoff if that is 0.
type temporary struct {
	err  error
	wait time.Duration
}

func (t *temporary) Error() string { return t.err.Error() }
func (t *temporary) Unwrap() error { return t.err }

const spelling = "Check the spelling; if it is private, set HF_TOKEN"

// statusError says what an unwanted status means. what
// names the model or file for people.
func (c *Client) statusError(res *http.Response, what string) error {
	code := res.Header.Get("X-Error-Code")
	switch status := res.StatusCode; {
	case status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable:
		busy := errorf(Busy, "%s: the server is busy (%s)", what, res.Status)
		return &temporary{busy, retryAfter(res.Header, time.Now())}
	case status >= 500 || status == http.StatusRequestTimeout:
		return &temporary{errorf(Busy, "%s: the server failed (%s)", what, res.Status), 0}
	case status == http.StatusForbidden && !c.isOwn(res.Request.URL):
		// A signed address of blob storage has expired: the next attempt gets a new one.
		return &temporary{errorf(Gated, "%s: the storage of the files refuses access (%s)", what, res.Status), 0}
	case code == "GatedRepo":
		return errorf(Gated, "%s: its owner asks you to accept terms first. Open %s in a browser, accept them, "+
			"and set HF_TOKEN to a token of that account", what, c.Endpoint+"/"+what)
	case status == http.StatusNotFound || code == "RepoNotFound":
		return errorf(NotFound, "%s: the server has no such model or file (%s). %s",
			what, or(code, res.Status), spelling)
	case status == http.StatusUnauthorized && c.Token == "":
		return errorf(NotFound, "%s: the server has no such public model. %s", what, spelling)
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		return errorf(Gated, "%s: the server does not accept the token (%s). "+
			"Check HF_TOKEN, and that its account may read this model", what, res.Status)
	}
	return errorf(Broken, "%s: the server answered %s", what, res.Status)
}

// retryAfter returns how long a header asks to wait: Retry-After in seconds or as a
// date, or the reset time of a RateLimit header, as in `"api";r=0;t=42`.
func retryAfter(h http.Header, now time.Time) time.Duration {
	if text := h.Get("Retry-After"); text != "" {
		if seconds, err := strconv.Atoi(text); err == nil {
			return time.Duration(max(seconds, 0)) * time.Second
		}
		if at, err := http.ParseTime(text); err == nil {
			return max(at.Sub(now), 0)
		}
	}
	for part := range strings.SplitSeq(h.Get("RateLimit"), ";") {
		if text, ok := strings.CutPrefix(strings.TrimSpace(part), "t="); ok {
			seconds, _ := strconv.Atoi(text)
			return time.Duration(max(seconds, 0)) * time.Second
		}
	}
	return 0
}
