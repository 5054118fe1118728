package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"parley/cli/remote"
	"parley/fleet"
	"parley/gateway/admin"
	"parley/internal/load"
	"parley/internal/supervise"
)

// A scaleDay is a fleet that follows the load of a compressed day.
type scaleDay struct {
	parley       string
	model        string
	day, measure time.Duration
	peak         float64
	dir          string
	out          io.Writer
	begun        time.Time
}

// The day: daySwing is how many times the rate of the trough that of the peak is; the trough is at the beginning and
// the end, and the peak in the middle. dayWithin is the least share of requests within the objectives.
const (
	daySwing  = 6
	dayWithin = 0.95
	dayLeast  = 3
	dayMost   = 6
)

func newScaleDay() *cobra.Command {
	d := &scaleDay{}
	cmd := &cobra.Command{
		Use:   "scale-day",
		Short: "Let three to six workers here follow the load of a compressed day",
		Long: `Let three to six workers on this machine follow the load of a compressed day, as
` + "`parley fleet up --min 3 --max 6`" + ` starts them. The rate of requests follows a cosine whose peak is 6 times its
trough. The peak is 0.9 of what six workers are measured to serve here, and must be too much for three.

It fails if a request fails, if fewer than 95 % of them are within the objectives, or if there are not
more workers at the peak than at the beginning and fewer again after it. Each worker takes a processor: use a machine
with at least 7 that does nothing else.`,
		Example: "  parley-bench scale-day\n  parley-bench scale-day --day 5m",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if d.parley, err = findParley(d.parley); err != nil {
				return err
			}
			if d.dir, err = os.MkdirTemp("", "parley-scale-day"); err != nil {
				return err
			}
			defer os.RemoveAll(d.dir)
			d.out, d.begun = cmd.OutOrStdout(), time.Now()
			return d.run(cmd.Context())
		},
	}
	addParley(cmd.Flags(), &d.parley)
	cmd.Flags().StringVar(&d.model, "model", "polly", "serve this `MODEL`, as parley serve takes it")
	cmd.Flags().DurationVar(&d.day, "day", 20*time.Minute, "compress the day to `DURATION`")
	cmd.Flags().DurationVar(&d.measure, "measure", 12*time.Second, "measure for `DURATION` what three and six workers serve")
	cmd.Flags().Float64Var(&d.peak, "peak", 0, "send `RATE` requests per second at the peak, and measure no capacity")
	return cmd
}

// logf prints a line with the time since the beginning.
func (d *scaleDay) logf(format string, values ...any) {
	fmt.Fprintf(d.out, "%6.0f s  %s\n", time.Since(d.begun).Seconds(), fmt.Sprintf(format, values...))
}

func (d *scaleDay) run(ctx context.Context) error {
	d.logf("%s; %s; a day of %v", program(), machineText(), d.day)
	if d.peak == 0 {
		if err := d.findPeak(ctx); err != nil {
			return err
		}
	}
	trace := filepath.Join(d.dir, "day.jsonl")
	requests, err := d.writeTrace(trace)
	if err != nil {
		return err
	}
	watch := &dayWatch{}
	var report *load.Report
	err = d.withFleet(ctx, dayLeast, []string{"--min", strconv.Itoa(dayLeast), "--max", strconv.Itoa(dayMost),
		"--price", "2.5", "--steady", (d.day / 40).String(), "--day", d.day.String()},
		func(client *remote.Client) (err error) {
			watch.client = client
			watching, stop := context.WithCancel(ctx)
			watched := make(chan struct{})
			go func() { defer close(watched); watch.run(watching, d) }()
			report, err = d.bench(ctx, client.Root, "--trace", trace, "--scale", "0.0625",
				"--duration", (2 * d.day).String())
			stop()
			<-watched
			return err
		})
	if err != nil {
		return err
	}
	r, ttft, tpot := report.Requests, report.Latency.TTFT, report.Latency.TPOT
	d.logf("%d requests: %d completed, %d rejected, %d failed, %d dropped", requests, r.Completed, r.Rejected, r.Failed,
		r.Dropped)
	d.logf("TTFT p50 %v, p95 %v; TPOT p50 %v, p95 %v; %.1f %% within the objectives", time.Duration(ttft.P50),
		time.Duration(ttft.P95), time.Duration(tpot.P50), time.Duration(tpot.P95), 100*report.SLO.Share)
	err = watch.judge(d)
	if r.Completed != requests {
		err = errors.Join(err, fmt.Errorf("%d of %d requests were completed: %v", r.Completed, requests, r.Kinds))
	}
	if report.SLO.Share < dayWithin {
		err = errors.Join(err, fmt.Errorf("%.1f %% of requests were within the objectives, want %.0f",
			100*report.SLO.Share, 100*dayWithin))
	}
	return err
}

// findPeak sets the rate of requests at the peak from what fleets of three and of six workers are measured to
// serve here: three must not be enough for it, and six must be with something to spare.
func (d *scaleDay) findPeak(ctx context.Context) error {
	const spare, enough = 0.9, 1.15
	three, err := d.capacity(ctx, dayLeast)
	if err != nil {
		return err
	}
	six, err := d.capacity(ctx, dayMost)
	if err != nil {
		return err
	}
	d.peak = spare * six
	d.logf("three workers serve %.2f requests/s and six %.2f: the peak is %.2f", three, six, d.peak)
	if d.peak < enough*three {
		return fmt.Errorf("three workers serve %.2f requests/s here and six %.2f: a peak of %.2f needs no more than "+
			"three. A worker takes a processor, and this machine has %d: use one with at least 7 that does nothing else",
			three, six, d.peak, runtime.NumCPU())
	}
	return nil
}

// capacity returns how many requests like those of the day a number of workers complete in a second when there are
// always enough of them.
func (d *scaleDay) capacity(ctx context.Context, workers int) (rate float64, err error) {
	err = d.withFleet(ctx, workers, []string{"--workers", strconv.Itoa(workers)}, func(client *remote.Client) error {
		report, err := d.bench(ctx, client.Root, "--users", strconv.Itoa(4*workers), "--prompt-tokens", "160-192",
			"--output-tokens", "16-64", "--duration", d.measure.String())
		if err != nil {
			return err
		}
		r := report.Requests
		if r.Completed == 0 || r.Failed > 0 {
			return fmt.Errorf("%d requests were completed by %d workers, %d failed: %v", r.Completed, workers, r.Failed,
				r.Kinds)
		}
		rate = float64(r.Completed) / time.Duration(report.Elapsed).Seconds()
		return nil
	})
	return rate, err
}

// writeTrace writes the arrivals of the day in Mooncake's format: a random process whose rate is a cosine, answers of
// 16 to 64 tokens, and prompts of 160 to 192 of which some share the first 32: most of the work is that of workers, not
// of the gateway and the client, which have one processor.
func (d *scaleDay) writeTrace(file string) (requests int, err error) {
	random := rand.New(rand.NewPCG(23, 1))
	var out strings.Builder
	for at := 0.0; ; { // by thinning a process of the peak's rate
		at += random.ExpFloat64() / d.peak
		if at >= d.day.Seconds() {
			break
		}
		const trough = 1.0 / daySwing
		rate := trough + (1-trough)*(1-math.Cos(2*math.Pi*at/d.day.Seconds()))/2 // of the peak's
		if random.Float64() > rate {
			continue
		}
		requests++
		fresh := 1000 + 5*requests
		fmt.Fprintf(&out, `{"timestamp":%d,"input_length":%d,"output_length":%d,"hash_ids":[%d,%d,%d,%d,%d,%d]}`+"\n",
			int(1000*at), 2561+random.IntN(512), 256+random.IntN(768), random.IntN(8), fresh, fresh+1, fresh+2, fresh+3,
			fresh+4)
	}
	return requests, os.WriteFile(file, []byte(out.String()), 0o600)
}

// withFleet starts a fleet, waits until a number of workers is up, uses it, and ends it. Each worker has one thread,
// because there may be more workers than processors, and two sequences at a time.
func (d *scaleDay) withFleet(ctx context.Context, workers int, args []string, use func(*remote.Client) error) error {
	address, err := supervise.FreeAddress()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp(d.dir, "fleet-")
	if err != nil {
		return err
	}
	log, err := os.Create(filepath.Join(dir, "fleet.log"))
	if err != nil {
		return err
	}
	up := exec.CommandContext(ctx, d.parley, append([]string{"fleet", "up", "--addr", address, "--dir",
		filepath.Join(dir, "data"), "--model", d.model}, args...)...)
	up.Cancel = func() error { return up.Process.Signal(os.Interrupt) }
	up.WaitDelay = time.Minute
	up.Stdout, up.Stderr = log, log
	up.Env = append(os.Environ(), "PARLEY_THREADS=1", "PARLEY_SEQS=2")
	if err := up.Start(); err != nil {
		return errors.Join(err, log.Close())
	}
	client, err := remote.New("http://" + address)
	if err == nil {
		err = awaitWorkers(ctx, client, workers)
	}
	if err == nil {
		err = use(client)
	}
	_ = up.Process.Signal(os.Interrupt)
	if ended := errors.Join(up.Wait(), log.Close()); ended != nil {
		err = errors.Join(err, fmt.Errorf("the fleet ended: %w", ended))
	}
	if err != nil {
		text, _ := os.ReadFile(log.Name())
		return fmt.Errorf("%w; the log of the fleet ends with:\n%s", err, text[max(0, len(text)-4096):])
	}
	return nil
}

// awaitWorkers waits until a number of workers is up.
func awaitWorkers(ctx context.Context, client *remote.Client, workers int) error {
	for late := time.Now().Add(5 * time.Minute); ; {
		var list struct{ Data []fleet.Standing }
		asking, cancel := context.WithTimeout(ctx, remote.AskWait)
		err := client.Call(asking, "GET", "/fleet/workers", nil, &list)
		cancel()
		ready := 0
		for i := range list.Data {
			if list.Data[i].State == fleet.Up {
				ready++
			}
		}
		if err == nil && ready >= workers {
			return nil
		}
		if time.Now().After(late) {
			return errors.Join(err, fmt.Errorf("%d of %d workers are up after five minutes", ready, workers))
		}
		select {
		case <-ctx.Done():
			return errors.Join(err, errInterrupted)
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// bench sends requests and returns the report.
func (d *scaleDay) bench(ctx context.Context, url string, requests ...string) (*load.Report, error) {
	file := filepath.Join(d.dir, "report.json")
	bench := exec.CommandContext(ctx, d.parley, append([]string{"bench", "--url", url + "/v1", "--warmup", "0",
		"--out", file}, requests...)...)
	said, err := bench.CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("parley bench: %w: %s", err, said)
	}
	for line := range strings.Lines(string(said)) {
		if strings.Contains(line, ", such as: ") { // what was answered to requests that were not completed
			d.logf("%s", strings.TrimSpace(line))
		}
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	report := &load.Report{}
	return report, json.Unmarshal(text, report)
}

// A dayWatch sees how many workers there are.
type dayWatch struct {
	client *remote.Client
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

// run looks each second, and logs forty times a day.
func (w *dayWatch) run(ctx context.Context, d *scaleDay) {
	begun := time.Now()
	for logged := 0; ctx.Err() == nil; {
		if v := w.look(ctx); v.Target != "" {
			w.seen = append(w.seen, v)
			if time.Since(begun) >= d.day*time.Duration(logged)/40 {
				logged++
				d.logf("%d wanted, %d ready, %.2f requests/s, %.2f expected, %.2f an hour: %s",
					v.Desired, v.Ready, v.Rate, v.Expected, v.Cost, v.Why)
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
	}
}

// judge wants more workers at the peak than at the beginning, and fewer again later.
func (w *dayWatch) judge(d *scaleDay) error {
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
	d.logf("from %d to %d workers, %.2f on average, %d after the peak", least, most,
		float64(workers)/float64(max(1, len(w.seen))), after)
	if most <= dayLeast || after >= most {
		return fmt.Errorf("%d workers were ready at most, and %d after that: want more than %d for the peak, and fewer "+
			"then", most, after, dayLeast)
	}
	return nil
}
