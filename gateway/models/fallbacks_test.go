package models

import (
	"errors"
	"io"
	"strings"
	"testing"

	"parley"
)

// TestCheckFallbacks refuses cycles, long ones too, and models that are not served.
func TestCheckFallbacks(t *testing.T) {
	served := []Config{{ID: "a"}, {ID: "b"}, {ID: "c"}}
	for name, row := range map[string]struct {
		fallbacks map[string]Fallback
		says      string
	}{
		"a tree": {map[string]Fallback{"a": {OnError: {"b", "c"}}, "b": {OnContext: {"c"}}}, ""},
		"itself": {map[string]Fallback{"a": {OnError: {"a"}}}, "a -> a is a cycle"},
		"two causes": {map[string]Fallback{"a": {OnError: {"b"}}, "b": {OnContext: {"c"}}, "c": {OnOverload: {"a"}}},
			"a -> b -> c -> a is a cycle"},
		"aside": {map[string]Fallback{"a": {OnError: {"b"}}, "b": {OnError: {"c"}}, "c": {OnError: {"b"}}},
			"b -> c -> b is a cycle"},
		"not served":  {map[string]Fallback{"a": {OnError: {"d"}}}, `falls back to "d", which is not served`},
		"not a model": {map[string]Fallback{"d": {OnError: {"a"}}}, `"d" is not served`},
	} {
		err := CheckFallbacks(row.fallbacks, served)
		if (err == nil) != (row.says == "") || err != nil && !strings.Contains(err.Error(), row.says) {
			t.Errorf("%s: %v, want %q", name, err, row.says)
		}
	}
}

// TestCauseOf knows which failures another model may not have.
func TestCauseOf(t *testing.T) {
	for code, want := range map[parley.Code]Cause{
		parley.Unavailable: OnError, parley.Overloaded: OnOverload, parley.RateLimited: OnOverload,
		parley.ContextTooLong: OnContext, parley.InvalidRequest: "", parley.Filtered: "", parley.Cancelled: "",
		parley.DeadlineExceeded: "", parley.QuotaExceeded: "",
	} {
		if got := CauseOf(&parley.Error{Code: code}); got != want {
			t.Errorf("%s: %q, want %q", code, got, want)
		}
	}
	if got := CauseOf(errors.Join(io.EOF)); got != "" {
		t.Errorf("an unknown error is %q", got)
	}
}
