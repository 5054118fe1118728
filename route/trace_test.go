package route

import (
	"bufio"
	"cmp"
	"compress/gzip"
	"encoding/binary"
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	"parley"
	"parley/engine/kv"
	"parley/internal/testkit"
	"parley/route/kvindex"
)

// otherTrace has a name that go test does not take for itself: its -trace writes the file.
var otherTrace = flag.String("replay", "", "a compressed trace in Mooncake's format, to be replayed beside the others")

// transferBar is what workers that fetch blocks from each other must find. The default guards
// what was reached.
var transferBar = flag.Float64("bar", 0.272, "the hit ratio that workers which exchange blocks must reach")

var traceSeeds = flag.Uint64("seeds", 1, "replay `N` times with other random choices of the router, and take the mean")

const traceTokens = 512

// A use is one request of a trace. Equal ids mean equal content up to that
// block.
type use struct {
	at     time.Duration
	tokens int
	ids    []int32
}

// readTrace reads a trace in Mooncake's format.
func readTrace(t testing.TB, path string) (uses []use) {
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	unzipped, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(unzipped)
	lines.Buffer(nil, 1<<26)
	for lines.Scan() {
		var r struct {
			Timestamp int64   `json:"timestamp"`
			Tokens    int     `json:"input_length"`
			HashIDs   []int32 `json:"hash_ids"`
		}
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			t.Fatal(err)
		}
		uses = append(uses, use{time.Duration(r.Timestamp) * time.Millisecond, r.Tokens, r.HashIDs})
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return uses
}

// A sharing describes a made-up trace: conversations that begin with the
// system prompt of one of several tenants, some of whom have more of them.
type sharing struct {
	tenants      int
	skew         float64 // tenant number i has conversations in proportion to i^-skew
	systemBlocks int     // mean
	turnBlocks   float64 // mean of what each turn adds
	turns        float64 // mean
	perSecond    float64
}

// generate returns about n requests.
func (s sharing) generate(n int) (uses []use) {
	rng := rand.New(rand.NewPCG(1, 2))
	next := int32(0)
	grow := func(ids []int32, n int) []int32 {
		ids = slices.Clone(ids)
		for range n {
			ids = append(ids, next)
			next++
		}
		return ids
	}
	systems := make([][]int32, s.tenants)
	sums := make([]float64, s.tenants)
	sum := 0.0
	for i := range systems {
		systems[i] = grow(nil, s.systemBlocks/2+rng.IntN(s.systemBlocks+1))
		sum += math.Pow(float64(i+1), -s.skew)
		sums[i] = sum
	}
	start := 0.0
	for len(uses) < n {
		start += rng.ExpFloat64() / s.perSecond * s.turns
		tenant, _ := slices.BinarySearch(sums, rng.Float64()*sum)
		ids, at := systems[tenant], start
		for more := true; more; more = rng.Float64() > 1/s.turns {
			ids = grow(ids, 1+int(rng.ExpFloat64()*s.turnBlocks))
			uses = append(uses,
				use{time.Duration(at * float64(time.Second)), len(ids)*traceTokens - rng.IntN(traceTokens), ids})
			at += 20 + rng.ExpFloat64()*60
		}
	}
	slices.SortStableFunc(uses, func(a, b use) int { return cmp.Compare(a.at, b.at) })
	end := time.Duration(start * float64(time.Second)) // nobody new comes after it
	at, _ := slices.BinarySearchFunc(uses, end, func(u use, end time.Duration) int { return cmp.Compare(u.at, end) })
	return uses[:at]
}

// nameOf makes a name from the id of a block in a trace.
func nameOf(id int32) (name parley.BlockHash) {
	mixed := (uint64(id) + 1) * 0x9e3779b97f4a7c15
	binary.LittleEndian.PutUint64(name[:], mixed^mixed>>29)
	binary.LittleEndian.PutUint32(name[8:], uint32(id))
	copy(name[24:], name[:8]) // its key
	return name
}

// A fleet is workers with a cache each, evicting what was used least recently,
// without timing: each request is computed at once.
type fleet struct {
	caches []*kv.Cache
	seen   []uint64 // events
	blocks int      // of each cache
	now    time.Time
	router *Router // gets the events, if there is one
	names  []parley.BlockHash
	keys   []parley.BlockKey

	hits, asked int
	fetched     int       // of the hits
	total       []float64 // uncached tokens
	window      []float64 // of this minute
	ratios      []float64 // busiest to mean, of each minute
	minute      time.Duration
}

func newFleet(t testing.TB, workers, tokens int, policy kv.Policy) *fleet {
	f := &fleet{blocks: tokens / traceTokens, seen: make([]uint64, workers), total: make([]float64, workers),
		window: make([]float64, workers)}
	for range workers {
		c, err := kv.NewCache(kv.Config{
			Blocks:      f.blocks,
			BlockTokens: traceTokens,
			Policy:      policy,
			Events:      1024,
			NoTokens:    true, // a trace has none
		})
		if err != nil {
			t.Fatal(err)
		}
		f.caches = append(f.caches, c)
	}
	return f
}

// arrive names the blocks of a request.
func (f *fleet) arrive(u *use) {
	for ; u.at >= f.minute+time.Minute; f.minute += time.Minute {
		f.closeMinute()
	}
	f.now = time.Unix(0, 0).Add(u.at)
	f.names, f.keys = f.names[:0], f.keys[:0]
	for _, id := range u.ids {
		name := nameOf(id)
		f.names, f.keys = append(f.names, name), append(f.keys, name.Key())
	}
}

func (f *fleet) closeMinute() {
	if mean := mean(f.window); mean > 0 {
		f.ratios = append(f.ratios, slices.Max(f.window)/mean)
	}
	clear(f.window)
}

func mean(values []float64) (sum float64) {
	for _, v := range values {
		sum += v
	}
	return sum / float64(len(values))
}

// compute sends a request to a worker, which fetches blocks from others up to the given one. A
// prompt larger than its cache keeps its beginning.
func (f *fleet) compute(t testing.TB, w int, u *use, fetched int) {
	c, names := f.caches[w], f.names[:min(len(f.names), f.blocks)]
	tokens := len(names) * traceTokens
	var table kv.Table
	a, ok := c.Admit(&table, &kv.Claim{PromptTokens: tokens + 1, Hashes: names}, tokens, f.now)
	if !ok {
		t.Fatalf("%d blocks were refused by an idle cache", len(names))
	}
	for table.Sealed() < len(names) {
		if err := c.Seal(&table, names[table.Sealed()], nil); err != nil {
			t.Fatal(err)
		}
	}
	c.Release(&table, f.now)
	hits := a.HitTokens / traceTokens
	if more := fetched - hits; more > 0 {
		f.fetched += more
		hits += more
	}
	f.hits += hits
	f.asked += len(u.ids)
	uncached := float64(max(0, u.tokens-hits*traceTokens))
	f.total[w] += uncached
	f.window[w] += uncached
}

// tell gives the router the events of a worker.
func (f *fleet) tell(t testing.TB, w int) {
	events, ok := f.caches[w].EventsSince(f.seen[w])
	if !ok {
		t.Fatal("events were lost")
	}
	batch := kvindex.Batch{Seq: f.seen[w]}
	for e := range events {
		batch.Events = append(batch.Events, kvindex.Event{Kind: kvindex.Kind(e.Kind), Tier: kvindex.CacheTier(e.Tier),
			Keys: []parley.BlockKey{e.Hash.Key()}})
	}
	f.seen[w] = f.caches[w].Seq()
	x, number := f.router.Index(ID(w))
	batch.Seq = x.Stats(number).Batches
	x.Apply(number, batch)
}

// A result is what a policy gave.
type result struct{ hit, busiest, p95 float64 }

func (r result) String() string { return fmt.Sprintf("%.4f %.2f %.2f", r.hit, r.busiest, r.p95) }

func (f *fleet) result() result {
	f.closeMinute()
	slices.Sort(f.ratios)
	return result{
		hit: float64(f.hits) / float64(f.asked), busiest: slices.Max(f.total) / mean(f.total),
		p95: f.ratios[int(math.Ceil(0.95*float64(len(f.ratios))))-1],
	}
}

// simply replays a trace with a rule that only sees the load so far.
func simply(t testing.TB, uses []use, workers, tokens int, pick func(i int, f *fleet, u *use) int) result {
	f := newFleet(t, workers, tokens, kv.LRU)
	for i := range uses {
		f.arrive(&uses[i])
		f.compute(t, pick(i, f, &uses[i]), &uses[i], 0)
	}
	return f.result()
}

func roundRobin(i int, f *fleet, _ *use) int { return i % len(f.caches) }

func leastLoaded(_ int, f *fleet, _ *use) int { return slices.Index(f.total, slices.Min(f.total)) }

// consistentHash sends prompts with the same first 2,048 tokens to one worker.
func consistentHash(_ int, f *fleet, u *use) int {
	best, highest := 0, uint64(0)
	for w := range f.caches {
		if rank := rankOf(fmt.Sprint(u.ids[:min(len(u.ids), 4)]), fmt.Sprint(w)); rank > highest {
			best, highest = w, rank
		}
	}
	return best
}

// A replay is a trace on workers of a size that evict by a policy, and exchange blocks if
// they can.
type replay struct {
	uses            []use
	workers, tokens int
	policy          kv.Policy
	exchange        BlockExchange
	seed            uint64
}

// reuseEvery is how often a gateway gives workers what others have observed.
const reuseEvery = 10 * time.Second

// exchangeReuse gives all workers what the others have observed of how soon blocks are used again,
// as a gateway does.
func (f *fleet) exchangeReuse(t testing.TB) {
	all := make([]*kv.Reuse, len(f.caches))
	for w, c := range f.caches {
		data, err := c.Reuse().MarshalBinary()
		if err != nil {
			t.Fatal(err)
		}
		all[w] = new(kv.Reuse)
		if err := all[w].UnmarshalBinary(data); err != nil {
			t.Fatal(err)
		}
	}
	for w, c := range f.caches {
		c.LearnFrom(slices.Concat(all[:w], all[w+1:]))
	}
}

// run replays the trace with the router in its default settings, which knows
// the caches from their events.
func (r *replay) run(t testing.TB) result {
	f := newFleet(t, r.workers, r.tokens, r.policy)
	var err error
	if f.router, err = New(Config{Seed: r.seed}); err != nil {
		t.Fatal(err)
	}
	for w := range r.workers {
		id, err := f.router.Join(Member{Name: fmt.Sprint("w", w), BlockTokens: traceTokens,
			Source: kvindex.Source{Events: true}})
		if err != nil {
			t.Fatal(err)
		}
		f.router.Report(id, Status{Ready: true, Exchange: r.exchange})
		f.router.Prefilled(id, 0, 20_000, time.Second)
	}
	for pair := range r.workers * r.workers { // as measured
		from, to := ID(pair/r.workers), ID(pair%r.workers)
		f.router.link(from, to).learn(10e9, time.Second+latencyGuess, f.now)
	}
	var exchanged time.Time
	for i := range r.uses {
		u := &r.uses[i]
		f.arrive(u)
		if r.exchange.Gives && f.now.Sub(exchanged) >= reuseEvery {
			f.exchangeReuse(t)
			exchanged = f.now
		}
		q := Request{PromptTokens: u.tokens, Prompts: []Prompt{{traceTokens, f.keys}}}
		d, err := f.router.Pick(&q, f.now)
		if err != nil {
			t.Fatal(err)
		}
		fetched := 0
		if x := f.router.Fetch(&q, &d, f.now); x != nil {
			fetched = min(x.Tokens/traceTokens, f.caches[x.From].Known(f.names))
		}
		f.router.Sent(&q, &d, f.now)
		f.compute(t, int(d.Worker), u, fetched)
		f.tell(t, int(d.Worker))
		f.router.Computed(&d)
		f.router.Done(&d)
	}
	if f.fetched > 0 {
		t.Logf("  %d of %d blocks that were found were fetched", f.fetched, f.hits)
	}
	return f.result()
}

// mean replays the trace with several seeds, and returns the mean of the ratios and the worst
// balance.
func (r *replay) mean(t testing.TB) (all result) {
	for r.seed = range *traceSeeds {
		one := r.run(t)
		t.Logf("  seed %d: %v", r.seed, one)
		all.hit += one.hit / float64(*traceSeeds)
		all.busiest, all.p95 = max(all.busiest, one.busiest), max(all.p95, one.p95)
	}
	return all
}

// fleets are the sizes for which results are stated, with what a router must
// reach on the conversation trace.
var fleets = []struct {
	workers, tokens int
	bar             result
}{
	{8, 500_000, result{0.168, 1.10, 1.45}},
	{8, 1_000_000, result{0.252, 1.10, 1.45}},
	{10, 3_000_000, result{0.350, 1.10, 1.70}},
	{16, 500_000, result{0.252, 1.10, 2.00}},
}

// compareOn prints what the router gives on a trace and, where wanted or asked
// for with -v, simpler rules; best is what was found by those that balance.
func compareOn(t *testing.T, name string, uses []use, workers, tokens int, others bool) (own, best result) {
	own = (&replay{uses: uses, workers: workers, tokens: tokens, policy: kv.LRU}).run(t)
	t.Logf("%s, %2d x %3.1f M: hit ratio, busiest to mean over all, its 95th percentile over minutes: %v", name,
		workers, float64(tokens)/1e6, own)
	if others || testing.Verbose() {
		rr, least := simply(t, uses, workers, tokens, roundRobin), simply(t, uses, workers, tokens, leastLoaded)
		best = result{hit: max(rr.hit, least.hit), busiest: max(rr.busiest, least.busiest)}
		t.Logf("  round-robin %v, least loaded %v", rr, least)
	}
	if testing.Verbose() {
		t.Logf("  consistent hashing %v", simply(t, uses, workers, tokens, consistentHash))
	}
	return own, best
}

// TestConversationTrace holds the router, in one setting for all fleets,
// against the bars.
func TestConversationTrace(t *testing.T) {
	if underRace {
		t.Skip("minutes under the race detector, for one goroutine")
	}
	uses := readTrace(t, testkit.SharedData(t, "traces", "conversation_trace.jsonl.gz"))
	for _, f := range fleets {
		t.Run(fmt.Sprintf("%dx%d", f.workers, f.tokens), func(t *testing.T) {
			t.Parallel()
			if got, _ := compareOn(t, "conversation trace", uses, f.workers, f.tokens, false); got.hit < f.bar.hit ||
				got.busiest > f.bar.busiest || got.p95 > f.bar.p95 {
				t.Errorf("%v, want at least %v", got, f.bar)
			}
		})
	}
}

// TestConversationTraceWithTransfers lets workers fetch what others hold, where the router
// finds that faster than computing it, and learn from what others have observed, beside workers
// that do neither and one cache of the same size. Blocks are evicted as engines do. Speeds and
// sizes are those of a model with 8 billion parameters and a network of 80 Gbit/s.
func TestConversationTraceWithTransfers(t *testing.T) {
	if underRace {
		t.Skip("minutes under the race detector, for one goroutine")
	}
	uses := readTrace(t, testkit.SharedData(t, "traces", "conversation_trace.jsonl.gz"))
	own := replay{uses: uses, workers: 8, tokens: 1_000_000, policy: kv.Learned}
	without := own.mean(t)
	own.exchange = BlockExchange{
		Format:     "f",
		BlockBytes: traceTokens * 128 << 10,
		Gives:      true,
	}
	with := own.mean(t)
	t.Logf("conversation trace, 8 x 1.0 M: hit ratio, busiest to mean over all, its 95th percentile over minutes: "+
		"%v, without transfers %v, bar %.4f", with, without, *transferBar)
	if testing.Verbose() {
		pooled := replay{uses: uses, workers: 1, tokens: 8_000_000, policy: kv.Learned}
		t.Logf("  one cache of 8 M: %v", pooled.run(t))
	}
	if with.hit < *transferBar || with.hit < without.hit-0.001 || with.busiest > 1.10 {
		t.Errorf("%v, want at least %.4f and no less than without transfers, at a balance of 1.10", with, *transferBar)
	}
}

// TestOtherSharing compares the router with rules that only balance, on traces
// that share otherwise, so that the settings do not only fit one: it never finds
// less than they do, and is as even.
func TestOtherSharing(t *testing.T) {
	if underRace {
		t.Skip("minutes under the race detector, for one goroutine")
	}
	for _, row := range []struct {
		name string
		sharing
	}{
		{"200 tenants with system prompts of their own", sharing{200, 1, 8, 2, 3, 3.4}},
		{"50 tenants, some very large", sharing{50, 1.3, 20, 4, 4, 4}},
		{"4 very hot prefixes", sharing{4, 0.5, 40, 1, 1, 6}},
		{"one prefix for all", sharing{1, 0, 40, 2, 2, 6}},
		{"nothing shared", sharing{3000, 0, 8, 8, 1, 4}},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			uses := row.generate(6000)
			for _, f := range []int{0, 2} {
				own, best := compareOn(t, row.name, uses, fleets[f].workers, fleets[f].tokens, true)
				if own.hit < best.hit-0.005 || own.busiest > 1.15 {
					t.Errorf("%v, want at least what balancing alone finds: %v", own, best)
				}
			}
		})
	}
}

// TestTraceOfYours replays the trace that the flag names.
func TestTraceOfYours(t *testing.T) {
	if *otherTrace == "" {
		t.Skip("needs -replay FILE: it is for traces of your own")
	}
	uses := readTrace(t, *otherTrace)
	for _, f := range fleets {
		compareOn(t, *otherTrace, uses, f.workers, f.tokens, true)
	}
}
