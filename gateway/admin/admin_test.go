package admin

import (
	"fmt"
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
	points := h.Points(Step)
	if last := points[len(points)-1]; len(points) != int(Kept/Step) || last.Requests != 0.2 || last.Preemptions != 20 {
		t.Errorf("%d points, the last %+v", len(points), last)
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
	list := r.List(Filter{Model: "m1"}, 2)
	if len(list) != 2 || list[0].ID != fmt.Sprint("req_", RecentMax+9) ||
		list[1].ID != fmt.Sprint("req_", RecentMax+7) {
		t.Errorf("listed %+v", list)
	}
}
