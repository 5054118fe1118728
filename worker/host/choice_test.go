package host

import (
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
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
	"parley/worker"
)

var choiceRounds = flag.Int("choice", 0,
	"measure `N` times whether fetching or computing is faster, and what a gateway chooses")

const (
	// choiceSlack is how much longer than the faster way the chosen one may take.
	choiceSlack = 1.05
	// choiceBar is in how many cases it must not take longer than that.
	choiceBar = 0.95
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
// what a gateway chooses, by what it has learned. The choice may take 5 % longer than the
// faster way; it must do so in 95 of 100 cases.
func TestFetchOrCompute(t *testing.T) {
	if *choiceRounds == 0 {
		t.Skip("NOT RUN: a measurement: make kv-choice")
	}
	model := Config{KVTokens: 1 << 17, ContextTokens: 2048}
	out := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(out, "link\ttokens\tcompute ms\tfetch ms\tfetches chosen\twithin 5 %\t")
	good, all := 0, 0
	for _, speed := range []float64{4e6, 16e6, 64e6, 256e6, 0} {
		name := "loopback"
		if speed > 0 {
			name = fmt.Sprintf("%.0f MB/s", speed/1e6)
		}
		t.Run(name, func(t *testing.T) {
			c := newChoice(t, model, speed)
			for _, n := range []int{256, 1024} { // from these the gateway learns
				c.round(t, n, &choiceCase{})
			}
			for _, n := range []int{128, 256, 512, 1024, 1900} {
				var x choiceCase
				for range *choiceRounds {
					c.round(t, n, &x)
				}
				right := x.right()
				good, all = good+right, all+len(x.fetched)
				fmt.Fprintf(out, "%s\t%d\t%.1f\t%.1f\t%d of %d\t%d of %d\t\n", name, n, middle(x.compute),
					middle(x.fetch), x.fetches(), len(x.fetched), right, len(x.fetched))
			}
		})
	}
	out.Flush()
	share := float64(good) / float64(max(1, all))
	fmt.Printf("the choice is within 5 %% of the faster way in %d of %d cases: %.3f (bar %.2f)\n", good, all, share,
		choiceBar)
	if share < choiceBar {
		t.Errorf("missed: %.3f, want %.2f", share, choiceBar)
	}
}

// A choiceCase is what was measured for one length and one link.
type choiceCase struct {
	compute, fetch []float64 // milliseconds
	fetched        []bool    // what was chosen
}

// right counts the choices that take about as long as the faster way.
func (x *choiceCase) right() (n int) {
	compute, fetch := middle(x.compute), middle(x.fetch)
	for _, chosen := range x.fetched {
		took := compute
		if chosen {
			took = fetch
		}
		if took <= choiceSlack*min(compute, fetch) {
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

func middle(all []float64) float64 {
	all = slices.Sorted(slices.Values(all))
	return all[len(all)/2]
}

// A choice is a worker that holds prompts, one that lacks them, and a gateway that sends
// requests to the second.
type choice struct {
	holder, other *worker.Remote
	source        func() *parley.BlockSource
	fleet         *fleet.Fleet
	rng           *rand.Rand
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
	attempts := &parley.AttemptLog{}
	for _, err := range c.fleet.Generate(parley.WithAttemptLog(t.Context(), attempts), r) {
		if err != nil {
			t.Fatal(err)
		}
	}
	log, _ := attempts.Attempts()
	x.fetched = append(x.fetched, log[len(log)-1].Transfer != nil)
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
