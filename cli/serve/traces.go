package serve

import (
	"context"
	"log/slog"

	"parley/cli/settings"
	"parley/gateway/otlp"
)

// openTraces returns what sends traces of a service, and what ends it; nil if
// none are sent.
func openTraces(ctx context.Context, s *settings.Settings, service string, log *slog.Logger) (*otlp.Exporter, func()) {
	if s.Collector == "" {
		return nil, func() {}
	}
	e := otlp.New(s.Collector, service, log)
	return e, inBackground(context.WithoutCancel(ctx), e.Run)
}
