package settings

import (
	"errors"
	"strings"
	"testing"

	"parley/cli"
)

// TestLogsNeedACollector wants an error where the log has nowhere to be sent.
func TestLogsNeedACollector(t *testing.T) {
	for _, c := range []struct {
		endpoint, logs string
		fails          bool
	}{
		{"", "", false},
		{"", "off", false},
		{"", "on", true},
		{"http://127.0.0.1:4318", "on", false},
	} {
		given := map[string]string{"PARLEY_OTLP_ENDPOINT": c.endpoint, "PARLEY_OTLP_LOGS": c.logs}
		s, err := Gather(nil, func(name string) (string, bool) { text, ok := given[name]; return text, ok }, "")
		if c.fails != (err != nil) || err != nil && !(errors.Is(err, cli.ErrUsage) &&
			strings.Contains(err.Error(), "add --otlp-endpoint")) {
			t.Errorf("%q, %q: %v", c.endpoint, c.logs, err)
		}
		if s.Collector.Logs != (c.logs == "on") || s.Collector.URL != c.endpoint {
			t.Errorf("%q, %q: %+v", c.endpoint, c.logs, s.Collector)
		}
	}
}
