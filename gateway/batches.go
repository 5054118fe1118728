package gateway

import (
	"bytes"
	"context"
	"net/http"

	"parley/gateway/batch"
	"parley/gateway/exchange"
	"parley/gateway/openai"
)

// Bounds of a page of batches, which are the interface's own.
const (
	batchesPage    = 20
	batchesPageMax = 100
)

// createBatch answers POST /v1/batches.
func (g *Gateway) createBatch(c *call) error {
	store, err := g.fileStore(c)
	if err != nil {
		return err
	}
	request, err := exchange.Read(c.Exchange, openai.ParseBatch)
	if err != nil {
		return err
	}
	created, err := store.Create(request, c.Identity.Key, g.config.Now())
	if err != nil {
		return err
	}
	return c.Reply(http.StatusOK, created)
}

// listBatches answers GET /v1/batches.
func (g *Gateway) listBatches(c *call) error {
	store, err := g.fileStore(c)
	if err != nil {
		return err
	}
	page, err := openai.ParsePage(c.Request.URL.Query(), batchesPage, batchesPageMax)
	if err != nil {
		return err
	}
	list, err := store.Batches(page)
	if err != nil {
		return err
	}
	return c.Reply(http.StatusOK, list)
}

// showBatch answers GET /v1/batches/{id}.
func (g *Gateway) showBatch(c *call) error {
	store, err := g.fileStore(c)
	if err != nil {
		return err
	}
	found, err := store.Batch(c.Values["id"])
	if err != nil {
		return err
	}
	return c.Reply(http.StatusOK, found)
}

// cancelBatch answers POST /v1/batches/{id}/cancel.
func (g *Gateway) cancelBatch(c *call) error {
	store, err := g.fileStore(c)
	if err != nil {
		return err
	}
	if err := c.sameSite(); err != nil {
		return err
	}
	cancelled, err := store.Cancel(c.Values["id"], g.config.Now())
	if err != nil {
		return err
	}
	return c.Reply(http.StatusOK, cancelled)
}

// startBatches works batches off until the gateway drains.
func (g *Gateway) startBatches() *batchWork {
	ctx, cancel := context.WithCancel(context.Background())
	work := &batchWork{end: cancel}
	if g.config.Batches != nil {
		runner := &batch.Runner{Store: g.config.Batches, Answer: g.answerAlone, Now: g.config.Now, Log: g.config.Log}
		work.running.Go(func() { runner.Run(ctx) })
	}
	return work
}

// answerAlone answers a request that no client waits for, in the background: as
// if it had come over the network, with its log line and its share of the
// metrics.
func (g *Gateway) answerAlone(ctx context.Context, by batch.Author, endpoint string,
	body []byte) (openai.BatchResponse, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, endpoint, bytes.NewReader(body))
	if err != nil {
		return openai.BatchResponse{}, err
	}
	r.Header.Set("Content-Type", "application/json")
	w := &memoryResponse{header: http.Header{}}
	c := g.newCall(w, r)
	c.Record.Background, c.author = true, &by
	hooks := c.hooks()
	hooks.Recheck = func() error {
		_, err := g.who(c)
		return err
	}
	c.job = g.jobs.New(c.Record, hooks)
	g.answer(c)
	if err := ctx.Err(); err != nil {
		return openai.BatchResponse{}, err
	}
	final := w.header.Get("X-Should-Retry") == "false"
	return openai.BatchResponse{StatusCode: c.Status, RequestID: c.Record.ID, Body: bytes.TrimSpace(w.body.Bytes()),
		Final: final}, nil
}

// A memoryResponse keeps what is written to it.
type memoryResponse struct {
	header http.Header
	body   bytes.Buffer
}

// Header returns the headers to come.
func (m *memoryResponse) Header() http.Header { return m.header }

// WriteHeader does nothing: the call remembers its status.
func (m *memoryResponse) WriteHeader(int) {}

// Write keeps a piece of the body.
func (m *memoryResponse) Write(p []byte) (int, error) { return m.body.Write(p) }
