package load

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"parley"
)

func TestPercentilesAreExact(t *testing.T) {
	var values []Millis
	for i := range 1000 {
		values = append(values, Millis(i+1)*ms)
	}
	got := percentilesOf(values)
	want := Percentiles{1000, 500*ms + ms/2, 500 * ms, 900 * ms, 950 * ms, 990 * ms, 999 * ms, 1000 * ms}
	if got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if one := percentilesOf([]Millis{7 * ms}); one != (Percentiles{1, 7 * ms, 7 * ms, 7 * ms, 7 * ms, 7 * ms, 7 * ms,
		7 * ms}) {
		t.Errorf("%+v", one)
	}
	if ten := percentilesOf(values[:10]); ten.P90 != 9*ms || ten.P95 != 10*ms {
		t.Errorf("%+v", ten)
	}
}

// steady returns a run of n requests, one a second, each with the latencies
// that of gives it.
func steady(n int, of func(i int) Record) *Result {
	r := &Result{Started: time.Unix(1, 0).UTC(), Elapsed: time.Duration(n) * time.Second}
	for i := range n {
		record := of(i)
		record.Intended = Millis(i) * 1000 * ms
		r.Records = append(r.Records, record)
	}
	return r
}

func mixed(i int) Record {
	r := Record{Timing: Timing{TTFT: 100 * ms, TPOT: 10 * ms, Gap: 30 * ms, Total: 190 * ms}, PromptTokens: 50,
		CachedTokens: 20, OutputTokens: 10, WantedTokens: 12, Pieces: 10, Outcome: Completed}
	switch i % 10 {
	case 0:
		r.TTFT = 2000 * ms
	case 1:
		r.TPOT = 60 * ms
	case 2:
		r = Record{WantedTokens: 12, Outcome: Rejected, Kind: "http 503"}
	case 3:
		r.OutputTokens, r.TPOT, r.Pieces, r.Gap = 1, 0, 1, 0
	}
	return r
}

func TestGoodputCountsRejections(t *testing.T) {
	report := Summarize(steady(20, mixed), parley.SLO{TTFT: time.Second, TPOT: 50 * time.Millisecond})
	if want := (Goodput{1000 * ms, 0, 50 * ms, 14, 0.7, 0.7}); report.SLO != want {
		t.Errorf("%+v, want %+v", report.SLO, want)
	}
	if want := (Throughput{0.9, 8.1, 53.1}); report.Throughput != want {
		t.Errorf("%+v, want %+v", report.Throughput, want)
	}
	if want := (Tokens{18 * 50, 18 * 20, 162, 18 * 12, 0}); report.Tokens != want {
		t.Errorf("%+v, want %+v", report.Tokens, want)
	}
	if report.Latency.TPOT.N != 16 || report.Latency.Gap.N != 16 || report.Latency.TTFT.N != 18 {
		t.Errorf("%+v", report.Latency)
	}
}

func TestReportsSurviveJSON(t *testing.T) {
	report := Summarize(steady(20, mixed), parley.SLO{TTFT: time.Second, TPOT: 50 * time.Millisecond})
	report.Target, report.Load = ReportTarget{"http://127.0.0.1/v1", "polly", Chat}, Description{Loop: "open",
		RatePerSecond: 5, Seed: 1}
	text, err := json.Marshal(report)
	if err != nil {
		t.Fatal(err)
	}
	again, err := ReadReport(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	if twice, err := json.Marshal(again); err != nil || !bytes.Equal(text, twice) {
		t.Errorf("%v\n%s\n%s", err, text, twice)
	}
	for _, bad := range []string{"", "{}", `{"schema":"parley-bench/2"}`,
		`{"schema":"parley-bench/1","elapsed_ms":1e99}`, `{"schema":"parley-bench/1","elapsed_ms":5,"samples":[]}`} {
		if _, err := ReadReport(strings.NewReader(bad)); err == nil {
			t.Errorf("%s was taken", bad)
		}
	}
}

func FuzzReadReport(f *testing.F) {
	text, _ := json.Marshal(Summarize(steady(3, mixed), parley.SLO{}))
	f.Add(text)
	f.Add(
		[]byte(
			`{"schema":"parley-bench/1","elapsed_ms":5,"samples":[{"intended_ms":-5e12,"total_ms":-1,"outcome":"completed","output_tokens":-7}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		r, err := ReadReport(bytes.NewReader(text))
		if err != nil || len(r.Samples) > 50 {
			return
		}
		for _, c := range Compare(r, r, 1) {
			if _, err := json.Marshal(c); err != nil {
				t.Errorf("%+v: %v", c, err)
			}
		}
	})
}

// noisy returns latencies around a level, the same for the same seed.
func noisy(level Millis, seed int) func(int) Record {
	return func(i int) Record {
		wobble := Millis((i*7919+seed*104729)%41-20) * ms
		first := level + wobble
		return Record{Timing: Timing{TTFT: first, TPOT: first / 10, Gap: first / 5, Total: 2 * first},
			OutputTokens: 11, Pieces: 11, Outcome: Completed}
	}
}

func TestCompareTellsChangeFromNoise(t *testing.T) {
	slo := parley.SLO{TTFT: 200 * time.Millisecond}
	a := Summarize(steady(600, noisy(100*ms, 1)), slo)
	same := Summarize(steady(600, noisy(100*ms, 2)), slo)
	slow := Summarize(steady(600, noisy(150*ms, 3)), slo)
	find := func(changes []Change, metric string) Change {
		t.Helper()
		i := slices.IndexFunc(changes, func(c Change) bool { return c.Metric == metric })
		if i < 0 {
			t.Fatalf("no %s in %+v", metric, changes)
		}
		return changes[i]
	}
	noise, slower, faster := Compare(a, same, 1), Compare(a, slow, 1), Compare(slow, a, 1)
	for _, metric := range []string{"TTFT p50", "TTFT p99", "TPOT p90", "longest gap p99", "total p50"} {
		if c := find(noise, metric); c.Verdict() != Unclear {
			t.Errorf("noise: %+v is %s", c, c.Verdict())
		}
		c := find(slower, metric)
		if c.Verdict() != Worse || !(c.Low < c.Ratio+1e-9 && c.Ratio < c.High+1e-9) || c.Ratio < 1.3 || c.Ratio > 1.7 {
			t.Errorf("half again as slow: %+v is %s", c, c.Verdict())
		}
		if c := find(faster, metric); c.Verdict() != Better {
			t.Errorf("faster: %+v is %s", c, c.Verdict())
		}
	}
	if c := find(slower, "requests"); c.Verdict() != Unclear || c.A < 0.99 || c.A > 1.01 {
		t.Errorf("the same rate: %+v", c)
	}
	few := Summarize(steady(60, noisy(100*ms, 1)), slo)
	if i := slices.IndexFunc(Compare(few, a, 1), func(c Change) bool { return c.Metric == "TTFT p99" }); i >= 0 {
		t.Error("the p99 of 60 requests was compared")
	}
	if !reflect.DeepEqual(Compare(a, slow, 1), slower) {
		t.Error("the same seed gave different intervals")
	}
}

// The interval must cover the truth about as often as it says. The median of
// these samples has a known true ratio of 1.
func TestIntervalsCoverTheTruth(t *testing.T) {
	covered := 0
	const runs = 100
	for seed := range runs {
		draw := func(run int) *Report {
			next := lcg(uint64(2*seed + run + 1))
			return Summarize(steady(60, func(int) Record {
				return Record{Timing: Timing{TTFT: Millis(next())}, Outcome: Completed, Pieces: 1, OutputTokens: 1}
			}), parley.SLO{})
		}
		median := timeMetric{"TTFT", ttftOf, []float64{0.5}}
		changes := median.compare(draw(0), draw(1), rand.New(rand.NewPCG(uint64(seed), 1)))
		if changes[0].Verdict() == Unclear {
			covered++
		}
	}
	if covered < runs*90/100 || covered == runs {
		t.Errorf("%d of %d intervals cover the truth, expected about 95%%", covered, runs)
	}
}

func lcg(x uint64) func() uint64 {
	x *= 0x9e3779b97f4a7c15
	return func() uint64 {
		x = x*6364136223846793005 + 1442695040888963407
		return 1e6 + (x>>33)%1e9
	}
}

func TestRatesAreSpreadOverTime(t *testing.T) {
	out := make([]float64, 4)
	spread(out, 0.5, 2.5, 8)
	spread(out, 3, 3, 1)
	spread(out, 9, 12, 1)
	if want := []float64{2, 4, 2, 2}; !slices.Equal(out, want) {
		t.Errorf("%v, want %v", out, want)
	}
}
