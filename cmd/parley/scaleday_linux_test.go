package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"parley/cli/remote"
	"parley/fleet"
	"parley/gateway/admin"
	"parley/internal/load"
)

var scaleDay = flag.Duration("day", 0, "how long the compressed day is under which a fleet scales for real")

// daySwing is how many times the rate of the trough that of the peak is. The day has its trough at its begin
// and end, and its peak in the middle.
const daySwing = 6

// dayPeak returns the rate of requests at the peak, from what fleets of three and of six workers are measured to
// serve here: three must not be enough for it, and six must be with something to spare.
func dayPeak(t *testing.T, measured time.Duration) float64 {
	t.Helper()
	const spare, enough = 0.8, 1.15
	three, six := dayCapacity(t, 3, measured), dayCapacity(t, 6, measured)
	peak := spare * six
	t.Logf("three workers serve %.2f requests/s and six %.2f: the peak is %.2f", three, six, peak)
	if peak < enough*three {
		t.Fatalf("three workers serve %.2f requests/s here and six %.2f: a peak of %.2f needs no more than three. "+
			"A worker takes a processor, and this machine has %d: use one with at least 7 that does nothing else",
			three, six, peak, runtime.NumCPU())
	}
	return peak
}

// dayCapacity returns how many requests like those of the day a number of workers complete in a second when
// there are always enough of them.
func dayCapacity(t *testing.T, workers int, measured time.Duration) float64 {
	t.Helper()
	dir := t.TempDir()
	client, end := dayFleet(t, dir, workers, "--workers", strconv.Itoa(workers))
	defer end()
	report := dayBench(t, client.Root, filepath.Join(dir, "report.json"), "--users", strconv.Itoa(4*workers),
		"--prompt-tokens", "32-48", "--output-tokens", "16-64", "--duration", measured.String())
	if r := report.Requests; r.Completed == 0 || r.Failed > 0 {
		t.Fatalf("%d requests were completed by %d workers, %d failed: %v", r.Completed, workers, r.Failed, r.Kinds)
	}
	return float64(report.Requests.Completed) / time.Duration(report.Elapsed).Seconds()
}

// dayTrace writes the arrivals of a day in Mooncake's format: a random process whose rate is
// a cosine, answers of 16 to 64 tokens, and prompts of which some share a prefix.
func dayTrace(t *testing.T, file string, peak float64, day time.Duration) (requests int) {
	t.Helper()
	random := rand.New(rand.NewPCG(23, 1))
	var out strings.Builder
	for at := 0.0; ; { // by thinning a process of the peak's rate
		at += random.ExpFloat64() / peak
		if at >= day.Seconds() {
			break
		}
		const trough = 1.0 / daySwing
		rate := trough + (1-trough)*(1-math.Cos(2*math.Pi*at/day.Seconds()))/2 // of the peak's
		if random.Float64() > rate {
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
	dir := t.TempDir()
	trace := filepath.Join(dir, "day.jsonl")
	requests := dayTrace(t, trace, dayPeak(t, min(max(day/20, 10*time.Second), time.Minute)), day)
	client, end := dayFleet(t, dir, 3, "--min", "3", "--max", "6", "--price", "2.5", "--steady", (day / 40).String(),
		"--day", day.String())
	defer end()
	watch := &dayWatch{client: client, begun: time.Now()}
	ctx, stop := context.WithCancel(t.Context())
	watched := make(chan struct{})
	go func() { defer close(watched); watch.run(ctx, t, day) }()
	report := dayBench(t, client.Root, filepath.Join(dir, "report.json"), "--trace", trace, "--scale", "0.0625",
		"--duration", (2 * day).String())
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

// dayFleet starts a fleet, waits until a number of workers is up, and returns a client of it and what ends it. Each
// worker has one thread, because there may be more workers than processors, and two seats.
func dayFleet(t *testing.T, dir string, workers int, args ...string) (*remote.Client, func()) {
	t.Helper()
	address := unused(t)
	up := fleetUp(t, address, append(args, "--dir", filepath.Join(dir, "fleet"))...)
	log, err := os.Create(filepath.Join(dir, "fleet.log"))
	if err != nil {
		t.Fatal(err)
	}
	up.Stdout, up.Stderr = log, log
	up.Env = append(os.Environ(), "PARLEY_THREADS=1", "PARLEY_SEQS=2")
	if err := up.Start(); err != nil {
		t.Fatal(err)
	}
	end := func() {
		_ = up.Process.Signal(os.Interrupt)
		if err := errors.Join(up.Wait(), log.Close()); err != nil {
			t.Errorf("the fleet ended with %v", err)
		}
	}
	client, err := remote.New("http://" + address)
	if err != nil {
		t.Fatal(err)
	}
	for late := time.Now().Add(5 * time.Minute); ; time.Sleep(200 * time.Millisecond) {
		var list struct{ Data []fleet.Standing }
		ctx, cancel := context.WithTimeout(t.Context(), remote.AskWait)
		err := client.Call(ctx, "GET", "/fleet/workers", nil, &list)
		cancel()
		ready := 0
		for i := range list.Data {
			if list.Data[i].State == fleet.Up {
				ready++
			}
		}
		if err == nil && ready >= workers {
			return client, end
		}
		if time.Now().After(late) {
			text, _ := os.ReadFile(log.Name())
			t.Fatalf("%d of %d workers are up: %v: %s", ready, workers, err, text)
		}
	}
}

// dayBench sends requests and returns the report.
func dayBench(t *testing.T, url, out string, requests ...string) *load.Report {
	t.Helper()
	bench := exec.Command("parley", append([]string{"bench", "--url", url + "/v1", "--warmup", "0", "--out", out},
		requests...)...)
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
	if most <= 3 || after >= most {
		t.Errorf("%d workers were ready at most, and %d after that: want more than 3 for the peak, and fewer then",
			most, after)
	}
}
