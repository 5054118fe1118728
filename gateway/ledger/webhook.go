package ledger

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// A webhook posts alerts to a URL, one after the other.
type webhook struct {
	url    string
	client *http.Client
	log    *slog.Logger
	posts  *prometheus.CounterVec
	// pauses are what is waited for between tries.
	pauses []time.Duration
	queue  chan *AlertDocument
	// ending is closed when there are no more retries.
	ending  chan struct{}
	ctx     context.Context
	cancel  context.CancelFunc
	working sync.WaitGroup
}

const (
	// postMax bounds one try, postsWaiting how many alerts wait for theirs.
	postMax      = 5 * time.Second
	postsWaiting = 64
)

// newWebhook returns one that works; without a URL it does nothing.
func newWebhook(to string, log *slog.Logger) *webhook {
	w := &webhook{
		url:    to,
		log:    log,
		queue:  make(chan *AlertDocument, postsWaiting),
		ending: make(chan struct{}),
		pauses: []time.Duration{time.Second, 5 * time.Second, 25 * time.Second},
		posts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "parley_budget_webhook_total",
			Help: "Budget alerts for the webhook, by outcome: delivered, failed or dropped."}, []string{"outcome"}),
		client: &http.Client{Timeout: postMax, Transport: http.DefaultTransport.(*http.Transport).Clone(),
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }},
	}
	for _, outcome := range []string{"delivered", "failed", "dropped"} {
		w.posts.WithLabelValues(outcome)
	}
	w.ctx, w.cancel = context.WithCancel(context.Background())
	if to != "" {
		w.working.Go(w.work)
	}
	return w
}

// send queues an alert. It never waits.
func (w *webhook) send(d *AlertDocument) {
	if w.url == "" {
		return
	}
	select {
	case w.queue <- d:
	default:
		w.posts.WithLabelValues("dropped").Inc()
		w.log.Error("budget alert dropped: webhook queue full", "alert", d.ID, "waiting", postsWaiting)
	}
}

func (w *webhook) work() {
	for d := range w.queue {
		if err := w.deliver(d); err != nil {
			w.posts.WithLabelValues("failed").Inc()
			w.log.Error("budget alert not delivered", "alert", d.ID, "error", err)
			continue
		}
		w.posts.WithLabelValues("delivered").Inc()
	}
}

// deliver posts an alert until it is taken, a few times.
func (w *webhook) deliver(d *AlertDocument) error {
	body, err := json.Marshal(d)
	if err != nil {
		return err
	}
	for try := 0; ; try++ {
		again, err := w.post(body)
		if err == nil || !again || try == len(w.pauses) || !w.rest(w.pauses[try]) {
			return err
		}
	}
}

// rest waits before another try, and reports whether there is to be one.
func (w *webhook) rest(d time.Duration) bool {
	select {
	case <-w.ending:
		return false
	case <-time.After(d):
		return true
	}
}

// post tries once. If that fails, again says whether another try may help.
func (w *webhook) post(body []byte) (again bool, err error) {
	r, err := http.NewRequestWithContext(w.ctx, http.MethodPost, w.url, bytes.NewReader(body))
	if err != nil {
		return false, unnamed(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("User-Agent", "parley")
	response, err := w.client.Do(r)
	if err != nil {
		return true, unnamed(err)
	}
	defer response.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(response.Body, 64<<10)) // so that the connection is used again
	switch status := response.StatusCode; {
	case status/100 == 2:
		return false, nil
	case status/100 == 5 || status == http.StatusTooManyRequests || status == http.StatusRequestTimeout:
		return true, fmt.Errorf("it answered %s", response.Status)
	}
	return false, fmt.Errorf(
		"it answered %s, so it was not tried again: check the address given with --budget-webhook", response.Status)
}

// unnamed takes the address out of an error: such addresses are often secrets.
func unnamed(err error) error {
	if named, ok := err.(*url.Error); ok {
		return named.Err
	}
	return err
}

// close gives what waits one attempt each, within hookWait. send must not be called
// afterwards.
func (w *webhook) close() {
	close(w.ending)
	close(w.queue)
	timer := time.AfterFunc(hookWait, w.cancel)
	w.working.Wait()
	timer.Stop()
	w.cancel()
	w.client.CloseIdleConnections()
}
