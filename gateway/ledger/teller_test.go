package ledger

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"parley/gateway/book"
	"parley/limit"
)

var now = time.Date(2026, 11, 16, 12, 0, 0, 0, time.UTC)

func near(spent limit.Micros) limit.Standing {
	return limit.Standing{Month: limit.MonthOf(now), Budget: 10_000_000, Spent: spent, Alert: limit.AlertDefault}
}

func openLedger(t *testing.T, path string) *Ledger {
	l, end := opened(t, path)
	t.Cleanup(end)
	return l
}

// A lines is a log that can be read while it is written.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func newTeller(t *testing.T, l *Ledger, hook string) (*Teller, *lines) {
	log := &lines{}
	teller := NewTeller(TellerConfig{Ledger: l, Webhook: hook, Now: func() time.Time {
		return now
	}, Log: slog.New(slog.NewTextHandler(log, nil)),
		Key: func(context.Context, string) (string, string, error) { return "site", "pk-12345678", nil }})
	teller.hook.pauses = []time.Duration{time.Millisecond, time.Millisecond}
	return teller, log
}

// counted returns a counter with this label.
func counted(t *testing.T, teller *Teller, name, label string) (n float64) {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(teller.Metrics()...)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == name && m.GetLabel()[0].GetValue() == label {
				n += m.GetCounter().GetValue()
			}
		}
	}
	return n
}

// TestItIsToldOnce has two gateways and a restarted one hear the same.
func TestItIsToldOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "b.db")
	var logs []*lines
	alerts := 0.0
	tell := func(tellers ...*Teller) {
		for _, teller := range tellers {
			for _, account := range []string{"acme", "acme/key_1"} {
				if !teller.Watch.Tell(account, near(8_300_000)) {
					t.Error("it is not taken")
				}
			}
		}
		for _, teller := range tellers {
			if err := teller.Close(); err != nil {
				t.Error(err)
			}
			alerts += counted(t, teller, "parley_budget_alerts_total", "key") + counted(t, teller,
				"parley_budget_alerts_total", "organization")
		}
	}
	l := openLedger(t, path)
	one, log1 := newTeller(t, l, "")
	two, log2 := newTeller(t, openLedger(t, path), "")
	tell(one, two)
	again, log3 := newTeller(t, l, "")
	tell(again)
	logs = append(logs, log1, log2, log3)
	var all strings.Builder
	for _, log := range logs {
		all.WriteString(log.String())
	}
	said := all.String()
	if strings.Count(said, "level=WARN") != 2 || alerts != 2 || strings.Contains(said, "ERROR") {
		t.Errorf("%v alerts were counted, and the logs say:\n%s", alerts, said)
	}
	if !strings.Contains(said,
		`organization=acme key=site prefix=pk-12345678… spent=8.30 budget=10.00 used=0.83 month=2026-11 resets=2026-12-01`) {
		t.Errorf("the key's line is not there:\n%s", said)
	}
	if kept, err := l.Alerts(t.Context(), now, 10); err != nil || len(kept) != 2 {
		t.Errorf("kept: %v, %v", kept, err)
	}
}

// TestWhatCannotBeClaimedComesAgain takes the database away.
func TestWhatCannotBeClaimedComesAgain(t *testing.T) {
	l := openLedger(t, filepath.Join(t.TempDir(), "b.db"))
	teller, log := newTeller(t, l, "")
	var back atomic.Bool
	teller.config.Key = func(context.Context, string) (string, string, error) {
		if !back.Load() {
			return "", "", errors.New("the database is away")
		}
		return "site", "pk-12345678", nil
	}
	books := book.NewMemory(func() time.Time { return now })
	books.Watch = teller.Watch
	spend := func(id string, cost limit.Micros) {
		h := &limit.Hold{ID: id, Accounts: []limit.Account{{Name: "acme/key_1",
			Limits: limit.Limits{MonthlyBudget: 100, BudgetAlert: 800}}}, Use: limit.Use{Cost: cost}}
		if v, err := books.Reserve(t.Context(), h); err != nil || v.Refused != "" {
			t.Fatalf("%+v, %v", v, err)
		}
		books.Settle(h, h.Use)
	}
	until := func(said string) {
		for i := 0; !strings.Contains(log.String(), said); i++ {
			if i == 2000 {
				t.Fatalf("%q is not said:\n%s", said, log)
			}
			time.Sleep(5 * time.Millisecond)
		}
	}
	spend("1", 80)
	until("retrying with the next request")
	back.Store(true)
	spend("2", 1)
	until("budget nearly spent\"")
	_ = teller.Close()
}

// TestWebhook has a receiver that is not well at first.
func TestWebhook(t *testing.T) {
	var mu sync.Mutex
	var got []AlertDocument
	asked := 0
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if asked++; asked < 3 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		var d AlertDocument
		body, _ := io.ReadAll(r.Body)
		if err := json.Unmarshal(body, &d); err != nil || r.Header.Get("Content-Type") != "application/json" ||
			r.Method != "POST" {
			t.Errorf("%s, %v: %s", r.Method, err, body)
		}
		got = append(got, d)
	}))
	defer receiver.Close()
	teller, log := newTeller(t, openLedger(t, filepath.Join(t.TempDir(), "b.db")), receiver.URL)
	teller.Watch.Tell("acme/key_1", near(8_333_333))
	for i := 0; counted(t, teller, "parley_budget_webhook_total", "delivered") == 0; i++ {
		if i == 2000 {
			t.Fatalf("nothing arrives: %s", log)
		}
		time.Sleep(5 * time.Millisecond)
	}
	_ = teller.Close()
	if len(got) != 1 || asked != 3 {
		t.Fatalf("%d arrived with %d tries", len(got), asked)
	}
	d := got[0]
	const text = "The key site (pk-12345678…) of acme has spent 8.333333 of its budget of 10.00 usd for 2026-11 " +
		"(83 %). Once it is spent, requests are refused until 2026-12-01."
	if d.ID != "acme/key_1@2026-11" || d.Key.Name != "site" || d.Key.RedactedValue != "pk-12345678…" ||
		d.Budget.Used != 833 || d.Budget.State != limit.Nearing || d.Text != text {
		t.Errorf("%+v", d)
	}
}

// TestWebhookThatIsNoGood is given up, and nobody waits for it: neither one that
// refuses nor one that never answers.
func TestWebhookThatIsNoGood(t *testing.T) {
	var asked atomic.Int64
	refusing := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		http.Redirect(w, r, "/elsewhere", http.StatusFound)
	}))
	defer refusing.Close()
	teller, log := newTeller(t, openLedger(t, filepath.Join(t.TempDir(), "b.db")),
		refusing.URL+"/secret-of-the-address")
	teller.Watch.Tell("acme", near(9_000_000))
	_ = teller.Close()
	if asked.Load() != 1 || counted(t, teller, "parley_budget_webhook_total", "failed") != 1 ||
		!strings.Contains(log.String(), "302 Found, so it was not tried again") {
		t.Errorf("asked %d times: %s", asked.Load(), log)
	}

	letGo := make(chan struct{})
	silent := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-letGo }))
	defer silent.Close()
	defer close(letGo)
	teller, log = newTeller(t, openLedger(t, filepath.Join(t.TempDir(), "b.db")), silent.URL+"/secret-of-the-address")
	for range postsWaiting + 10 {
		teller.hook.send(&AlertDocument{ID: "x"})
	}
	if n := counted(t, teller, "parley_budget_webhook_total", "dropped"); n < 9 || n > 10 {
		t.Errorf("%v were dropped", n)
	}
	_ = teller.Close()
	if n := counted(t, teller, "parley_budget_webhook_total", "failed"); n < postsWaiting {
		t.Errorf("%v failed", n)
	}
	if strings.Contains(log.String(), "secret-of-the-address") {
		t.Error("the address of the webhook is in the log")
	}
}
