package ledger

import (
	"context"
	"crypto/rand"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"parley/gateway/book"
	"parley/limit"
)

// A TellerConfig says what a teller works with.
type TellerConfig struct {
	// Ledger is where alerts are claimed and kept, so that of all gateways on one
	// database one sends it.
	Ledger *Ledger
	// Key says what people call a key, and how its secret begins.
	Key func(ctx context.Context, id string) (name, prefix string, err error)
	// Webhook is the URL that alerts are posted to; empty posts none.
	Webhook string
	// Currency is what budgets are in; default "usd".
	Currency string
	// Now is the clock; default: time.Now.
	Now func() time.Time
	// Log hears of alerts; default: slog.Default().
	Log *slog.Logger
}

// A Teller sends an alert once when a budget is nearly spent: to the log, a metric, the
// ledger, where the admin page finds it, and a webhook. Package limit decides when,
// beside the sum of what was spent. Nothing here may delay a request: queues are
// bounded, and alerts that find one full are dropped.
//
// It must be closed, after the book of limits that has its Watch.
type Teller struct {
	config TellerConfig
	// Watch is for the book of limits.
	Watch *book.Watch
	// name is under which this process claims alerts.
	name    string
	news    chan piece
	hook    *webhook
	alerts  *prometheus.CounterVec
	stop    context.CancelFunc
	working sync.WaitGroup
}

// A piece of news is an account and how it stands.
type piece struct {
	account  string
	standing limit.Standing
}

const (
	// newsWaiting bounds the queue. An account that finds it full is told of with a
	// later request.
	newsWaiting = 256
	// claimMax bounds one claim, restMax all that are left when the teller is closed.
	claimMax = 5 * time.Second
	restMax  = 5 * time.Second
	hookWait = 3 * time.Second
)

// NewTeller returns a teller that works.
func NewTeller(config TellerConfig) *Teller {
	if config.Now == nil {
		config.Now = time.Now
	}
	if config.Log == nil {
		config.Log = slog.Default()
	}
	if config.Currency == "" {
		config.Currency = "usd"
	}
	t := &Teller{config: config, name: rand.Text(), news: make(chan piece, newsWaiting),
		alerts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "parley_budget_alerts_total",
			Help: "Budget alerts sent by this gateway, by the owner of the budget: key or organization."},
			[]string{"of"})}
	t.alerts.WithLabelValues("key")
	t.alerts.WithLabelValues("organization")
	t.hook = newWebhook(config.Webhook, config.Log)
	t.Watch = &book.Watch{Tell: t.take}
	ctx, stop := context.WithCancel(context.Background())
	t.stop = stop
	t.working.Go(func() { t.work(ctx) })
	return t
}

// Metrics are to be shown with the gateway's.
func (t *Teller) Metrics() []prometheus.Collector {
	return []prometheus.Collector{t.alerts, t.hook.posts}
}

// take queues news. It never waits.
func (t *Teller) take(account string, s limit.Standing) bool {
	select {
	case t.news <- piece{account, s}:
		return true
	default:
		return false
	}
}

// work sends what is queued until ctx ends, and then the rest, if the database is
// reachable.
func (t *Teller) work(ctx context.Context) {
	lasting := context.WithoutCancel(ctx)
	for ctx.Err() == nil {
		select {
		case p := <-t.news:
			t.tell(lasting, p)
		case <-ctx.Done():
		}
	}
	rest, cancel := context.WithTimeout(lasting, restMax)
	defer cancel()
	for len(t.news) > 0 && rest.Err() == nil {
		t.tell(rest, <-t.news)
	}
}

// tell claims an alert and sends it if this process must. What cannot be claimed now
// is retried with the account's next request.
func (t *Teller) tell(ctx context.Context, p piece) {
	ctx, cancel := context.WithTimeout(ctx, claimMax)
	defer cancel()
	a, err := t.alertOf(ctx, p)
	mine := false
	if err == nil {
		mine, err = t.config.Ledger.Claim(ctx, &a, t.name)
	}
	if err != nil {
		t.Watch.Again(p.account)
		t.config.Log.Error("budget alert not recorded; retrying with the next request", "organization", a.Organization,
			"key", a.Key, "error", err)
		return
	}
	if mine {
		t.announce(&a)
	}
}

// alertOf says whose news it is. Accounts are named after a tenant, or
// after one and a key of it.
func (t *Teller) alertOf(ctx context.Context, p piece) (a Alert, err error) {
	organization, key, _ := strings.Cut(p.account, "/")
	a = Alert{
		Account:      p.account,
		Organization: organization,
		Key:          key,
		At:           t.config.Now(),
		Standing:     p.standing,
	}
	if key != "" {
		a.Name, a.Prefix, err = t.config.Key(ctx, key)
	}
	return a, err
}

func (t *Teller) announce(a *Alert) {
	d := a.Document(t.config.Currency)
	of, about := "organization", []any{"organization", a.Organization}
	if a.Key != "" {
		of = "key"
		about = append(about, "key", a.Name, "prefix", a.Prefix+"…")
	}
	t.alerts.WithLabelValues(of).Inc()
	t.config.Log.Warn("budget nearly spent",
		append(about, "spent", a.Standing.Spent.String(), "budget", a.Standing.Budget.String(),
			"used", a.Standing.Used().String(), "month", d.Month, "resets", (a.Standing.Month+1).Start())...)
	t.hook.send(&d)
}

// Close sends what is queued, and gives the webhook a moment for what is in flight.
func (t *Teller) Close() error {
	t.stop()
	t.working.Wait()
	t.hook.close()
	return nil
}
