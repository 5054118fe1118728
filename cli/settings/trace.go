package settings

import (
	"fmt"
	"log/slog"
	"net/url"
	"strings"

	"parley/cli"
)

// A Collector is where traces are sent.
type Collector struct {
	URL string // empty for none
	// Logs: the log is sent there, too. Beside, if not nil, returns a handler that does so and
	// writes to the one that it is given.
	Logs   bool
	Beside func(slog.Handler) slog.Handler
}

var traceSettings = []Setting{
	{Key: "otlp-endpoint", wants: "the address of a collector such as http://127.0.0.1:4318", set: setCollector,
		Help: "export traces to the OpenTelemetry collector at `URL`, by OTLP over HTTP (default: off)"},
	{Key: "otlp-logs", wants: "on or off", set: setSwitch(func(s *Settings) *bool { return &s.Collector.Logs }),
		Help: "export the log to the collector of --otlp-endpoint as well: `on` or off (default off)"},
}

func setCollector(s *Settings, text string) error {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return errBadValue
	}
	s.Collector.URL = strings.TrimSuffix(strings.TrimRight(fmt.Sprint(u), "/"), "/v1/traces")
	return nil
}

// check says which settings of the collector have no effect.
func (c *Collector) check() error {
	if c.Logs && c.URL == "" {
		return fmt.Errorf("--otlp-logs needs a collector: add --otlp-endpoint "+
			"with an address such as http://127.0.0.1:4318: %w", cli.ErrUsage)
	}
	return nil
}
