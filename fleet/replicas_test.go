package fleet

import (
	"context"
	"encoding/json"
	"iter"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"parley"
	"parley/fleet/discover"
	"parley/route"
	"parley/route/kvindex"
	"parley/worker"
)

// A turncoat is a worker that may be started again with other models. It answers
// for those that it has, and says them when it is probed.
type turncoat struct {
	*frail
	has  atomic.Pointer[[]string]
	mute atomic.Bool // it is not probed
}

func newTurncoat(t *testing.T, models ...string) *turncoat {
	w := &turncoat{frail: newFrail(newOracle(t, time.Millisecond))}
	w.has.Store(&models)
	return w
}

func (w *turncoat) Models() (models []parley.Model) {
	for _, id := range *w.has.Load() {
		models = append(models, parley.Model{ID: id, ContextTokens: room})
	}
	return models
}

func (w *turncoat) Generate(ctx context.Context, r *parley.Request) iter.Seq2[parley.Delta, error] {
	if !slices.Contains(*w.has.Load(), r.Model) {
		w.asked.Add(1)
		return func(yield func(parley.Delta, error) bool) {
			yield(parley.Delta{}, parley.Errorf(parley.NotFound, "this worker has no model %s", r.Model))
		}
	}
	return w.frail.Generate(ctx, r)
}

func (w *turncoat) member(name string) Member {
	m := joiner(name, w.frail)
	m.Worker = w
	m.Probe = func(ctx context.Context) (Condition, error) {
		if w.mute.Load() {
			<-ctx.Done()
			return Condition{}, ctx.Err()
		}
		return Condition{Models: w.Models()}, nil
	}
	return m
}

// turning is a fleet of two models whose workers both have the first.
func turning(t *testing.T) (*Fleet, [2]*turncoat) {
	a, b := newTurncoat(t, modelID), newTurncoat(t, modelID)
	f := newFleet(t, Config{Models: []parley.Model{{ID: modelID, ContextTokens: room},
		{ID: "other", ContextTokens: room}}, SlowStart: -1}, a.member("a"), b.member("b"))
	time.Sleep(900 * time.Millisecond)
	return f, [2]*turncoat{a, b}
}

func askOther() *parley.Request {
	r := ask(5)
	r.Model = "other"
	return r
}

// modelsOf are the models that operators are shown of a worker.
func (f *Fleet) modelsOf(name string) []string {
	for _, s := range f.Standings() {
		if s.Name == name {
			return s.Models
		}
	}
	return nil
}

// TestAWorkerComesBackWithAnotherModel has a worker say that it has another model
// while it answers: its answers go on elsewhere, and it gets the work of the model
// that it has now. One that has a model more keeps what it has.
func TestAWorkerComesBackWithAnotherModel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, w := turning(t)
		want, _ := hear(t.Context(), newOracle(t, 0), ask(400))
		answers := make(chan []parley.Delta)
		for range 8 {
			go func() {
				got, err := hear(t.Context(), f, ask(400))
				if err != nil {
					t.Error(err)
				}
				answers <- got
			}()
		}
		time.Sleep(50 * time.Millisecond)
		if w[0].active.Load() == 0 || w[1].active.Load() == 0 {
			t.Fatal("one of them has nothing to do")
		}
		w[0].has.Store(&[]string{"other"})
		w[1].has.Store(&[]string{modelID, "more"})
		moves := 0
		for range 8 {
			got := <-answers
			if !reflect.DeepEqual(gather(ask(400), got), gather(ask(400), want)) {
				t.Error("an answer that moved is not what it would have been")
			}
			moves += got[len(got)-1].Usage.Routing.Moves
		}
		time.Sleep(time.Second)
		if s := f.Standings(); moves == 0 || s[1].Moved != 0 || s[0].State != Up || s[0].Lost != 0 {
			t.Errorf("%d moves: %+v", moves, s)
		}
		if a, b := f.modelsOf("a"), f.modelsOf("b"); !slices.Equal(a, []string{"other"}) ||
			!slices.Equal(b, []string{modelID, "more"}) {
			t.Errorf("they have the replicas of %v and %v", a, b)
		}
		was := w[0].asked.Load()
		for range 8 {
			if _, err := hear(t.Context(), f, ask(5)); err != nil {
				t.Error(err)
			}
		}
		if w[0].asked.Load() != was {
			t.Error("it was asked for the model that it no longer has")
		}
		if _, err := hear(t.Context(), f, askOther()); err != nil || w[0].asked.Load() != was+1 {
			t.Errorf("its present model: %v", err)
		}
		for _, m := range f.members {
			for _, s := range m.replicas {
				if d, err := f.router.Pick(&route.Request{Model: s.model, Pool: "default"}, time.Now()); err != nil ||
					d.Worker != s.id {
					t.Errorf("%s of %s: %v, %v", s.model, m.Name, d, err)
				}
			}
		}
	})
}

// TestAWorkerHasNotTheModel sends requests before a probe has told: another
// worker answers them. The client is told if there is none.
func TestAWorkerHasNotTheModel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, w := turning(t)
		w[0].mute.Store(true)
		w[0].has.Store(&[]string{"other"})
		for range 8 {
			if _, err := hear(t.Context(), f, ask(5)); err != nil {
				t.Error(err)
			}
		}
		if w[0].asked.Load() == 0 {
			t.Error("the one without the model was never asked")
		}
		if s := f.Standings()[0]; s.State != Up || s.Failed != 0 {
			t.Errorf("%+v", s)
		}
		w[1].mute.Store(true)
		w[1].has.Store(&[]string{"other"})
		if _, err := hear(t.Context(), f, ask(5)); parley.CodeOf(err) != parley.NotFound {
			t.Errorf("nobody has it: %v", err)
		}
	})
}

// TestEventsFollowTheModels has a worker with another model tell of its blocks: it is
// known to hold them for that one, and nothing of what it held before.
func TestEventsFollowTheModels(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var feed *Feed
		w := newTurncoat(t, modelID)
		m := w.member("a")
		m.Source = kvindex.Source{Events: true, Snapshot: true}
		m.Follow = func(ctx context.Context, to *Feed) error { feed = to; <-ctx.Done(); return ctx.Err() }
		f := newFleet(t, Config{}, m)
		time.Sleep(time.Second / 2)
		synctest.Wait()
		stored := kvindex.Event{First: true, Engine: []uint64{7}, Tokens: make([]parley.Token, 16), BlockTokens: 16}
		feed.Apply(kvindex.Batch{Events: []kvindex.Event{stored}})
		w.has.Store(&[]string{"other"})
		time.Sleep(time.Second)
		if s := f.Standings()[0]; s.Blocks != 0 {
			t.Errorf("another process holds %d blocks", s.Blocks)
		}
		feed.Apply(kvindex.Batch{Events: []kvindex.Event{stored}})
		if s := f.Standings()[0]; s.Blocks != 1 || s.Index != "exact" {
			t.Errorf("%d blocks are known: %s", s.Blocks, s.Index)
		}
		w.has.Store(&[]string{"other", "more"}) // whose blocks its events are about is not told
		time.Sleep(time.Second)
		feed.Apply(kvindex.Batch{Seq: 1, Events: []kvindex.Event{{Kind: kvindex.Cleared}, stored}})
		if s := f.Standings()[0]; s.Blocks != 0 {
			t.Errorf("%d blocks are believed to be of one of two models", s.Blocks)
		}
	})
}

// TestParleyKeyIsForParleyWorkers connects to a server that a list of workers names as one
// of another kind, or as none: it sees the key of its entry, and never the one that all
// Parley workers share.
func TestParleyKeyIsForParleyWorkers(t *testing.T) {
	var shown atomic.Value
	engine := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		shown.Store(r.Header.Get("Authorization"))
		_, _ = w.Write([]byte(`{"data":[{"id":"a"}]}`))
	}))
	defer engine.Close()
	for _, c := range []struct {
		kind worker.Kind
		key  string
		want string
	}{
		{worker.OpenAIChat, "", ""},
		{worker.OpenAIChat, "its own", "Bearer its own"},
		{"", "", "Bearer shared"},
	} {
		d := Dialer{Pool: "default", Worker: worker.Config{Key: c.key}, ParleyKey: "shared"}
		if m, err := d.Connect(t.Context(), discover.Address{URL: engine.URL, Kind: string(c.kind)}); err == nil {
			m.Close()
		}
		if shown.Load() != c.want {
			t.Errorf("a place of the kind %q whose entry has the key %q was shown %q", c.kind, c.key, shown.Load())
		}
	}
}

// TestProbesSayTheModels asks an engine elsewhere before and after it was started
// with another model.
func TestProbesSayTheModels(t *testing.T) {
	var model atomic.Value
	model.Store("first")
	engine := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = json.NewEncoder(w).Encode(map[string]any{"data": []map[string]any{{"id": model.Load()}}})
	}))
	defer engine.Close()
	m, err := Dialer{Pool: "default", Worker: worker.Config{Names: map[string]string{"ours": "second"}}}.Connect(
		t.Context(), discover.Address{URL: engine.URL, Kind: string(worker.OpenAIChat)})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	for _, row := range [][2]string{{"first", "first"}, {"second", "ours"}} {
		model.Store(row[0])
		c, err := m.Probe(t.Context())
		if err != nil || len(c.Models) != 1 || c.Models[0].ID != row[1] {
			t.Errorf("%s: %v, %v", row[0], c.Models, err)
		}
	}
}
