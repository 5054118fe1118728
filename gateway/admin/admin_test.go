package admin

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"parley"

	"github.com/prometheus/client_golang/prometheus"
)

func TestHistoryIsBounded(t *testing.T) {
	h := NewHistory()
	at := time.Unix(0, 0)
	for i := range 3000 {
		at = at.Add(Step)
		workers := make([]Worker, 100)
		for w := range workers {
			workers[w] = Worker{Name: fmt.Sprint(w), PreemptedTotal: float64(i)}
		}
		h.Add(&Reading{At: at, OKTotal: float64(i), Workers: workers})
	}
	if len(h.ring) != int(Kept/Step)+1 {
		t.Errorf("%d readings are kept", len(h.ring))
	}
	workers := 0
	for _, r := range h.ring {
		workers += len(r.Workers)
	}
	if limit := 100*(workersKept+1) + len(h.ring); workers > limit {
		t.Errorf("%d workers are remembered, more than %d", workers, limit)
	}
	if age := at.Sub(h.at(0).At); age != Kept {
		t.Errorf("the oldest reading is %v old, want %v", age, Kept)
	}
}

// TestReadTakesWhatPrometheusIsTold registers metrics as the server does.
func TestReadTakesWhatPrometheusIsTold(t *testing.T) {
	r := prometheus.NewRegistry()
	count := func(name string, labels prometheus.Labels, v float64) {
		c := prometheus.NewCounter(prometheus.CounterOpts{Name: name, ConstLabels: labels})
		r.MustRegister(c)
		c.Add(v)
	}
	gauge := func(name string, labels prometheus.Labels, v float64) {
		g := prometheus.NewGauge(prometheus.GaugeOpts{Name: name, ConstLabels: labels})
		r.MustRegister(g)
		g.Set(v)
	}
	for outcome, n := range map[string]float64{OK: 7, Failed: 1, TurnedAway: 2, Limited: 3, Refused: 4, Cancelled: 5,
		"unheard": 99} {
		count("parley_outcomes_total", prometheus.Labels{"outcome": outcome}, n)
	}
	count("parley_shed_total", prometheus.Labels{"reason": "late", "tier": "pro"}, 2)
	gauge("parley_queue_waiting", prometheus.Labels{"model": "m", "tier": "enterprise"}, 6)
	gauge("parley_queue_estimated_wait_seconds", prometheus.Labels{"model": "m"}, 1.5)
	gauge("parley_breaker_state", prometheus.Labels{"model": "m", "kind": "worker"}, 2)
	gauge("parley_engine_kv_usage", prometheus.Labels{"model_name": "m"}, 0.4)
	gauge("parley_engine_running", prometheus.Labels{"model_name": "m"}, 3)
	h := prometheus.NewHistogram(prometheus.HistogramOpts{Name: "parley_ttft_seconds", Buckets: []float64{1, 2}})
	r.MustRegister(h)
	h.Observe(0.5)
	h.Observe(5)
	gathered, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := Read(gathered, time.Unix(9, 0))
	if got.OKTotal != 7 || got.FailedTotal != 1 || got.TurnedAwayTotal != 2 || got.LimitedTotal != 3 ||
		got.RefusedTotal != 4 || got.CancelledTotal != 5 {
		t.Errorf("outcomes %+v", got)
	}
	if got.ShedTotal[parley.Pro] != 2 || len(got.Queues) != 1 || got.Queues[0].Waiting[parley.Enterprise] != 6 ||
		got.Queues[0].WaitSeconds != 1.5 || got.Queues[0].WorkerBreaker != "open" {
		t.Errorf("shed %v, queues %+v", got.ShedTotal, got.Queues)
	}
	if len(got.Workers) != 1 || got.Workers[0].KV != 0.4 || got.Workers[0].Running != 3 || got.Workers[0].State != Up {
		t.Errorf("workers %+v", got.Workers)
	}
	if got.TTFT.Count != 2 || got.TTFT.Over(1) != 1 || got.TTFT.Quantile(0.5) != 1 {
		t.Errorf("TTFT %+v: %v over a second, median %v", got.TTFT, got.TTFT.Over(1), got.TTFT.Quantile(0.5))
	}
}

func TestEveryCodeHasAnOutcome(t *testing.T) {
	var r Reading
	for _, code := range []parley.Code{"", parley.InvalidRequest, parley.ContextTooLong, parley.TooLarge,
		parley.Unauthenticated, parley.Forbidden, parley.NotFound, parley.Conflict,
		parley.MethodNotAllowed, parley.RateLimited, parley.QuotaExceeded, parley.Overloaded, parley.Unavailable,
		parley.Cancelled, parley.DeadlineExceeded, parley.Internal} {
		if r.outcome(OutcomeOf(code)) == nil {
			t.Errorf("code %q counts as %q, which nobody reads", code, OutcomeOf(code))
		}
	}
}

func TestRecentForgetsTheOldest(t *testing.T) {
	r := NewRecent()
	for i := range RecentMax + 10 {
		r.Add(&RequestRecord{ID: fmt.Sprint("req_", i), ClientID: fmt.Sprint("mine-", i), Model: fmt.Sprint("m", i%2)})
	}
	if r.Find("req_9") != nil || r.Find("mine-9") != nil || len(r.byID) != 2*RecentMax {
		t.Errorf("the oldest are still there: %d names", len(r.byID))
	}
	if l := r.Find("mine-10"); l == nil || l.ID != "req_10" {
		t.Errorf("found %+v", l)
	}
}

// TestPagesAreStable pages through requests that end in another order than they started,
// while more end: each is shown once, in the order of their starts.
func TestPagesAreStable(t *testing.T) {
	r, start := NewRecent(), time.Unix(1_000_000, 0)
	add := func(i int) {
		r.Add(&RequestRecord{
			ID:      fmt.Sprintf("req_%03d", i),
			Started: start.Add(time.Duration(i/2) * time.Second),
			Model:   fmt.Sprint("m", i%2),
			Tenant:  "acme",
			Key:     fmt.Sprint("key_", i%3),
			Outcome: OK,
			Status:  200,
			TotalMs: float64(i),
		})
	}
	for i := range 100 {
		add(i * 37 % 100)
	}
	var shown []string
	f, after := &Filter{Model: "m1", Key: "key_0"}, ""
	for page := 0; ; page++ {
		add(200 + page) // newer than all, so on no later page
		p := r.Page(f, after, 4)
		if len(p.Requests) == 0 {
			break
		}
		for _, l := range p.Requests {
			shown = append(shown, l.ID)
		}
		after = shown[len(shown)-1]
		if want := []string{"m0", "m1"}; !slices.Equal(p.Values.Models, want) || !p.Oldest.Equal(start) {
			t.Errorf("models %v, oldest %v", p.Values.Models, p.Oldest)
		}
	}
	var want []string
	for i := 99; i >= 0; i-- {
		if i%2 == 1 && i%3 == 0 {
			want = append(want, fmt.Sprintf("req_%03d", i))
		}
	}
	if !slices.Equal(shown, want) {
		t.Errorf("shown %v, want %v", shown, want)
	}
	for name, f := range map[string]*Filter{
		"slow": {SlowerThan: 97 * time.Millisecond, Until: start.Add(time.Minute)},
		"time": {From: start.Add(49 * time.Second), Until: start.Add(50 * time.Second)},
	} {
		p := r.Page(f, "", 10)
		if len(p.Requests) != 2 || p.Requests[0].ID != "req_099" || p.Requests[1].ID != "req_098" {
			t.Errorf("%s: %d of %d", name, len(p.Requests), p.Total)
		}
	}
	if p := r.Page(&Filter{Status: 404}, "", 10); p.Total != 0 {
		t.Errorf("%d with status 404", p.Total)
	}
	if p := r.Page(&Filter{}, "req_gone", 10); len(p.Requests) != 0 || p.Before != p.Total {
		t.Errorf("after a request that was evicted: %+v", p)
	}
}
