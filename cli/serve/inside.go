package serve

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"sync"

	"parley/cli/remote"
	"parley/cli/settings"
	"parley/gateway"
	"parley/gateway/record"
	"parley/worker/host"
)

// An insideServer is a server in this process that accepts no connections. It
// has the settings of serve, from its variables and its file, but stores nothing.
type insideServer struct {
	hosts  []*host.Host
	front  *gateway.Gateway
	direct *direct
}

// StartInside loads models and returns a client of them. A model that is named
// is the only one.
func StartInside(model string, s *settings.Settings) (x *insideServer, c *remote.Client, err error) {
	if model != "" && !s.Serves(model) {
		s.Models = []settings.Model{{Path: model}}
	}
	quiet := slog.New(slog.DiscardHandler)
	registry := record.NewRegistry()
	x = &insideServer{}
	if x.hosts, _, err = startHosts(s, registry, quiet, io.Discard); err != nil {
		return nil, nil, errors.Join(err, x.Close())
	}
	if x.front, err = gateway.New(gateway.Config{Models: served(x.hosts), Log: quiet, Registry: registry}); err != nil {
		return nil, nil, errors.Join(err, x.Close())
	}
	x.direct = &direct{handler: x.front}
	return x, &remote.Client{Root: "http://inside", HTTP: &http.Client{Transport: x.direct}}, nil
}

// Close ends the answers that are being given and frees the models.
func (x *insideServer) Close() error {
	if x.direct != nil {
		x.direct.wait()
	}
	if x.front != nil {
		closeNow(x.front)
	}
	return closeAll(x.hosts)
}

// A direct carries requests to a handler in this process, without a network in
// between. A body that is closed before its end cancels its request.
type direct struct {
	handler http.Handler
	running sync.WaitGroup
}

// RoundTrip returns as soon as the handler has sent its header.
func (d *direct) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancel(r.Context())
	body, w := io.Pipe()
	answer := &directAnswer{header: http.Header{}, body: w, begun: make(chan struct{})}
	d.running.Go(func() {
		defer cancel()
		d.handler.ServeHTTP(answer, r.Clone(ctx))
		answer.WriteHeader(http.StatusOK)
		_ = w.CloseWithError(r.Context().Err()) // the end of the body, or why it has none
	})
	select {
	case <-answer.begun:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	return &http.Response{
		StatusCode:    answer.status,
		Status:        http.StatusText(answer.status),
		Proto:         "HTTP/1.1",
		ProtoMajor:    1,
		ProtoMinor:    1,
		Header:        answer.sent,
		Body:          &directBody{body, cancel},
		ContentLength: -1,
		Request:       r,
	}, nil
}

// wait returns when no handler runs any more. Callers must have closed
// the bodies.
func (d *direct) wait() { d.running.Wait() }

// A directAnswer is where the handler writes.
type directAnswer struct {
	header, sent http.Header
	status       int
	body         *io.PipeWriter
	begun        chan struct{}
}

// Header returns the header that WriteHeader will send.
func (a *directAnswer) Header() http.Header { return a.header }

// WriteHeader sends the header, once.
func (a *directAnswer) WriteHeader(status int) {
	if a.status == 0 {
		a.status, a.sent = status, a.header.Clone()
		close(a.begun)
	}
}

// Write waits until the bytes were read.
func (a *directAnswer) Write(p []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	return a.body.Write(p)
}

// Flush does nothing: whatever is written is there at once.
func (a *directAnswer) Flush() {}

// A directBody is where the client reads.
type directBody struct {
	*io.PipeReader
	cancel context.CancelFunc
}

// Close cancels the request if it still runs.
func (b *directBody) Close() error {
	b.cancel()
	return b.PipeReader.Close()
}
