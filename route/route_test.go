package route

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"parley"
	"parley/route/kvindex"
)

func newRouter(t testing.TB, cfg Config) *Router {
	r, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func join(t testing.TB, r *Router, m Member, s Status) ID {
	id, err := r.Join(m)
	if err != nil {
		t.Fatal(err)
	}
	r.Report(id, s)
	return id
}

// TestPicksAreAllowed sends random requests to random workers that come, go
// and change. Nobody gets what it cannot take, bounds hold whenever somebody
// else could have taken it, and the counts of a decision add up.
func TestPicksAreAllowed(t *testing.T) {
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 3))
		r := newRouter(t, Config{Seed: seed})
		now := time.Unix(0, 0)
		var open []Decision
		picked, refused := 0, 0
		for range 2000 {
			now = now.Add(time.Duration(rng.IntN(2000)) * time.Millisecond)
			switch n := len(r.present()); {
			case n < 2 || n < 12 && rng.IntN(50) == 0:
				join(t, r, randomMember(rng), Status{Ready: true})
			case rng.IntN(80) == 0:
				r.Leave(r.present()[rng.IntN(n)])
			case rng.IntN(4) == 0:
				r.Report(r.present()[rng.IntN(n)], randomStatus(rng))
			}
			q := randomRequest(rng, r)
			d, err := r.Pick(&q, now)
			if err != nil {
				refused++
				checkRefusal(t, r, &q, err)
				continue
			}
			picked++
			checkDecision(t, r, &q, &d)
			r.Sent(&q, &d, now)
			if open = append(open, d); len(open) > 20 {
				r.Computed(&open[0])
				r.Done(&open[0])
				open = open[1:]
			}
		}
		if picked < 200 || refused < 20 {
			t.Errorf("seed %d: %d picked, %d refused", seed, picked, refused)
		}
	}
}

// present lists the workers that are there.
func (r *Router) present() (ids []ID) {
	for id, w := range r.workers {
		if w != nil {
			ids = append(ids, ID(id))
		}
	}
	return ids
}

func randomMember(rng *rand.Rand) Member {
	m := Member{
		Name: fmt.Sprint("w", rng.IntN(1000)), Model: []string{"big", "small"}[rng.IntN(2)],
		Pool:        []string{"chat", "code"}[rng.IntN(2)],
		BlockTokens: []int{0, 16, 16, 64}[rng.IntN(4)], Source: kvindex.Source{Events: rng.IntN(2) == 0},
	}
	if rng.IntN(4) > 0 {
		m.CapacityTokens = 4096 << rng.IntN(4)
	}
	return m
}

func randomStatus(rng *rand.Rand) Status {
	return Status{
		Ready: rng.IntN(8) > 0, UsedTokens: rng.IntN(20_000), WaitingTokens: rng.IntN(5000), Running: rng.IntN(50),
		Share: []float64{0, 0.1, 1}[rng.IntN(3)],
	}
}

func randomRequest(rng *rand.Rand, r *Router) Request {
	q := Request{
		Model: []string{"big", "small"}[rng.IntN(2)], Pool: []string{"chat", "code"}[rng.IntN(2)],
		PromptTokens: 1 + rng.IntN(6000), OutputTokens: 1 + rng.IntN(1000),
	}
	if rng.IntN(3) == 0 {
		q.Key = fmt.Sprint(rng.IntN(10))
	}
	tokens := make([]parley.Token, q.PromptTokens)
	tokens[0] = parley.Token(rng.IntN(5))
	if rng.IntN(4) > 0 {
		for _, size := range r.BlockSizes() {
			q.Prompts = append(q.Prompts, Prompt{size, parley.AppendBlockKeys(nil, 0, parley.Salt{}, tokens, size)})
		}
	}
	if ids := r.present(); rng.IntN(4) == 0 {
		q.Avoid = []ID{ids[rng.IntN(len(ids))]}
	}
	return q
}

// able lists the workers that can take a request, by the words of the rules.
func (r *Router) able(q *Request) (ids []ID) {
	for _, id := range r.present() {
		w := r.workers[id]
		fits := w.CapacityTokens == 0 || q.PromptTokens+q.OutputTokens+w.status.UsedTokens <= w.CapacityTokens
		if w.Model == q.Model && w.Pool == q.Pool && w.status.Ready && fits && !slices.Contains(q.Avoid, id) {
			ids = append(ids, id)
		}
	}
	return ids
}

func checkRefusal(t *testing.T, r *Router, q *Request, err error) {
	t.Helper()
	var none *NoWorker
	if able := r.able(q); !errors.As(err, &none) || len(able) > 0 {
		t.Fatalf("%v, but %v can take it", err, able)
	}
	sum := 0
	for _, n := range none.Refused {
		sum += n
	}
	if sum != len(r.present()) {
		t.Fatalf("%v of %d workers", none, len(r.present()))
	}
}

func checkDecision(t *testing.T, r *Router, q *Request, d *Decision) {
	t.Helper()
	able := r.able(q)
	if !slices.Contains(able, d.Worker) || d.Able != len(able) {
		t.Fatalf("%v: %v can take it", d, able)
	}
	sum := d.Able
	for reason, n := range d.Refused {
		if Reason(reason) < Busy {
			sum += n
		}
	}
	if sum != len(r.present()) || d.Cached+d.Uncached != q.PromptTokens || d.Expected > d.Cached {
		t.Fatalf("%v: the counts do not add up", d)
	}
	w := r.workers[d.Worker]
	if w.memory() > r.cfg.HighWatermark && slices.ContainsFunc(able, func(id ID) bool {
		return r.workers[id].memory() <= r.cfg.HighWatermark
	}) {
		t.Fatalf("%v is over the watermark, others are not", d)
	}
}

// TestLoadBound: whatever is asked for, no worker has more than its bound, but
// for one request's own work.
func TestLoadBound(t *testing.T) {
	for seed := range uint64(6) {
		rng := rand.New(rand.NewPCG(seed, 4))
		r := newRouter(t, Config{Seed: seed, SlackTokens: 1})
		n := 2 + rng.IntN(20)
		for i := range n {
			join(t, r, Member{Name: fmt.Sprint(i), BlockTokens: 16}, Status{Ready: true})
		}
		hot := make([]parley.Token, 20_000)
		now := time.Unix(0, 0)
		for i := range 1000 {
			now = now.Add(time.Duration(rng.IntN(300)) * time.Millisecond)
			tail := 1 + rng.IntN(3000)
			hot[len(hot)-tail] = parley.Token(i)
			q := Request{PromptTokens: len(hot), Key: "hot"}
			if seed%2 == 0 {
				q.Prompts = []Prompt{{16, parley.AppendBlockKeys(nil, 0, parley.Salt{}, hot, 16)}}
			}
			d, err := r.Pick(&q, now)
			if err != nil {
				t.Fatal(err)
			}
			r.Sent(&q, &d, now)
			r.Computed(&d)
			r.Done(&d)
			work, share := r.means()
			for _, w := range r.workers {
				if own := float64(len(hot)); w.work > r.cfg.BurstBound*work+own ||
					w.share > r.cfg.ShareBound*share+own {
					t.Fatalf("seed %d, request %d: a worker has %.0f and %.0f, the mean is %.0f and %.0f", seed, i,
						w.work, w.share, work, share)
				}
			}
		}
	}
}

// TestOneTenantsShortPrompts sends many short requests of one tenant that all run at
// once: no worker has more than a quarter above the mean, whether it is known that
// nobody can hold anything of them or nothing is known at all.
func TestOneTenantsShortPrompts(t *testing.T) {
	for _, blockTokens := range []int{16, 0} {
		r := newRouter(t, Config{Seed: 1})
		const workers, each = 6, 40
		for i := range workers {
			join(t, r, Member{Name: fmt.Sprint("w", i), BlockTokens: blockTokens}, Status{Ready: true})
		}
		counts := make([]int, workers)
		for range workers * each {
			q := Request{PromptTokens: 14, OutputTokens: 500, Key: "tenant"}
			d, err := r.Pick(&q, time.Unix(0, 0))
			if err != nil {
				t.Fatal(err)
			}
			if (d.How == ByKey) != (blockTokens == 0) {
				t.Fatalf("blocks of %d: %v", blockTokens, d)
			}
			r.Sent(&q, &d, time.Unix(0, 0))
			counts[d.Worker]++
		}
		if slices.Max(counts) > each*5/4+1 {
			t.Errorf("blocks of %d: %d requests are spread as %v", blockTokens, workers*each, counts)
		}
	}
}

// TestKeysMoveLittle: when a worker goes, only its own keys move.
func TestKeysMoveLittle(t *testing.T) {
	r := newRouter(t, Config{BurstBound: 1e6, ShareBound: 1e6})
	for i := range 10 {
		join(t, r, Member{Name: fmt.Sprint("w", i)}, Status{Ready: true})
	}
	where := func(key int) ID {
		d, err := r.Pick(&Request{Key: fmt.Sprint(key), PromptTokens: 10}, time.Unix(0, 0))
		if err != nil || d.How != ByKey {
			t.Fatal(d, err)
		}
		return d.Worker
	}
	var before []ID
	counts := make([]int, 10)
	for key := range 2000 {
		before = append(before, where(key))
		counts[before[key]]++
	}
	if slices.Min(counts) < 140 || slices.Max(counts) > 260 {
		t.Errorf("2000 keys are spread as %v", counts)
	}
	r.Leave(3)
	for key, was := range before {
		if is := where(key); was != 3 && is != was {
			t.Fatalf("key %d moved from %d to %d", key, was, is)
		}
	}
}

// TestSameSeedSameDecisions: nothing but the seed and the calls matters.
func TestSameSeedSameDecisions(t *testing.T) {
	run := func() string {
		r := newRouter(t, Config{Seed: 5})
		for i := range 8 {
			join(t, r, Member{Name: fmt.Sprint("w", i), BlockTokens: 16}, Status{Ready: true})
		}
		rng := rand.New(rand.NewPCG(1, 1))
		var out strings.Builder
		for i := range 300 {
			q := randomRequest(rng, r)
			q.Model, q.Pool, q.Avoid = "", "", nil
			now := time.Unix(int64(i), 0)
			d, err := r.Pick(&q, now)
			if err != nil {
				t.Fatal(err)
			}
			r.Sent(&q, &d, now)
			fmt.Fprintln(&out, d)
		}
		return out.String()
	}
	if a, b := run(), run(); a != b || !strings.Contains(a, "by tie") {
		t.Error("two runs differ, or there was no tie")
	}
}

func TestConfigIsChecked(t *testing.T) {
	for _, cfg := range []Config{{WorkWeight: -1}, {BurstBound: 1}, {ShareBound: 0.5}, {WorkHalf: -1},
		{HighWatermark: 2}, {TieTokens: -1}} {
		if _, err := New(cfg); err == nil {
			t.Errorf("%+v was accepted", cfg)
		}
	}
}

// TestWhatWasGivenBackIsNotExpected sends two prompts with a common beginning, of which the worker gives the second
// back: the blocks of the first are expected, those of the second alone are not.
func TestWhatWasGivenBackIsNotExpected(t *testing.T) {
	r := newRouter(t, Config{})
	w := join(t, r, Member{
		Name:        "w",
		Model:       "m",
		BlockTokens: 16,
		Source:      kvindex.Source{Events: true, Replay: true, CapacityBlocks: 1 << 10},
	}, Status{Ready: true})
	now := time.Unix(0, 0)
	ask := func(tokens int) *Request {
		prompt := make([]parley.Token, tokens)
		keys := parley.AppendBlockKeys(nil, 0, parley.Salt{}, prompt, 16)
		return &Request{Model: "m", PromptTokens: tokens, OutputTokens: 16, Prompts: []Prompt{{16, keys}}}
	}
	send := func(q *Request) *Decision {
		d, err := r.Pick(q, now)
		if err != nil || d.Worker != w {
			t.Fatal(d, err)
		}
		r.Sent(q, &d, now)
		return &d
	}
	expected := func(q *Request) int {
		d, err := r.Pick(q, now)
		if err != nil {
			t.Fatal(err)
		}
		return d.Expected
	}
	short, long := ask(160), ask(320)
	send(short)
	now = now.Add(time.Millisecond)
	back := send(long)
	if n := expected(long); n != 320 {
		t.Fatalf("%d tokens are expected, want 320", n)
	}
	r.Unsent(long, back)
	if n := expected(long); n != 160 {
		t.Errorf("%d tokens are expected, want the 160 of the first prompt", n)
	}
	r.Unsent(long, back) // nothing else is lost
	if n := expected(long); n != 160 {
		t.Errorf("%d tokens are expected, want the 160 of the first prompt", n)
	}
	again := send(long)
	now = now.Add(time.Millisecond)
	send(long)
	r.Unsent(long, again)
	if n := expected(long); n != 320 {
		t.Errorf("%d tokens are expected, want the 320 that were sent again", n)
	}
}

// BenchmarkPick is one decision over 100 workers, for a prompt of 3,000 tokens
// of which 64 blocks are held by all.
func BenchmarkPick(b *testing.B) {
	r := newRouter(b, Config{})
	tokens := make([]parley.Token, 3000)
	names := parley.AppendBlockKeys(nil, 0, parley.Salt{}, tokens, 16)
	for i := range 100 {
		id := join(b, r, Member{Name: fmt.Sprint("w", i), BlockTokens: 16, Source: kvindex.Source{Events: true}},
			Status{Ready: true})
		x, w := r.Index(id)
		x.Apply(w, kvindex.Batch{Events: []kvindex.Event{{Keys: names[:64]}}})
	}
	q := Request{PromptTokens: len(tokens), Prompts: []Prompt{{16, names}}}
	now := time.Unix(0, 0)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := r.Pick(&q, now); err != nil {
			b.Fatal(err)
		}
	}
}
