package main

import (
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"strings"

	"parley/gateway/otlp"
)

var traceSettings = []setting{
	{key: "otlp-endpoint", wants: "the address of a collector such as http://127.0.0.1:4318", set: setCollector,
		help: "export traces to the OpenTelemetry collector at `URL`, by OTLP over HTTP (default: off)"},
}

func setCollector(s *settings, text string) error {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return errBadValue
	}
	s.collector = strings.TrimSuffix(strings.TrimRight(fmt.Sprint(u), "/"), "/v1/traces")
	return nil
}

// openTraces returns what sends traces of a service, and what ends it; nil if
// none are sent.
func (s *settings) openTraces(ctx context.Context, service string, log *slog.Logger) (*otlp.Exporter, func()) {
	if s.collector == "" {
		return nil, func() {}
	}
	e := otlp.New(s.collector, service, log)
	return e, inBackground(context.WithoutCancel(ctx), e.Run)
}
