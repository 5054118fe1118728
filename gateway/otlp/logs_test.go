package otlp

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestLogsReachACollector writes to a log from many sides: each line reaches the collector once, with its level,
// its attributes and its place in a trace, and is written to the log itself as well.
func TestLogsReachACollector(t *testing.T) {
	type line struct {
		SeverityText    string
		SeverityNumber  int
		Body            struct{ StringValue string }
		TraceID, SpanID string
		Attributes      []attribute
	}
	var mu sync.Mutex
	var lines []line
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var body struct {
			ResourceLogs []struct {
				Resource  struct{ Attributes []attribute }
				ScopeLogs []struct{ LogRecords []line }
			}
		}
		err := json.NewDecoder(r.Body).Decode(&body)
		if err != nil || r.URL.Path != "/v1/logs" || r.Header.Get("Content-Type") != "application/json" ||
			body.ResourceLogs[0].Resource.Attributes[0].Value["stringValue"] != "parley" {
			t.Errorf("%s: %+v, %v", r.URL.Path, body, err)
			return
		}
		mu.Lock()
		defer mu.Unlock()
		lines = append(lines, body.ResourceLogs[0].ScopeLogs[0].LogRecords...)
	}))
	defer receiver.Close()
	e := NewLogs(receiver.URL, "parley", slog.New(slog.DiscardHandler))
	ctx, end := context.WithCancel(t.Context())
	over := make(chan struct{})
	go func() { e.Run(ctx); close(over) }()
	var written strings.Builder
	log := slog.New(e.Beside(slog.NewTextHandler(&written, &slog.HandlerOptions{Level: slog.LevelInfo})))
	log.Debug("unseen")
	log.With("pool", "a").WithGroup("g").With("n", 1).With(slog.Group("", "m", 2)).Warn("worker lost",
		"error", errors.New("gone"), "wait", time.Second, slog.Group("in", "ok", true), "share", 0.5,
		"rate", math.Inf(1), slog.Attr{})
	log.Info("request", TraceAttribute, "0102", SpanAttribute, "03", "id", "req_1")
	quiet := slog.New(e.Beside(slog.NewTextHandler(io.Discard, nil)))
	const sides, each = 8, 100
	var writers sync.WaitGroup
	for range sides {
		writers.Go(func() {
			for range each {
				quiet.Info("crowd")
			}
		})
	}
	writers.Wait()
	end()
	<-over
	mu.Lock()
	defer mu.Unlock()
	if len(lines) != 2+sides*each || e.Dropped() != 0 {
		t.Errorf("%d lines came, %d were dropped", len(lines), e.Dropped())
	}
	texts, _ := json.Marshal(lines[:2]) // strings, numbers and bools
	const want = `[{"SeverityText":"WARN","SeverityNumber":13,"Body":{"StringValue":"worker lost"},"TraceID":"","SpanID":"",` +
		`"Attributes":[{"Key":"g.error","Value":{"stringValue":"gone"}},{"Key":"g.in.ok","Value":{"boolValue":true}},` +
		`{"Key":"g.m","Value":{"intValue":"2"}},{"Key":"g.n","Value":{"intValue":"1"}},` +
		`{"Key":"g.rate","Value":{"stringValue":"+Inf"}},{"Key":"g.share","Value":{"doubleValue":0.5}},` +
		`{"Key":"g.wait","Value":{"doubleValue":1}},{"Key":"pool","Value":{"stringValue":"a"}}]},` +
		`{"SeverityText":"INFO","SeverityNumber":9,"Body":{"StringValue":"request"},"TraceID":"0102","SpanID":"03",` +
		`"Attributes":[{"Key":"id","Value":{"stringValue":"req_1"}}]}]`
	if string(texts) != want {
		t.Errorf("got  %s\nwant %s", texts, want)
	}
	if !strings.Contains(written.String(), "worker lost") || !strings.Contains(written.String(), "g.in.ok=true") {
		t.Errorf("the log itself is %s", written.String())
	}
}

// TestLogsNeverWait writes more than the queue holds while nothing is sent, and has a collector that fails: what is
// lost is counted.
func TestLogsNeverWait(t *testing.T) {
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	defer receiver.Close()
	var failures strings.Builder
	e := NewLogs(receiver.URL, "parley", slog.New(slog.NewTextHandler(&failures, nil)))
	log := slog.New(e.Beside(slog.DiscardHandler))
	if log.Info("x"); len(e.items) != 0 {
		t.Error("it exports what the log does not write")
	}
	log = slog.New(e.Beside(slog.NewTextHandler(io.Discard, nil)))
	for range queueMax + 100 {
		log.Info("x")
	}
	if e.Dropped() != 100 {
		t.Errorf("%d were dropped", e.Dropped())
	}
	ctx, end := context.WithCancel(t.Context())
	end()
	e.Run(ctx)
	if e.Dropped() != queueMax+100 || !strings.Contains(failures.String(), "503") {
		t.Errorf("%d were dropped: %s", e.Dropped(), failures.String())
	}
}
