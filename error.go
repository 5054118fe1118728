package parley

import (
	"errors"
	"fmt"
	"time"
)

// A Code says what kind of failure an [Error] is. The gateway has one table
// from codes to HTTP statuses; no other package knows about HTTP.
type Code string

const (
	// InvalidRequest: the caller must change the request.
	InvalidRequest Code = "invalid_request"
	// Unprocessable: the caller must change the request, which an engine of another kind understood and refused.
	Unprocessable Code = "unprocessable"
	// ContextTooLong: the prompt and the requested output do not fit the model's context.
	ContextTooLong Code = "context_too_long"
	// TooLarge: the request body is larger than the server reads.
	TooLarge Code = "too_large"
	// Unauthenticated: the request carries no valid key.
	Unauthenticated Code = "unauthenticated"
	// Forbidden: the key is valid but may not do this.
	Forbidden Code = "forbidden"
	// NotFound: no such model, route or object.
	NotFound Code = "not_found"
	// Filtered: the safety policy does not allow the request.
	Filtered Code = "filtered"
	// Conflict: the object is in a state in which this cannot be done.
	Conflict Code = "conflict"
	// MethodNotAllowed: the route exists, with another method.
	MethodNotAllowed Code = "method_not_allowed"
	// RateLimited: the caller is over a limit and may try again later.
	RateLimited Code = "rate_limited"
	// QuotaExceeded: the caller's budget is spent; trying again does not help.
	QuotaExceeded Code = "quota_exceeded"
	// Overloaded: the server has no capacity now; try again later.
	Overloaded Code = "overloaded"
	// Unavailable: the model is loading, draining or gone.
	Unavailable Code = "unavailable"
	// Cancelled: the caller hung up before the answer was complete.
	Cancelled Code = "cancelled"
	// DeadlineExceeded: the answer was not complete in the time allowed.
	DeadlineExceeded Code = "deadline_exceeded"
	// Withdrawn: the worker had not begun the request when it was withdrawn; see [Withdrawal].
	Withdrawn Code = "withdrawn"
	// Internal: an error of the server. The message is for the log, never for the caller.
	Internal Code = "internal"
)

// An Error is a failure the caller can understand. Everything that is not an
// Error reaches the caller as [Internal] and is complete in the log.
type Error struct {
	Code Code
	// Message says what was wrong and what to do next.
	Message string
	// Param names the request field at fault, if there is one.
	Param string
	// Wait is how long to wait before retrying, if known; negative means that the same
	// request will not succeed later either.
	Wait time.Duration
}

// Error returns the message.
func (e *Error) Error() string { return e.Message }

// Errorf returns an Error with a formatted message.
func Errorf(code Code, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// Invalid returns an [InvalidRequest] about the request field param.
func Invalid(param, format string, args ...any) *Error {
	return &Error{Code: InvalidRequest, Message: fmt.Sprintf(format, args...), Param: param}
}

// CodeOf returns the code of the first [Error] in err's chain, or [Internal].
func CodeOf(err error) Code {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Code
	}
	return Internal
}
