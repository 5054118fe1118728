package openai

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"parley"
)

// StatusClosed is the status logged for a client that hung up before the
// answer was complete. It is never sent.
const StatusClosed = 499

// An ErrorBody is the one shape in which a failure reaches a client.
type ErrorBody struct {
	Error ErrorDetail `json:"error"`
}

// An ErrorDetail says what went wrong. The first four members are always
// present; Param and Code are null when there is nothing to say.
type ErrorDetail struct {
	Message string  `json:"message"`
	Type    string  `json:"type"`
	Param   *string `json:"param"`
	Code    *string `json:"code"`
	// RetryAfterMs is there where a stream has begun and no header can say it.
	RetryAfterMs int64 `json:"retry_after_ms,omitempty"`
}

// A Failure is an error in the form in which it goes out over HTTP.
type Failure struct {
	Status int
	// Header says whether and when the client should retry.
	Header http.Header
	Body   ErrorBody
}

// A rule is a row of the table from error codes to HTTP.
type rule struct {
	status int
	kind   string
	// code is the default; an error may carry a more exact one.
	code string
	// retrySeconds is sent as retry-after; 0 sends none.
	retrySeconds int
	// final says to clients that retrying does not help, where they would retry.
	final bool
}

const (
	invalidRequest = "invalid_request_error"
	serverError    = "server_error"
)

var rules = map[parley.Code]rule{
	parley.InvalidRequest:   {status: 400, kind: invalidRequest},
	parley.Unprocessable:    {status: 422, kind: invalidRequest, code: "unprocessable_entity"},
	parley.ContextTooLong:   {status: 400, kind: invalidRequest, code: "context_length_exceeded"},
	parley.Filtered:         {status: 400, kind: invalidRequest, code: "content_policy_violation"},
	parley.TooLarge:         {status: 413, kind: invalidRequest, code: "request_too_large"},
	parley.Unauthenticated:  {status: 401, kind: invalidRequest, code: "invalid_api_key"},
	parley.Forbidden:        {status: 403, kind: "permission_error", code: "permission_denied"},
	parley.NotFound:         {status: 404, kind: invalidRequest},
	parley.Conflict:         {status: 409, kind: invalidRequest, code: "conflict", final: true},
	parley.MethodNotAllowed: {status: 405, kind: invalidRequest, code: "method_not_allowed"},
	parley.RateLimited:      {status: 429, kind: "rate_limit_error", code: "rate_limit_exceeded", retrySeconds: 1},
	parley.QuotaExceeded:    {status: 429, kind: "insufficient_quota", code: "insufficient_quota", final: true},
	parley.Overloaded:       {status: 503, kind: serverError, code: "overloaded", retrySeconds: 1},
	parley.Unavailable:      {status: 503, kind: serverError, code: "unavailable", retrySeconds: 5},
	parley.Cancelled:        {status: StatusClosed, kind: serverError, code: "cancelled"},
	parley.DeadlineExceeded: {status: 504, kind: serverError, code: "deadline_exceeded"},
	parley.Internal:         {status: 500, kind: serverError},
}

// Describe turns err into what the client sees. The words of an internal
// error stay in the log; the client gets requestID, by which to find them.
func Describe(err error, requestID string) Failure {
	code := CodeOf(err)
	known, ok := rules[code]
	if !ok {
		code, known = parley.Internal, rules[parley.Internal]
	}
	detail := ErrorDetail{Message: messageOf(err, code, requestID), Type: known.kind, Code: optional(known.code)}
	if e, ok := errors.AsType[*parley.Error](err); ok && code != parley.Internal {
		detail.Param = optional(e.Param)
	}
	if e, ok := errors.AsType[*codedError](err); ok {
		detail.Code = optional(e.code)
	}
	return Failure{Status: known.status, Header: known.header(waitOf(err)), Body: ErrorBody{detail}}
}

// CodeOf is [parley.CodeOf], with the context package's own errors understood.
func CodeOf(err error) parley.Code {
	if code := parley.CodeOf(err); code != parley.Internal {
		return code
	}
	switch {
	case errors.Is(err, context.Canceled):
		return parley.Cancelled
	case errors.Is(err, context.DeadlineExceeded):
		return parley.DeadlineExceeded
	}
	return parley.Internal
}

func messageOf(err error, code parley.Code, requestID string) string {
	if e, ok := errors.AsType[*parley.Error](err); ok && code != parley.Internal {
		return e.Message
	}
	switch code {
	case parley.Cancelled:
		return "The request was cancelled."
	case parley.DeadlineExceeded:
		return "The answer was not complete in the time allowed."
	}
	return fmt.Sprintf(
		"The server had an error while processing your request. You can retry it, or report it with the "+
			"request ID %s.", requestID)
}

// waitOf returns how long an error says to wait, 0 if it does not.
func waitOf(err error) time.Duration {
	if e, ok := errors.AsType[*parley.Error](err); ok {
		return e.Wait
	}
	return 0
}

// header says whether and when to retry. Clients read the milliseconds
// first; seconds are whole and at least one.
func (r rule) header(wait time.Duration) http.Header {
	h := make(http.Header)
	if r.status == http.StatusUnauthorized {
		h.Set("WWW-Authenticate", `Bearer realm="parley"`)
	}
	if wait == 0 {
		wait = time.Duration(r.retrySeconds) * time.Second
	}
	switch {
	case r.final || wait < 0:
		h.Set("X-Should-Retry", "false")
	case wait > 0:
		h.Set("Retry-After", strconv.FormatInt(int64((wait+time.Second-1)/time.Second), 10))
		h.Set("Retry-After-Ms", strconv.FormatInt(int64((wait+time.Millisecond-1)/time.Millisecond), 10))
	}
	return h
}

// InStream is the body of a failure that comes in a stream: it says itself when
// to try again, which a header says elsewhere.
func (f Failure) InStream() ErrorBody {
	body := f.Body
	body.Error.RetryAfterMs, _ = strconv.ParseInt(f.Header.Get("Retry-After-Ms"), 10, 64) // 0 if there is none
	return body
}

func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// A codedError gives an error the exact code that clients match on, where the
// table's is too coarse.
type codedError struct {
	cause *parley.Error
	code  string
}

func (e *codedError) Error() string { return e.cause.Error() }
func (e *codedError) Unwrap() error { return e.cause }

func withCode(code string, cause *parley.Error) error {
	return &codedError{cause, code}
}

// ModelNotFound is the error for a model that is not served.
func ModelNotFound(id string) error {
	return withCode("model_not_found", &parley.Error{
		Code:    parley.NotFound,
		Message: fmt.Sprintf("The model `%s` does not exist or you do not have access to it.", shorten(id)),
		Param:   "model",
	})
}

// MissingModel is the error for a request that names no model where none is
// the default.
func MissingModel() error {
	return withCode("missing_required_parameter", parley.Invalid("model", "Missing required parameter: 'model'."))
}

// MissingKey is the error for a request without a key where one is needed.
func MissingKey() error {
	return withCode("missing_api_key", parley.Errorf(parley.Unauthenticated,
		"You didn't provide an API key. Send yours in the header 'Authorization: Bearer pk-…' (or 'x-api-key'). "+
			"The operator of this server creates one with: parley keys create"))
}

// MissingToken is the error for a call that carries no credential, to a server that has
// no keys, about what is stored there or changes the server.
func MissingToken() error {
	return withCode("missing_local_token", parley.Errorf(parley.Unauthenticated,
		"This server has no API keys, so stored data and administration need its local token: open the link that "+
			"'parley serve' printed, or send the token in the header 'Authorization: Bearer …'. Or create a key "+
			"with: parley keys create --admin --name me"))
}

// RouteNotFound is the error for a path that does not exist, with a hint, which may be empty.
func RouteNotFound(method, path, hint string) error {
	return withCode("unknown_url", parley.Errorf(parley.NotFound,
		"Unknown request URL: %s %s.%s See GET / for the ones there are.", method, shorten(path), hint))
}

// ContextTooLong is the error for a prompt of promptTokens that, with
// outputTokens of answer, does not fit contextTokens. An outputTokens of 0
// means that none was asked for and the prompt alone leaves no room. The words
// are the interface's own: clients search them.
func ContextTooLong(param string, contextTokens, promptTokens, outputTokens int) error {
	e := &parley.Error{Code: parley.ContextTooLong, Param: param}
	if outputTokens == 0 {
		e.Message = fmt.Sprintf(
			"This model's maximum context length is %d tokens. However, your %s resulted in %d tokens. Please "+
				"reduce the length of the %s.",
			contextTokens, param, promptTokens, param)
		return &tooLong{e, contextTokens, promptTokens, 0}
	}
	e.Message = fmt.Sprintf(
		"This model's maximum context length is %d tokens. However, you requested %d tokens (%d in the %s, %d in "+
			"the completion). Please reduce the length of the %s or completion.",
		contextTokens, promptTokens+outputTokens, promptTokens, param, outputTokens, param)
	return &tooLong{e, contextTokens, promptTokens, outputTokens}
}

// A tooLong is an error about a context, with its numbers.
type tooLong struct {
	inner                                     *parley.Error
	contextTokens, promptTokens, outputTokens int
}

func (e *tooLong) Error() string { return e.inner.Error() }
func (e *tooLong) Unwrap() error { return e.inner }

// BytesTooLong is the error for a text of which the bytes alone say that it has at
// least leastTokens, and does not fit contextTokens.
func BytesTooLong(param string, contextTokens, bytes, leastTokens int) error {
	return &tooLong{&parley.Error{Code: parley.ContextTooLong, Param: param, Message: fmt.Sprintf(
		"This model's maximum context length is %d tokens. However, your %s resulted in at least %d tokens (%d "+
			"bytes). Please reduce the length of the %s.",
		contextTokens, param, leastTokens, bytes, param)}, contextTokens, leastTokens, 0}
}

// Busy is the error for a request that would not have been dispatched in time: it
// is told so at once, with the time after which it is worth asking again.
func Busy(wait, retry time.Duration) error {
	return withCode("server_busy", &parley.Error{
		Code: parley.RateLimited,
		Message: fmt.Sprintf(
			"The server is busy: your request would have waited for about %v, longer than it may. Try again in %v.",
			roundTime(wait), roundTime(retry)),
		Wait: retry,
	})
}

// roundTime makes a time readable.
func roundTime(d time.Duration) time.Duration { return max(d.Round(time.Second), time.Second) }
