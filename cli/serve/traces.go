package serve

import (
	"context"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"

	"parley/cli/settings"
	"parley/gateway/otlp"
)

// A telemetry is the log of a service and what sends its traces and its log to a collector.
type telemetry struct {
	log    *slog.Logger
	traces *otlp.Exporter // nil if none are sent
	logs   *otlp.Logs     // nil if the log is not sent
	// end sends what is queued and ends the sending.
	end func()
}

// openTelemetry opens the log and, if the settings name a collector, sends traces and the log there until
// end is called. From then on, every log of the settings is sent.
func openTelemetry(ctx context.Context, s *settings.Settings, service string) *telemetry {
	t := &telemetry{end: func() {}}
	ctx = context.WithoutCancel(ctx)
	if s.Collector.Logs {
		t.logs = otlp.NewLogs(s.Collector.URL, service, s.Logger())
		s.Collector.Beside = t.logs.Beside
		t.end = inBackground(ctx, t.logs.Run)
	}
	t.log = s.Logger()
	if s.Collector.URL != "" {
		t.traces = otlp.New(s.Collector.URL, service, t.log)
		endTraces, endLogs := inBackground(ctx, t.traces.Run), t.end
		t.end = func() {
			endTraces() // first: it writes to the log
			endLogs()
		}
	}
	return t
}

// enter has the metrics say how much was not sent.
func (t *telemetry) enter(registry prometheus.Registerer) {
	count := func(signal string, dropped func() int64) {
		registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name:        "parley_otlp_dropped_total",
			Help:        "Spans and log records that were not sent: the queue was full, or the collector failed.",
			ConstLabels: prometheus.Labels{"signal": signal},
		}, func() float64 { return float64(dropped()) }))
	}
	if t.traces != nil {
		count("traces", t.traces.Dropped)
	}
	if t.logs != nil {
		count("logs", t.logs.Dropped)
	}
}
