package host

import (
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"text/tabwriter"
	"time"

	"parley"
	"parley/compute"
	"parley/fleet"
	"parley/internal/stat"
	"parley/route"
	"parley/worker"
)

var choiceRounds = flag.Int("choice", 0,
	"measure `N` times whether fetching or computing is faster, and what a gateway chooses")

const (
	// choiceSlack is how much longer than the faster way the chosen one may take.
	choiceSlack = 1.05
	// choiceBar is in how many cases it must not take longer than that.
	choiceBar = 0.95
	// choiceOpen is which share of the cases may be left out because they cannot be judged.
	choiceOpen = 0.25
)

// A slowLink passes connections on to a worker, and its answers at a speed.
type slowLink struct {
	target string
	speed  float64 // bytes in a second; 0 for as fast as it goes
	free   time.Time
	mu     sync.Mutex
}

// listen returns the link's URL.
func (l *slowLink) listen(t *testing.T) string {
	t.Helper()
	at, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var passing sync.WaitGroup
	t.Cleanup(func() { at.Close(); passing.Wait() })
	passing.Go(func() {
		for {
			near, err := at.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial("tcp", strings.TrimPrefix(l.target, "http://"))
			if err != nil {
				near.Close()
				return
			}
			passing.Go(func() { _, _ = io.Copy(far, near); far.Close() })
			passing.Go(func() { l.pass(near, far); near.Close(); far.Close() })
		}
	})
	return "http://" + at.Addr().String()
}

// pass writes what comes from a worker, not faster than the link is.
func (l *slowLink) pass(to io.Writer, from io.Reader) {
	part := make([]byte, 64<<10)
	for {
		n, err := from.Read(part)
		if l.speed > 0 && n > 0 {
			l.mu.Lock()
			if now := time.Now(); l.free.Before(now) {
				l.free = now
			}
			l.free = l.free.Add(time.Duration(float64(n) / l.speed * float64(time.Second)))
			until := l.free
			l.mu.Unlock()
			time.Sleep(time.Until(until))
		}
		if _, fault := to.Write(part[:n]); err != nil || fault != nil {
			return
		}
	}
}

// TestFetchOrCompute measures how long a worker takes to its first token when it fetches a
// prompt from another one, and when it computes it, for prompts and links of all kinds; and
// what a gateway chooses, by what it has learned. A choice is right if it takes at most 5 %
// longer than the faster way. Cases in which the rounds do not tell which way is faster are
// left out and counted apart. The choice must be right in 95 of 100 of the others.
func TestFetchOrCompute(t *testing.T) {
	if *choiceRounds == 0 {
		t.Skip("NOT RUN: a measurement: make kv-choice")
	}
	model := Config{KVTokens: 1 << 17, ContextTokens: 2048}
	out := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(out, "link\ttokens\tcompute ms\tfetch ms\tfetch/compute\t95 % interval\tfetches chosen\tright\t")
	good, all, open := 0, 0, 0
	for _, speed := range []float64{4e6, 16e6, 64e6, 256e6, 0} {
		name := "loopback"
		if speed > 0 {
			name = fmt.Sprintf("%.0f MB/s", speed/1e6)
		}
		t.Run(name, func(t *testing.T) {
			c := newChoice(t, model, speed)
			for _, n := range []int{256, 1024, 512} { // from these the gateway learns
				c.answer(t, c.prompt(n))
				c.round(t, n, &choiceCase{})
			}
			for _, n := range []int{128, 256, 512, 1024, 1900} {
				var x choiceCase
				for range *choiceRounds {
					c.round(t, n, &x)
				}
				ratio, at := x.ratio(t)
				right := "not told apart"
				if !x.told(at) {
					open += len(x.fetched)
				} else {
					good, all = good+x.right(), all+len(x.fetched)
					right = fmt.Sprintf("%d of %d", x.right(), len(x.fetched))
				}
				fmt.Fprintf(out, "%s\t%d\t%.1f\t%.1f\t%.2f\t%.2f..%.2f\t%d of %d\t%s\t\n", name, n,
					stat.Median(x.compute), stat.Median(x.fetch), ratio, at.Low, at.High, x.fetches(), len(x.fetched),
					right)
				t.Logf("%d tokens: %s", n, c.reason)
			}
		})
	}
	out.Flush()
	share := float64(good) / float64(max(1, all))
	fmt.Printf("a choice is right if it takes at most 5 %% longer than the faster way, by the median ratio of the "+
		"rounds: %d of %d, %.3f (bar %.2f)\n", good, all, share, choiceBar)
	fmt.Printf("left out: %d choices where the 95 %% interval of that ratio reaches more than 5 %% to both sides of 1 "+
		"(at most %.2f of all)\n", open, choiceOpen)
	if share < choiceBar {
		t.Errorf("missed: %.3f, want %.2f", share, choiceBar)
	}
	if float64(open) > choiceOpen*float64(open+all) {
		t.Errorf("%d of %d choices cannot be judged: this machine is too busy to measure", open, open+all)
	}
}

// A choiceCase is what was measured for one length and one link.
type choiceCase struct {
	compute, fetch []float64 // milliseconds
	fetched        []bool    // what was chosen
}

// ratio returns how many times as long as computing fetching takes, and how sure that is.
func (x *choiceCase) ratio(t *testing.T) (float64, stat.Interval) {
	t.Helper()
	ratios, err := stat.Ratios(x.fetch, x.compute)
	if err != nil {
		t.Fatal(err)
	}
	return stat.Median(ratios), stat.MedianInterval(ratios, 0.95)
}

// told reports whether the rounds tell which way is faster, or that both are as fast.
func (x *choiceCase) told(at stat.Interval) bool {
	return at.Low >= 1/choiceSlack || at.High <= choiceSlack
}

// right counts the choices that take about as long as the faster way.
func (x *choiceCase) right() (n int) {
	ratios, _ := stat.Ratios(x.fetch, x.compute)
	ratio := stat.Median(ratios)
	for _, chosen := range x.fetched {
		if chosen && ratio <= choiceSlack || !chosen && ratio >= 1/choiceSlack {
			n++
		}
	}
	return n
}

func (x *choiceCase) fetches() (n int) {
	for _, chosen := range x.fetched {
		if chosen {
			n++
		}
	}
	return n
}

// A choice is a worker that holds prompts, one that lacks them, and a gateway that sends
// requests to the second.
type choice struct {
	holder, other *worker.Remote
	source        func() *parley.BlockSource
	fleet         *fleet.Fleet
	rng           *rand.Rand
	reason        string // of the last decision
}

func newChoice(t *testing.T, model Config, speed float64) *choice {
	t.Helper()
	a, urlA := startWorker(t, ServerConfig{Key: transferKey}, model)
	_, urlB := startWorker(t, ServerConfig{Key: transferKey}, model)
	link := (&slowLink{target: urlA, speed: speed}).listen(t)
	c := &choice{
		holder: dialWorker(t, worker.Config{URL: urlA, Kind: worker.Parley, Key: transferKey}),
		other:  dialWorker(t, worker.Config{URL: urlB, Kind: worker.Parley, Key: transferKey}),
		source: func() *parley.BlockSource { return sourceOf(a, link) },
		fleet:  startFleetWith(t, route.Config{}, link, urlB),
		rng:    rand.New(rand.NewPCG(24, 1)),
	}
	if err := c.fleet.Drain("w0", -1); err != nil {
		t.Fatal(err)
	}
	return c
}

// prompt returns a request that no worker has seen.
func (c *choice) prompt(n int) *parley.Request {
	r := &parley.Request{Model: "polly-mini", Prompt: make([]parley.Token, n), MaxTokens: 1,
		Stop: parley.Stop{IgnoreEnd: true}}
	for i := range r.Prompt {
		r.Prompt[i] = parley.Token(300 + c.rng.IntN(1000))
	}
	return r
}

// round measures both ways, one after the other, and has the gateway choose.
func (c *choice) round(t *testing.T, n int, x *choiceCase) {
	t.Helper()
	x.compute = append(x.compute, firstToken(t, c.other, c.prompt(n)))
	r := c.prompt(n)
	firstToken(t, c.holder, r)
	r.Fetch = c.source()
	x.fetch = append(x.fetch, firstToken(t, c.other, r))
	r = c.prompt(n)
	before := blocksOf(c.fleet, "w0")
	firstToken(t, c.holder, r)
	held := func(s *fleet.Standing) bool { return s.Blocks >= before+n/compute.BlockTokens }
	awaitStanding(t, c.fleet, "w0", held)
	last := c.answer(t, r)
	x.fetched = append(x.fetched, last.Transfer != nil)
	c.reason = last.Reason
}

// answer has the gateway answer a request, and returns its last attempt.
func (c *choice) answer(t *testing.T, r *parley.Request) parley.Attempt {
	t.Helper()
	attempts := &parley.AttemptLog{}
	for _, err := range c.fleet.Generate(parley.WithAttemptLog(t.Context(), attempts), r) {
		if err != nil {
			t.Fatal(err)
		}
	}
	log, _ := attempts.Attempts()
	return log[len(log)-1]
}

// blocksOf returns how many blocks the gateway knows of a worker.
func blocksOf(f *fleet.Fleet, name string) int {
	for _, s := range f.Standings() {
		if s.Name == name {
			return s.Blocks
		}
	}
	return 0
}

// firstToken returns how many milliseconds a worker takes to it.
func firstToken(t *testing.T, w parley.Worker, r *parley.Request) float64 {
	t.Helper()
	began, took := time.Now(), 0.0
	for d, err := range w.Generate(t.Context(), r) {
		if err != nil {
			t.Fatal(err)
		}
		if took == 0 && d.Count() > 0 {
			took = time.Since(began).Seconds() * 1e3
		}
	}
	return took
}
