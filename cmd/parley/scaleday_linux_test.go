package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"parley/cli/remote"
	"parley/gateway/admin"
	"parley/internal/load"
)

var scaleDay = flag.Duration("day", 0, "how long the compressed day is under which a fleet scales for real")

// The day has its trough at its begin and end, and its peak in the middle. Requests per second.
const dayTrough, dayPeak = 1.0, 6.0

// dayTrace writes the arrivals of a day in Mooncake's format: a random process whose rate is
// a cosine, answers of 16 to 64 tokens, and prompts of which some share a prefix.
func dayTrace(t *testing.T, file string, day time.Duration) (requests int) {
	t.Helper()
	random := rand.New(rand.NewPCG(23, 1))
	var out strings.Builder
	for at := 0.0; ; { // by thinning a process of the peak's rate
		at += random.ExpFloat64() / dayPeak
		if at >= day.Seconds() {
			break
		}
		rate := dayTrough + (dayPeak-dayTrough)*(1-math.Cos(2*math.Pi*at/day.Seconds()))/2
		if random.Float64()*dayPeak > rate {
			continue
		}
		requests++
		fmt.Fprintf(&out, `{"timestamp":%d,"input_length":%d,"output_length":%d,"hash_ids":[%d,%d]}`+"\n", int(1000*at),
			513+random.IntN(256), 256+random.IntN(768), random.IntN(8), 1000+requests)
	}
	if err := os.WriteFile(file, []byte(out.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return requests
}

// TestScaleDay lets three to six workers follow the load of a compressed day: no request
// fails, the objectives hold, and there are more workers at the peak than at the trough.
func TestScaleDay(t *testing.T) {
	day := *scaleDay
	if day == 0 {
		t.Skip("NOT RUN: a fleet that scales for real: make scale-day")
	}
	dir, address := t.TempDir(), unused(t)
	trace := filepath.Join(dir, "day.jsonl")
	requests := dayTrace(t, trace, day)
	up := fleetUp(t, address, "--min", "3", "--max", "6", "--price", "2.5", "--steady", (day / 40).String(),
		"--day", day.String(), "--dir", filepath.Join(dir, "fleet"))
	log, err := os.Create(filepath.Join(dir, "fleet.log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	up.Stdout, up.Stderr = log, log
	// Each worker has one thread, because there may be more workers than processors, and two seats: the trough needs
	// three workers, the peak more.
	up.Env = append(os.Environ(), "PARLEY_THREADS=1", "PARLEY_SEQS=2")
	if err := up.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- up.Wait() }()
	defer func() {
		_ = up.Process.Signal(os.Interrupt)
		if err := <-ended; err != nil {
			t.Errorf("the fleet ended with %v", err)
		}
	}()
	client, err := remote.New("http://" + address)
	if err != nil {
		t.Fatal(err)
	}
	watch := &dayWatch{client: client, begun: time.Now()}
	for late := time.Now().Add(5 * time.Minute); watch.look(t.Context()).Ready < 3; time.Sleep(200 * time.Millisecond) {
		if time.Now().After(late) {
			text, _ := os.ReadFile(log.Name())
			t.Fatalf("the fleet did not start: %s", text)
		}
	}
	ctx, stop := context.WithCancel(t.Context())
	watched := make(chan struct{})
	go func() { defer close(watched); watch.run(ctx, t, day) }()
	report := dayBench(t, client.Root, trace, filepath.Join(dir, "report.json"), day)
	stop()
	<-watched
	watch.judge(t)
	r, ttft, tpot := report.Requests, report.Latency.TTFT, report.Latency.TPOT
	t.Logf("%d requests: %d completed, %d rejected, %d failed, %d dropped", r.Sent, r.Completed, r.Rejected, r.Failed,
		r.Dropped)
	t.Logf("TTFT p50 %v, p95 %v; TPOT p50 %v, p95 %v; %.1f %% within the objectives", time.Duration(ttft.P50),
		time.Duration(ttft.P95), time.Duration(tpot.P50), time.Duration(tpot.P95), 100*report.SLO.Share)
	if r.Completed != requests {
		t.Errorf("%d of %d requests were completed: %v", r.Completed, requests, r.Kinds)
	}
	if report.SLO.Share < 0.95 {
		t.Errorf("%.1f %% of requests were within the objectives, want 95", 100*report.SLO.Share)
	}
}

// dayBench sends the requests of the trace and returns the report.
func dayBench(t *testing.T, url, trace, out string, day time.Duration) *load.Report {
	t.Helper()
	bench := exec.Command("parley", "bench", "--url", url+"/v1", "--trace", trace, "--scale", "0.0625", "--warmup", "0",
		"--duration", (2 * day).String(), "--out", out)
	if text, err := bench.CombinedOutput(); err != nil {
		t.Fatalf("bench: %v: %s", err, text)
	}
	text, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	var report load.Report
	if err := json.Unmarshal(text, &report); err != nil {
		t.Fatal(err)
	}
	return &report
}

// A dayWatch sees how many workers there are.
type dayWatch struct {
	client *remote.Client
	begun  time.Time
	seen   []admin.ScaleView
}

// look asks what the autoscaler reports; nothing if it has not yet.
func (w *dayWatch) look(ctx context.Context) (view admin.ScaleView) {
	var list struct{ Data []admin.ScaleView }
	ctx, cancel := context.WithTimeout(ctx, remote.AskWait)
	defer cancel()
	if err := w.client.Call(ctx, "GET", "/fleet/scale?range=15m", nil, &list); err == nil && len(list.Data) > 0 {
		return list.Data[0]
	}
	return view
}

// run looks all the time, and logs twenty times a day.
func (w *dayWatch) run(ctx context.Context, t *testing.T, day time.Duration) {
	w.begun = time.Now()
	for logged := 0; ctx.Err() == nil; {
		if v := w.look(ctx); v.Target != "" {
			w.seen = append(w.seen, v)
			if since := time.Since(w.begun); since >= day*time.Duration(logged)/20 {
				logged++
				t.Logf("%8s  %d wanted, %d ready, %.2f requests/s, %.2f expected, %.2f an hour: %s",
					since.Round(time.Second), v.Desired, v.Ready, v.Rate, v.Expected, v.Cost, v.Why)
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
	}
}

// judge wants more workers at the peak than at the begin, and fewer again later.
func (w *dayWatch) judge(t *testing.T) {
	t.Helper()
	most, least, after := 0, math.MaxInt, math.MaxInt
	workers := 0
	for _, v := range w.seen {
		workers += v.Ready
		least = min(least, v.Ready)
		if v.Ready > most {
			most, after = v.Ready, v.Ready
		}
		after = min(after, v.Ready)
	}
	t.Logf("from %d to %d workers, %.2f on average, %d after the peak", least, most,
		float64(workers)/float64(max(1, len(w.seen))), after)
	if most <= least || after >= most {
		t.Errorf("from %d to %d workers were ready, and %d after that: want more for the peak, and fewer then",
			least, most, after)
	}
}
