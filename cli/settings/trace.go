package settings

import (
	"fmt"
	"net/url"
	"strings"
)

var traceSettings = []Setting{
	{Key: "otlp-endpoint", wants: "the address of a collector such as http://127.0.0.1:4318", set: setCollector,
		Help: "export traces to the OpenTelemetry collector at `URL`, by OTLP over HTTP (default: off)"},
}

func setCollector(s *Settings, text string) error {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return errBadValue
	}
	s.Collector = strings.TrimSuffix(strings.TrimRight(fmt.Sprint(u), "/"), "/v1/traces")
	return nil
}
