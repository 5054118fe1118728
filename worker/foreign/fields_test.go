package foreign

import "testing"

func TestFieldAsks(t *testing.T) {
	for _, c := range []struct {
		name, value string
		want        bool
	}{
		{"min_tokens", "3", true}, {"min_tokens", "0", false}, {"min_tokens", "null", false},
		{"typical_p", "1", false}, {"typical_p", "1.0", false}, {"typical_p", "0.5", true},
		{"skip_special_tokens", "true", false}, {"skip_special_tokens", "false", true}, {"mirostat", "2", true},
		{"temperature", "2", false}, {"reasoning_format", `"auto"`, false}, {"reasoning_format", `"none"`, true},
		{"n_cmpl", "1", false}, {"n_cmpl", "2", true}, {"include_reasoning", "false", true},
		{"options", `{"temperature":0}`, true}, {"options", "{}", false},
	} {
		if got := FieldAsks(c.name, c.value); got != c.want {
			t.Errorf("%s: %s: %v", c.name, c.value, got)
		}
	}
}
