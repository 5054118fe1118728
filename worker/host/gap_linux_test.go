package host

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"io"
	"iter"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"text/tabwriter"
	"time"

	"parley"
	"parley/compute"
	"parley/fleet"
	"parley/route"
)

var (
	gapTime   = flag.Duration("gap", 0, "measure the gaps of answers for `DURATION` each while prompts arrive")
	gapShape  = flag.String("gap-shapes", "llama-135m,llama-1b", "`LIST` of shapes, whose weights are random")
	gapCores  = flag.String("gap-cores", "", "processors of the two workers, as in 0-6/7-13")
	gapTurns  = flag.Int("gap-rounds", 2, "measure `N` times, and what is not judged once")
	gapTokens = flag.Int("gap-tokens", 8000, "give each prompt `N` tokens")
	gapDevice = flag.String("gap-device", DeviceCPU, "compute on `DEVICE`")
	gapServe  = flag.String("gap-serve", "", "serve a `SHAPE` with a role until the input ends: of TestGapsApart")
)

const (
	// gapBar is how much longer gaps may be while prompts arrive that another worker computes.
	gapBar = 1.1
	// gapStreams are answered at once, while gapPrompts prompts are always in flight. A measurement lasts up to twice
	// its time until one of them was answered.
	gapStreams, gapPrompts = 16, 2
	// gapAnswer is how many tokens answers have: more than are written in the time. gapPool holds all of them and
	// the prompts on the way below the router's watermark, which counts what answers may still become.
	gapAnswer = 12000
	gapPool   = (gapStreams*gapAnswer + 4*gapContext) * 5 / 4
	// gapContext is that of the workers.
	gapContext = 16384
)

// TestGapsApart measures the gaps between the tokens of 16 answers by two workers, each a process
// of its own on its own processors: while prompts of 8,000 tokens arrive all the time and both
// workers do everything (together); while they arrive and one worker computes prompts, the other
// decodes (apart); and with the latter two when no prompts arrive. With several rounds a fourth row is not
// judged: the worker for prompts answers them alone, so that no blocks move. What gaps are longer by then is the
// fault of what both workers share on one machine: memory, caches and clock.
func TestGapsApart(t *testing.T) {
	if *gapTime == 0 {
		t.Skip("NOT RUN: a measurement: make kv-gap")
	}
	out := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(out, "model\tworkers\tgaps\tp50 ms\tp99 ms\tlongest ms\tp99 against no prompts\ttokens/s\tprompts\t"+
		"computed apart\t")
	for shape := range strings.SplitSeq(*gapShape, ",") {
		t.Run(shape, func(t *testing.T) {
			both := startFleetWith(t, route.Config{}, gapWorkers(t, shape, "", "")...)
			urls := gapWorkers(t, shape, "prefill", "decode")
			roles := startFleetWith(t, route.Config{}, urls...)
			first := startFleetWith(t, route.Config{}, urls[0])
			cells := []*gapCell{{"apart", roles, roles, gapPrompts}, {"no prompts", roles, roles, 0},
				{"together", both, both, gapPrompts}, {"no blocks moved", roles, first, gapPrompts}}
			if *gapTurns == 1 {
				cells = cells[:3]
			}
			all := make([]gapResult, len(cells))
			rng := rand.New(rand.NewPCG(24, 5))
			for turn := range *gapTurns {
				var some gapResult
				for i, c := range cells {
					if turn > 0 && i > 1 { // it is not judged
						continue
					}
					if turn == 0 && c.prompts > 0 {
						c.teach(t, rng)
					}
					some = c.measure(t, rng, some.span)
					fmt.Printf("%s, %s: p99 %.1f ms of %d gaps, %d of %d prompts computed apart\n", shape, c.name,
						quantile(some.gaps, 0.99), len(some.gaps), some.apart, some.prompts)
					all[i].add(some)
				}
			}
			none := quantile(all[1].gaps, 0.99)
			for i, c := range cells {
				g := all[i].gaps
				fmt.Fprintf(out, "%s\t%s\t%d\t%.1f\t%.1f\t%.1f\t%.2f\t%.0f\t%d\t%d\t\n", shape, c.name, len(g),
					quantile(g, 0.5), quantile(g, 0.99), slices.Max(g), quantile(g, 0.99)/none,
					float64(len(g))/all[i].took.Seconds(), all[i].prompts, all[i].apart)
			}
			if ratio := quantile(all[0].gaps, 0.99) / none; ratio > gapBar {
				t.Errorf("missed: %.2f, want at most %.2f", ratio, gapBar)
			}
			if all[0].prompts == 0 || all[0].apart < all[0].prompts {
				t.Errorf("%d of %d prompts were computed apart", all[0].apart, all[0].prompts)
			}
		})
	}
	out.Flush()
	fmt.Printf("gaps between the tokens of %d answers while %d prompts of %d tokens are always on the way, %v in %d "+
		"rounds; bar: apart at most %.1f times no prompts\n", gapStreams, gapPrompts, *gapTokens, *gapTime, *gapTurns,
		gapBar)
}

// gapStarted begins the line that says what a worker runs on.
const gapStarted = "worker of "

// A gapCell is what is compared.
type gapCell struct {
	name            string
	streams, others *fleet.Fleet // that answer, and that get prompts
	prompts         int          // always on the way
}

// A gapResult is what was measured: gaps in milliseconds, prompts that were answered, those of them whose blocks
// came from another worker, in what time, and between which numbers of tokens that all answers had written.
type gapResult struct {
	gaps           []float64
	prompts, apart int
	took           time.Duration
	span           [2]int
}

func (r *gapResult) add(other gapResult) {
	r.took += other.took
	r.gaps = append(r.gaps, other.gaps...)
	r.prompts, r.apart = r.prompts+other.prompts, r.apart+other.apart
}

func quantile(values []float64, q float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[min(len(sorted)-1, int(q*float64(len(sorted))))]
}

// A gapTally is what a measurement has counted so far.
type gapTally struct {
	mu      sync.Mutex
	from    time.Time // gaps count from then
	written int       // tokens
	gapResult
}

// until waits until enough was counted.
func (g *gapTally) until(t *testing.T, wait time.Duration, enough func() bool) {
	for ; !t.Failed(); time.Sleep(wait) {
		g.mu.Lock()
		ok := enough()
		g.mu.Unlock()
		if ok {
			return
		}
	}
}

// read counts the tokens of an answer, and calls begun with the first one.
func (g *gapTally) read(t *testing.T, ctx context.Context, stream iter.Seq2[parley.Delta, error], begun func()) {
	last := time.Time{}
	for d, err := range stream {
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			t.Error(err)
			return
		}
		if d.Count() == 0 {
			continue
		}
		now := time.Now()
		g.mu.Lock()
		g.written += d.Count()
		if !g.from.IsZero() && last.After(g.from) {
			g.gaps = append(g.gaps, now.Sub(last).Seconds()*1e3)
		}
		g.mu.Unlock()
		if last.IsZero() {
			begun()
		}
		last = now
	}
	if ctx.Err() == nil {
		t.Errorf("an answer of %d tokens ended before the measurement did", gapAnswer)
	}
}

// teach has the gateway learn how fast workers and links are, by shorter prompts.
func (c *gapCell) teach(t *testing.T, rng *rand.Rand) {
	t.Helper()
	for _, part := range []int{8, 4} {
		for _, err := range c.others.Generate(t.Context(), gapRequest(rng, *gapTokens/part, 1)) {
			if err != nil {
				t.Fatal(err)
			}
		}
	}
}

// measure begins all answers, then sends prompts, and counts gaps from then on, for gapTime, and until a prompt was
// answered, for at most twice that time. Without prompts it counts gaps of the same tokens as in a measurement
// before, whose contexts are as long.
func (c *gapCell) measure(t *testing.T, rng *rand.Rand, span [2]int) gapResult {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	g := &gapTally{}
	var work, begun sync.WaitGroup
	for range gapStreams {
		r := gapRequest(rng, 128, gapAnswer)
		begun.Add(1)
		work.Go(func() { g.read(t, ctx, c.streams.Generate(ctx, r), begun.Done) })
	}
	begun.Wait()
	if c.prompts == 0 {
		g.until(t, time.Millisecond, func() bool { return g.written >= span[0] })
	}
	g.mu.Lock()
	g.from, g.span[0] = time.Now(), g.written
	g.mu.Unlock()
	for range c.prompts {
		own := rand.New(rand.NewPCG(rng.Uint64(), 24))
		work.Go(func() {
			c.sendPrompts(t, ctx, own, func(attempts *parley.AttemptLog) {
				g.mu.Lock()
				c.answered(t, &g.gapResult, attempts)
				g.mu.Unlock()
			})
		})
	}
	g.until(t, 10*time.Millisecond, func() bool {
		g.took, g.span[1] = time.Since(g.from), g.written
		if c.prompts == 0 {
			return g.written >= span[1]
		}
		return g.took >= *gapTime && g.prompts > 0 || g.took >= 2**gapTime
	})
	stop()
	work.Wait()
	return g.gapResult
}

// sendPrompts sends one prompt after the other, and calls answered after each.
func (c *gapCell) sendPrompts(t *testing.T, ctx context.Context, rng *rand.Rand,
	answered func(*parley.AttemptLog)) {
	for ctx.Err() == nil {
		attempts := &parley.AttemptLog{}
		r := gapRequest(rng, *gapTokens, 1)
		for _, err := range c.others.Generate(parley.WithAttemptLog(ctx, attempts), r) {
			if err != nil && ctx.Err() == nil {
				t.Error(err)
				return
			}
		}
		if ctx.Err() == nil {
			answered(attempts)
		}
	}
}

// answered counts a prompt.
func (c *gapCell) answered(t *testing.T, all *gapResult, attempts *parley.AttemptLog) {
	log, _ := attempts.Attempts()
	last := &log[len(log)-1]
	all.prompts++
	if last.Transfer != nil && last.Transfer.CameTokens > *gapTokens/2 && last.Transfer.Miss == "" {
		all.apart++
	} else if all.prompts < 4 {
		t.Logf("%s: %s, %+v", c.name, last.Reason, last.Transfer)
	}
}

// gapWorkers starts a worker process for each role, on its own processors, and returns their URLs.
func gapWorkers(t *testing.T, shape string, roles ...string) (urls []string) {
	t.Helper()
	cores := strings.Split(*gapCores, "/")
	for i, role := range roles {
		self, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		args := []string{self, "-test.run", "^TestServeForGaps$", "-test.timeout", "1h", "-gap-serve",
			shape + "," + role, "-gap-device", *gapDevice}
		if len(cores) > i && cores[i] != "" {
			args = append([]string{"taskset", "-c", cores[i]}, args...)
		}
		cmd := exec.Command(args[0], args[1:]...)
		cmd.Stderr = os.Stderr
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		lines, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { in.Close(); _ = cmd.Wait() })
		scan := bufio.NewScanner(lines)
		for scan.Scan() && !strings.HasPrefix(scan.Text(), "http://") {
			if strings.HasPrefix(scan.Text(), gapStarted) {
				fmt.Println(scan.Text())
			}
		}
		if scan.Text() == "" {
			t.Fatalf("worker %d did not start", i)
		}
		urls = append(urls, scan.Text())
		go func() { _, _ = io.Copy(io.Discard, lines) }()
	}
	return urls
}

// TestServeForGaps is a worker of TestGapsApart.
func TestServeForGaps(t *testing.T) {
	if *gapServe == "" {
		t.Skip("NOT RUN: part of a measurement: make kv-gap")
	}
	shape, role, _ := strings.Cut(*gapServe, ",")
	target := time.Duration(0)
	if role == string(parley.RolePrefill) {
		target = -1 // as parley worker sets it
	}
	s, url := startWorkerOf(t, ServerConfig{Key: transferKey, Role: parley.WorkerRole(role)}, Config{
		ContextTokens: gapContext,
		DeviceName:    *gapDevice,
		KVTokens:      wholeBlocks(gapPool),
		KVType:        compute.KVBF16,
		NoSpeculation: true,
		Target:        target,
	}, openShape(t, shape, "q8_0"))
	fmt.Printf("%s%s, role %q, on %s\n", gapStarted, shape, role, s.awake.Device)
	fmt.Println(url)
	_, _ = io.Copy(io.Discard, os.Stdin)
}
