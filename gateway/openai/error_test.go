package openai

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"parley"
)

func TestDescribe(t *testing.T) {
	for _, c := range []struct {
		err    error
		status int
		body   string
		retry  string
	}{
		{parley.Invalid("n", "bad"), 400,
			`{"error":{"message":"bad","type":"invalid_request_error","param":"n","code":null}}`, ""},
		{fmt.Errorf("while reading: %w", withCode("invalid_type", parley.Invalid("n", "bad"))), 400,
			`{"error":{"message":"bad","type":"invalid_request_error","param":"n","code":"invalid_type"}}`, ""},
		{ContextTooLong("messages", 10, 12, 0), 400,
			`{"error":{"message":"This model's maximum context length is 10 tokens. However, your messages resulted in 12 tokens. Please reduce the length of the messages.","type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}}`, ""},
		{ContextTooLong("prompt", 10, 6, 5), 400,
			`{"error":{"message":"This model's maximum context length is 10 tokens. However, you requested 11 tokens (6 in the prompt, 5 in the completion). Please reduce the length of the prompt or completion.","type":"invalid_request_error","param":"prompt","code":"context_length_exceeded"}}`, ""},
		{ModelNotFound("x"), 404,
			"{\"error\":{\"message\":\"The model `x` does not exist or you do not have access to " +
				"it.\",\"type\":\"invalid_request_error\",\"param\":\"model\",\"code\":\"model_not_found\"}}", ""},
		{parley.Errorf(parley.RateLimited, "slow"), 429,
			`{"error":{"message":"slow","type":"rate_limit_error","param":null,"code":"rate_limit_exceeded"}}`, "1"},
		{parley.Errorf(parley.Overloaded, "full"), 503,
			`{"error":{"message":"full","type":"server_error","param":null,"code":"overloaded"}}`, "1"},
		{parley.Errorf(parley.Unavailable, "gone"), 503,
			`{"error":{"message":"gone","type":"server_error","param":null,"code":"unavailable"}}`, "5"},
		{parley.Errorf(parley.TooLarge, "big"), 413,
			`{"error":{"message":"big","type":"invalid_request_error","param":null,"code":"request_too_large"}}`, ""},
		{context.Canceled, 499,
			`{"error":{"message":"The request was cancelled.","type":"server_error","param":null,"code":"cancelled"}}`,
			""},
		{fmt.Errorf("x: %w", context.DeadlineExceeded), 504,
			`{"error":{"message":"The answer was not complete in the time allowed.","type":"server_error","param":null,"code":"deadline_exceeded"}}`, ""},
		{errors.New("secret path"), 500,
			`{"error":{"message":"The server had an error while processing your request. You can retry it, or report it with the request ID req_1.","type":"server_error","param":null,"code":null}}`, ""},
		{parley.Errorf(parley.Internal, "secret"), 500,
			`{"error":{"message":"The server had an error while processing your request. You can retry it, or report it with the request ID req_1.","type":"server_error","param":null,"code":null}}`, ""},
	} {
		got := Describe(c.err, "req_1")
		body, err := Encode(got.Body)
		if err != nil {
			t.Fatal(err)
		}
		if got.Status != c.status || string(body) != c.body || got.Header.Get("Retry-After") != c.retry {
			t.Errorf("%v: %d %v\n got %s\nwant %s", c.err, got.Status, got.Header, body, c.body)
		}
	}
}

// TestInStream wants a stream to say when to try again, as a header does elsewhere.
func TestInStream(t *testing.T) {
	for _, c := range []struct {
		err  error
		want string
	}{
		{&parley.Error{Code: parley.Overloaded, Message: "full", Wait: 1500 * time.Millisecond},
			`{"error":{"message":"full","type":"server_error","param":null,"code":"overloaded","retry_after_ms":1500}}`},
		{parley.Errorf(parley.QuotaExceeded, "spent"),
			`{"error":{"message":"spent","type":"insufficient_quota","param":null,"code":"insufficient_quota"}}`},
	} {
		body, err := Encode(Describe(c.err, "req_1").InStream())
		if err != nil || string(body) != c.want {
			t.Errorf("got %s, want %s (%v)", body, c.want, err)
		}
	}
}

func TestDescribeEveryCode(t *testing.T) {
	for _, code := range []parley.Code{parley.InvalidRequest, parley.ContextTooLong, parley.TooLarge,
		parley.Unauthenticated,
		parley.Forbidden, parley.NotFound, parley.MethodNotAllowed, parley.RateLimited, parley.QuotaExceeded,
		parley.Overloaded,
		parley.Unavailable, parley.Cancelled, parley.DeadlineExceeded, parley.Internal} {
		if _, ok := rules[code]; !ok {
			t.Errorf("no rule for %s", code)
		}
	}
	if got := Describe(parley.Errorf("made up", "secret"), "req_1"); got.Status != 500 {
		t.Errorf("an unknown code gives %d", got.Status)
	}
	if got := Describe(parley.Errorf(parley.QuotaExceeded, "spent"), "").Header.Get("X-Should-Retry"); got != "false" {
		t.Errorf("x-should-retry is %q for a spent quota", got)
	}
}
