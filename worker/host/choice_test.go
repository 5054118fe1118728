package host

import (
	"cmp"
	"flag"
	"fmt"
	"io"
	"iter"
	"math/rand/v2"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"text/tabwriter"
	"time"

	"parley"
	"parley/compute"
	"parley/fleet"
	"parley/internal/stat"
	"parley/model/weights"
	"parley/route"
	"parley/worker"
	"parley/worker/kvwire"
)

var (
	choiceRounds = flag.Int("choice", 0,
		"measure `N` times whether fetching or computing is faster, and what a gateway chooses")
	choiceFor    = flag.Duration("choice-for", time.Hour, "begin nothing that would end after `DURATION`")
	choiceShape  = flag.String("choice-shape", "", "take random weights of a `SHAPE` such as llama-1b, not polly-mini")
	choiceQuant  = flag.String("choice-quant", "q8_0", "the `TYPE` of random weights")
	choiceDevice = flag.String("choice-device", DeviceCPU, "compute on `DEVICE`")
	// The lengths ascend.
	choiceLengths = flag.String("choice-lengths", "128,256,512,1024,1900", "`LIST` of lengths of prompts, in tokens")
	choiceLearn   = flag.String("choice-learn", "", "`LIST` of lengths of the prompts from which gateways learn")
	choiceLinks   = flag.String("choice-links", "4,16,64,256,0", "`LIST` of links, in MB/s; 0 is loopback")
	choiceLongest = flag.Duration("choice-longest", time.Minute, "leave out prompts that take a link `DURATION`")
)

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

// carries returns how many bytes a plain copy over the link moves in a second.
func (l *slowLink) carries(t *testing.T) float64 {
	t.Helper()
	source, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer source.Close()
	bytes := int64(min(max(l.speed/4, 1<<20), 256<<20))
	go func() {
		if to, err := source.Accept(); err == nil {
			for sent, part := int64(0), make([]byte, 1<<20); sent < bytes && err == nil; {
				var n int
				n, err = to.Write(part[:min(int64(len(part)), bytes-sent)])
				sent += int64(n)
			}
			to.Close()
		}
	}()
	plain := &slowLink{target: source.Addr().String(), speed: l.speed}
	from, err := net.Dial("tcp", strings.TrimPrefix(plain.listen(t), "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	began, room := time.Now(), make([]byte, 1<<20)
	for left := bytes; left > 0; {
		n, err := from.Read(room)
		if left -= int64(n); err != nil && left > 0 {
			t.Fatal(err)
		}
	}
	return float64(bytes) / time.Since(began).Seconds()
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

// linkSlack is how far a link may be ahead of its speed or behind it. Sleeping takes about a
// millisecond longer than it should, in which a fast link passes many parts.
const linkSlack = 2 * time.Millisecond

// pass writes what comes from a worker, not faster than the link is.
func (l *slowLink) pass(to io.Writer, from io.Reader) {
	part := make([]byte, 256<<10)
	for {
		n, err := from.Read(part)
		if l.speed > 0 && n > 0 {
			l.mu.Lock()
			if last := time.Now().Add(-linkSlack); l.free.Before(last) {
				l.free = last
			}
			l.free = l.free.Add(time.Duration(float64(n) / l.speed * float64(time.Second)))
			until := l.free
			l.mu.Unlock()
			if early := time.Until(until); early > linkSlack {
				time.Sleep(early)
			}
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
	lengths := choiceNumbers(t, *choiceLengths)
	began := time.Now()
	c := newChoice(t, lengths)
	for _, n := range c.learn { // from these the gateways learn
		for _, l := range c.links {
			l.answer(t, c.prompt(n))
		}
		c.round(t, n, false)
	}
	c.rounds(t, lengths, began)
	good, all, open := c.report(t, lengths)
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

// rounds measures all lengths, shorter ones first, and ends before one that would not end in time.
func (c *choice) rounds(t *testing.T, lengths []int, began time.Time) {
	t.Helper()
	took := make([]time.Duration, len(lengths))
	for k := range *choiceRounds {
		for i, n := range lengths {
			expected := took[i]
			if expected == 0 && i > 0 { // attention takes more for each token of a longer prompt
				expected = took[i-1] * time.Duration(5*n) / time.Duration(4*lengths[i-1])
			}
			start := time.Now()
			if k+i > 0 && start.Sub(began)+expected > *choiceFor {
				break
			}
			c.round(t, n, true)
			took[i] = time.Since(start)
		}
	}
}

// report prints what was measured, and counts the choices: those that were right, those that can
// be judged, and the others.
func (c *choice) report(t *testing.T, lengths []int) (good, all, open int) {
	t.Helper()
	fmt.Printf("%s on %s: blocks of %d tokens and %d bytes\n", cmp.Or(*choiceShape, "polly-mini"),
		c.from.awake.Device, compute.BlockTokens, c.from.awake.format.BlockBytes)
	out := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(out, "link\ttokens\tMB moved\tcompute ms\tfetch ms\tfetch/compute\t95 % interval\tfetches chosen\t"+
		"right\t")
	for _, l := range c.links {
		for _, n := range lengths {
			x := l.cases[n]
			if x == nil {
				continue
			}
			ratio, at := x.ratio(t)
			right := "not told apart"
			if !x.told(at) {
				open += len(x.fetched)
			} else {
				good, all = good+x.right(), all+len(x.fetched)
				right = fmt.Sprintf("%d of %d", x.right(), len(x.fetched))
			}
			fmt.Fprintf(out, "%s\t%d\t%.1f\t%.1f\t%.1f\t%.2f\t%.2f..%.2f\t%d of %d\t%s\t\n", l.name, n,
				c.bytes(n)/1e6, stat.Median(x.compute), stat.Median(x.fetch), ratio, at.Low, at.High, x.fetches(),
				len(x.fetched), right)
			t.Logf("%s, %d tokens: %s", l.name, n, x.reason)
		}
	}
	out.Flush()
	return good, all, open
}

// A choiceCase is what was measured for one length and one link.
type choiceCase struct {
	compute, fetch []float64 // milliseconds
	fetched        []bool    // what was chosen
	reason         string    // of the last choice
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

// A choice is a worker that holds prompts, and links over which others fetch them.
type choice struct {
	from   *Server
	holder *worker.Remote
	links  []*choiceLink
	learn  []int // lengths of prompts
	rng    *rand.Rand
	held   int // blocks of the holder
}

// A choiceLink is a worker that lacks prompts, and a gateway that sends requests to it.
type choiceLink struct {
	name   string
	speed  float64 // bytes in a second; 0 for that of this machine
	source func() *parley.BlockSource
	other  *worker.Remote
	fleet  *fleet.Fleet
	cases  map[int]*choiceCase // by the length of their prompts
}

// newChoice starts workers whose pools hold all prompts of the given lengths.
func newChoice(t *testing.T, lengths []int) *choice {
	t.Helper()
	c := &choice{rng: rand.New(rand.NewPCG(24, 1)), learn: []int{lengths[0], lengths[len(lengths)/2], lengths[1]}}
	if *choiceLearn != "" {
		c.learn = choiceNumbers(t, *choiceLearn)
	}
	all := 0
	for _, n := range lengths {
		all += 2 * n * *choiceRounds
	}
	for _, n := range c.learn {
		all += 2 * n
	}
	longest := slices.Max(lengths) + 64
	model := Config{
		ContextTokens: longest,
		KVTokens:      wholeBlocks(all + longest),
		KVType:        compute.KVBF16,
		DeviceName:    *choiceDevice,
		NoSpeculation: true,
	}
	shape := openShape(t, *choiceShape, *choiceQuant)
	began := time.Now()
	from, urlA := startWorkerOf(t, ServerConfig{Key: transferKey}, model, shape)
	fmt.Printf("the worker that holds the prompts has started after %.1f s\n", time.Since(began).Seconds())
	c.from, c.holder = from, dialWorker(t, worker.Config{URL: urlA, Kind: worker.Parley, Key: transferKey})
	model.KVTokens = wholeBlocks(2 * longest)
	for _, speed := range choiceNumbers(t, *choiceLinks) {
		l := &choiceLink{name: "loopback", speed: float64(speed) * 1e6, cases: map[int]*choiceCase{}}
		link, share := urlA, int64(kvwire.ShareFrom)
		if speed > 0 {
			share = -1 // it would not go over the link
			slow := &slowLink{target: urlA, speed: l.speed}
			l.name = fmt.Sprintf("%d MB/s", speed)
			fmt.Printf("a link of %s carries %.1f MB/s of a plain copy\n", l.name, slow.carries(t)/1e6)
			link = slow.listen(t)
		}
		fetching := ServerConfig{Key: transferKey, Fetch: kvwire.Config{ShareFrom: share}}
		_, urlB := startWorkerOf(t, fetching, model, shape)
		l.other = dialWorker(t, worker.Config{URL: urlB, Kind: worker.Parley, Key: transferKey})
		l.source = func() *parley.BlockSource { return sourceOf(from, link) }
		l.fleet = startFleetWith(t, route.Config{}, link, urlB)
		if err := l.fleet.Drain("w0", -1); err != nil {
			t.Fatal(err)
		}
		c.links = append(c.links, l)
	}
	return c
}

// choiceNumbers reads a list of numbers.
func choiceNumbers(t *testing.T, list string) (numbers []int) {
	t.Helper()
	for word := range strings.SplitSeq(list, ",") {
		n, err := strconv.Atoi(word)
		if err != nil {
			t.Fatal(err)
		}
		numbers = append(numbers, n)
	}
	return numbers
}

// openShape returns what opens a model of random weights, polly-mini without a name. Its
// vocabulary is that of polly-mini: prompts are numbers of tokens.
func openShape(t *testing.T, name, quant string) func() (*weights.Checkpoint, error) {
	t.Helper()
	if name == "" {
		return openMini
	}
	shape, err := weights.ShapeNamed(name)
	if err != nil {
		t.Fatal(err)
	}
	kind, err := weights.ParseDType(quant)
	if err != nil {
		t.Fatal(err)
	}
	shape.Config.Context, shape.Config.Vocab = 131072, max(shape.Config.Vocab, 8192) // those of polly-mini
	random, err := weights.RandomCheckpoint(shape, kind, 1)
	if err != nil {
		t.Fatal(err)
	}
	random.Tokenizer = openBuiltin(t, "polly-mini").Tokenizer
	return func() (*weights.Checkpoint, error) { return random, nil }
}

// bytes returns how many the blocks of a prompt have.
func (c *choice) bytes(n int) float64 {
	return float64(n / compute.BlockTokens * c.from.awake.format.BlockBytes)
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

// hold has the holder compute a prompt, waits until all gateways know that it has it, and returns
// how many milliseconds computing it took.
func (c *choice) hold(t *testing.T, r *parley.Request) float64 {
	t.Helper()
	took := firstToken(t, c.holder.Generate(t.Context(), r))
	c.held += len(r.Prompt) / compute.BlockTokens
	for _, l := range c.links {
		awaitStanding(t, l.fleet, "w0", func(s *fleet.Standing) bool { return s.Blocks >= c.held })
	}
	return took
}

// round measures both ways, one after the other, and what the gateways choose. A worker that lacks a prompt computes it
// as the holder did, which is as fast. Where a gateway chooses to fetch, the time of its first token is measured.
// Computing a long prompt takes minutes, so no other one is computed unless a gateway chooses to compute.
func (c *choice) round(t *testing.T, n int, measured bool) {
	t.Helper()
	within := func(l *choiceLink) bool { return l.speed == 0 || c.bytes(n)/l.speed <= choiceLongest.Seconds() }
	if !slices.ContainsFunc(c.links, within) {
		return
	}
	r := c.prompt(n)
	compute := c.hold(t, r)
	var other *parley.Request
	for _, l := range c.links {
		if !within(l) {
			continue
		}
		last, fetch := l.answer(t, r)
		if last.Transfer == nil {
			if other == nil {
				other = c.prompt(n)
				c.hold(t, other)
			}
			fetching := *other
			fetching.Fetch = l.source()
			fetch = firstToken(t, l.other.Generate(t.Context(), &fetching))
		}
		if !measured {
			continue
		}
		x := l.cases[n]
		if x == nil {
			x = &choiceCase{}
			l.cases[n] = x
		}
		x.compute, x.fetch = append(x.compute, compute), append(x.fetch, fetch)
		fmt.Printf("%s, %d tokens: computed in %.1f ms, fetched in %.1f ms, chosen to fetch: %t\n", l.name, n, compute,
			fetch, last.Transfer != nil)
		x.fetched, x.reason = append(x.fetched, last.Transfer != nil), last.Reason
	}
}

// answer has the gateway answer a request. It returns its last attempt, and how many milliseconds the first token took.
func (l *choiceLink) answer(t *testing.T, r *parley.Request) (last parley.Attempt, took float64) {
	t.Helper()
	attempts := &parley.AttemptLog{}
	took = firstToken(t, l.fleet.Generate(parley.WithAttemptLog(t.Context(), attempts), r))
	log, _ := attempts.Attempts()
	return log[len(log)-1], took
}

// firstToken returns how many milliseconds an answer takes to it.
func firstToken(t *testing.T, answer iter.Seq2[parley.Delta, error]) float64 {
	t.Helper()
	began, took := time.Now(), 0.0
	for d, err := range answer {
		if err != nil {
			t.Fatal(err)
		}
		if took == 0 && d.Count() > 0 {
			took = time.Since(began).Seconds() * 1e3
		}
	}
	return took
}
