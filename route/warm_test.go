package route

import (
	"slices"
	"testing"
	"time"

	"parley"
	"parley/route/kvindex"
)

// A warmth is workers that hold prompts, and one that has just come.
type warmth struct {
	*Router
	old, other, fresh ID
	now               time.Time
}

func newWarmth(t *testing.T, capacity int) *warmth {
	t.Helper()
	w := &warmth{Router: newRouter(t, Config{}), now: time.Unix(1e6, 0)}
	can := BlockExchange{Format: "f", BlockBytes: 1 << 16, Gives: true}
	add := func(name string, s Status) ID {
		return join(t, w.Router, Member{
			Name:           name,
			Model:          "m",
			BlockTokens:    16,
			CapacityTokens: capacity,
			Source:         kvindex.Source{Events: true, Replay: true, CapacityBlocks: 1 << 16},
		}, s)
	}
	w.old, w.other = add("old", Status{Ready: true, Exchange: can}), add("other", Status{Ready: true, Exchange: can})
	w.Prefilled(w.old, 0, 4096, 8*time.Second)
	can.Gives = false
	w.fresh = add("fresh", Status{Exchange: can})
	return w
}

// keys returns those of a prompt: shared blocks that all have, and own ones.
func (w *warmth) keys(shared, own int, who parley.Token) []parley.BlockKey {
	tokens := make([]parley.Token, 16*(shared+own))
	for i := 16 * shared; i < len(tokens); i++ {
		tokens[i] = who
	}
	return parley.AppendBlockKeys(nil, 0, parley.Salt{}, tokens, 16)
}

func (w *warmth) hold(id ID, keys []parley.BlockKey) {
	index, number := w.Index(id)
	batches := index.Stats(number).Batches
	index.Apply(number, kvindex.Batch{Seq: batches, Events: []kvindex.Event{{Kind: kvindex.Stored, Keys: keys}}})
}

func (w *warmth) plan(within time.Duration, uses ...Use) []Warming {
	return w.WarmUp(w.fresh, uses, within, w.now)
}

// tokens returns what a plan fetches, from whom.
func tokensOf(plan []Warming) (more int, from []ID) {
	for _, p := range plan {
		more, from = more+p.More, append(from, p.From)
	}
	return more, from
}

func TestTheHottestPrefixesAreFetchedFirst(t *testing.T) {
	w := newWarmth(t, 1<<20)
	a, b, c := w.keys(20, 10, 1), w.keys(20, 30, 2), w.keys(20, 40, 3)
	w.hold(w.old, a)
	w.hold(w.old, b)
	w.hold(w.other, c)
	uses := []Use{{a, w.now.Add(-time.Hour)}, {b, w.now.Add(-time.Minute)}, {c, w.now.Add(-time.Second)}}
	plan := w.plan(time.Minute, uses...)
	more, from := tokensOf(plan)
	if len(plan) != 3 || plan[0].Use != 2 || plan[1].Use != 1 || plan[2].Use != 0 {
		t.Errorf("%+v", plan)
	}
	if want := 16 * (20 + 10 + 30 + 40); more != want || !slices.Equal(from, []ID{w.other, w.old, w.old}) {
		t.Errorf("%d tokens from %v, want %d: what prompts share comes once", more, from, want)
	}
	// One that is asked again and again counts more than one that was asked last.
	again := []Use{{b, w.now}, {a, w.now.Add(-time.Minute)}, {a, w.now.Add(-2 * time.Minute)}}
	if plan := w.plan(time.Minute, again...); len(plan) != 2 || plan[0].Use == 0 {
		t.Errorf("%+v", plan)
	}
}

func TestWarmUpIsBounded(t *testing.T) {
	small := newWarmth(t, 16*60)
	a, b := small.keys(20, 20, 1), small.keys(20, 20, 2)
	small.hold(small.old, a)
	small.hold(small.old, b)
	uses := []Use{{a, small.now}, {b, small.now.Add(-time.Minute)}}
	if more, _ := tokensOf(small.plan(time.Minute, uses...)); more != 16*30 {
		t.Errorf("%d tokens fill half of a memory of %d", more, 16*60)
	}
	w := newWarmth(t, 1<<20)
	w.hold(w.old, a)
	w.hold(w.old, b)
	if more, _ := tokensOf(w.plan(6*time.Millisecond, uses...)); more != 16*40 {
		t.Errorf("%d tokens in the time for one", more)
	}
	if plan := w.plan(time.Millisecond, uses...); len(plan) != 0 {
		t.Errorf("%+v in no time", plan)
	}
	for name, change := range map[string]func(w *warmth){
		"held already":           func(w *warmth) { w.hold(w.fresh, a); w.hold(w.fresh, b) },
		"no holder gives":        func(w *warmth) { w.workers[w.old].status.Exchange.Gives = false },
		"another format":         func(w *warmth) { w.workers[w.fresh].status.Exchange.Format = "g" },
		"another pool":           func(w *warmth) { w.workers[w.old].Pool = "elsewhere" },
		"blocks cannot move":     func(w *warmth) { w.workers[w.fresh].status.Exchange.Format = "" },
		"computing is faster":    func(w *warmth) { w.workers[w.old].pace.weight[1] = 1e-7 },
		"the way is broken":      func(w *warmth) { w.link(w.old, w.fresh).rests = w.now.Add(1) },
		"memory is not known":    func(w *warmth) { w.workers[w.fresh].CapacityTokens = 0 },
		"evicted since":          func(w *warmth) { w.Restarted(w.old) },
		"a draining one is fine": nil,
	} {
		w := newWarmth(t, 1<<20)
		w.hold(w.old, a)
		w.hold(w.old, b)
		w.workers[w.old].status.Ready = false
		if change != nil {
			change(w)
		}
		if plan := w.plan(time.Minute, uses...); (len(plan) == 0) != (change != nil) {
			t.Errorf("%s: %+v", name, plan)
		}
	}
}
