package load

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"unicode"
)

// A failure is the end of a request that was not completed.
type failure struct {
	outcome       Outcome
	kind, message string
}

func (f *failure) Error() string {
	if f.message == "" {
		return f.kind
	}
	return f.kind + ": " + f.message
}

// failureOf says what an error means for the request it ended. ctx is that of
// the whole run.
func failureOf(ctx context.Context, err error) *failure {
	var known *failure
	var dial *net.OpError
	switch {
	case errors.As(err, &known):
		return known
	case ctx.Err() != nil:
		return &failure{Unfinished, "", ""}
	case errors.Is(err, context.DeadlineExceeded):
		return &failure{Failed, "timeout", ""}
	case errors.As(err, &dial) && dial.Op == "dial":
		return &failure{Failed, "no connection", printable(err.Error())}
	}
	return &failure{Failed, "connection broke", printable(err.Error())}
}

// refusal says what a response means that is not a stream.
func refusal(resp *http.Response) error {
	body, _ := io.ReadAll(io.LimitReader(resp.Body, 64<<10)) // what arrived of it is all there is to say
	message := ErrorMessage(body)
	switch resp.StatusCode {
	case http.StatusOK:
		return &failure{Failed, "no stream", fmt.Sprintf("the server answered with %s: it may not know \"stream\"",
			printable(resp.Header.Get("Content-Type")))}
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		return &failure{Rejected, fmt.Sprintf("http %d", resp.StatusCode), message}
	}
	return &failure{Failed, fmt.Sprintf("http %d", resp.StatusCode), message}
}

// ErrorMessage finds the words in an error document, in whichever of the
// usual shapes it has.
func ErrorMessage(body []byte) string {
	var shape struct {
		Error   json.RawMessage `json:"error"`
		Message string          `json:"message"`
	}
	var inner struct {
		Message string `json:"message"`
	}
	_ = json.Unmarshal(body, &shape) // any other text is its own message
	var plain string
	switch {
	case json.Unmarshal(shape.Error, &inner) == nil && inner.Message != "":
		return printable(inner.Message)
	case json.Unmarshal(shape.Error, &plain) == nil && plain != "":
		return printable(plain)
	case shape.Message != "":
		return printable(shape.Message)
	}
	return printable(string(body))
}

// printable shortens a server's text and takes out what could confuse a
// terminal.
func printable(text string) string {
	const most = 200
	clean := strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, strings.ToValidUTF8(text, " "))
	if runes := []rune(clean); len(runes) > most {
		clean = string(runes[:most]) + "..."
	}
	return strings.TrimSpace(clean)
}
