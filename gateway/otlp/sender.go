package otlp

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"
)

const (
	queueMax   = 4096
	batchMax   = 512
	batchEvery = time.Second
	sendMax    = 10 * time.Second
)

// A sender queues items of one kind and sends them in batches. It is safe for concurrent use.
type sender[T any] struct {
	endpoint, kind string
	encode         func([]T) []byte
	client         *http.Client
	log            *slog.Logger
	items          chan T
	dropped        atomic.Int64
}

func newSender[T any](endpoint, kind string, log *slog.Logger, encode func([]T) []byte) *sender[T] {
	return &sender[T]{
		endpoint: endpoint,
		kind:     kind,
		encode:   encode,
		client:   &http.Client{Timeout: sendMax},
		log:      log,
		items:    make(chan T, queueMax),
	}
}

// put queues an item, or drops and counts it where the queue is full. It never waits.
func (e *sender[T]) put(item T) {
	select {
	case e.items <- item:
	default:
		e.dropped.Add(1)
	}
}

// Dropped returns how many items found the queue full, or were not taken by the collector.
func (e *sender[T]) Dropped() int64 { return e.dropped.Load() }

// Run sends what is queued until ctx ends, and then the rest. A batch that is on
// its way when ctx ends arrives, too.
func (e *sender[T]) Run(ctx context.Context) {
	sending := context.WithoutCancel(ctx)
	tick := time.NewTicker(batchEvery)
	defer tick.Stop()
	var batch []T
	for {
		select {
		case s := <-e.items:
			if batch = append(batch, s); len(batch) < batchMax {
				continue
			}
		case <-tick.C:
		case <-ctx.Done():
			for len(e.items) > 0 {
				batch = append(batch, <-e.items)
			}
			e.send(sending, batch)
			return
		}
		e.send(sending, batch)
		batch = batch[:0]
	}
}

// send posts a batch. What a collector does not take is lost: neither traces nor logs are a
// ledger.
func (e *sender[T]) send(ctx context.Context, batch []T) {
	if len(batch) == 0 {
		return
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, e.endpoint, bytes.NewReader(e.encode(batch)))
	if err == nil {
		r.Header.Set("Content-Type", "application/json")
		err = e.post(r)
	}
	if err != nil {
		e.dropped.Add(int64(len(batch)))
		e.log.Warn("export to the collector failed", e.kind, len(batch), "dropped", e.dropped.Load(), "error", err)
	}
}

func (e *sender[T]) post(r *http.Request) error {
	response, err := e.client.Do(r)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(response.Body, 64<<10)) // so that the connection is used again
	if response.StatusCode/100 != 2 {
		return fmt.Errorf("the collector answered %s", response.Status)
	}
	return nil
}
