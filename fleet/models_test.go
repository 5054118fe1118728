package fleet

import (
	"context"
	"iter"
	"slices"
	"testing"
	"testing/synctest"

	"parley"
	"parley/route/kvindex"
)

// A several is a worker with a model and an adapter of it.
type several struct{}

func (several) Models() []parley.Model {
	return []parley.Model{{ID: modelID, ContextTokens: 4096}, {ID: "adapter", ContextTokens: 4096}}
}

func (several) Generate(context.Context, *parley.Request) iter.Seq2[parley.Delta, error] {
	return func(func(parley.Delta, error) bool) {}
}

// TestModelsOfOneWorkerAreToldApart publishes blocks of the same tokens for a model
// and its adapter: each is known to hold its own, as long as it does.
func TestModelsOfOneWorkerAreToldApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tokens := make([]parley.Token, 64)
		keys := parley.AppendBlockKeys(nil, 0, parley.Salt{}, tokens, 16)
		stored := func(model string, first uint64, blocks int) kvindex.Event {
			e := kvindex.Event{Model: model, First: true, Tokens: tokens[:16*blocks], BlockTokens: 16}
			for i := range blocks {
				e.Engine = append(e.Engine, first+uint64(i))
			}
			return e
		}
		var feed *Feed
		f := newFleet(t, Config{}, Member{
			Name: "w", Pool: "default", Worker: several{}, BlockTokens: 16, CapacityTokens: 4096,
			SourceOf: func(model string) kvindex.Source {
				s := kvindex.Source{Events: true, Snapshot: true, Models: []string{model}}
				if model == modelID {
					s.Models = append(s.Models, "")
				}
				return s
			},
			Follow: func(ctx context.Context, to *Feed) error { feed = to; <-ctx.Done(); return ctx.Err() },
		})
		synctest.Wait()
		want := func(when string, base, adapter int32) {
			t.Helper()
			for i, blocks := range []int32{base, adapter} {
				var m kvindex.Matches
				index, number := f.router.Index(f.members[0].replicas[i].id)
				index.Lookup(keys, &m)
				stats := index.Stats(number)
				if got := m.Of(number).Blocks; got != blocks || stats.State != kvindex.Exact || stats.Unplaced != 0 {
					t.Errorf("%s: model %d holds %d blocks, want %d: %+v", when, i, got, blocks, stats)
				}
			}
		}
		feed.Apply(kvindex.Batch{Events: []kvindex.Event{stored("", 10, 3), stored("adapter", 20, 2),
			stored("unknown", 30, 4)}})
		want("stored", 3, 2)
		feed.Apply(kvindex.Batch{Seq: 1, Events: []kvindex.Event{{Kind: kvindex.Removed, Engine: []uint64{21, 12}}}})
		want("one of each removed", 2, 1)
		if ask := feed.Apply(kvindex.Batch{Seq: 3}); ask != (kvindex.Ask{Snapshot: true}) {
			t.Errorf("after a gap the worker is asked for %s", ask)
		}
		feed.Restore(3, slices.Values([]kvindex.Event{stored("", 10, 1), stored("adapter", 20, 4)}))
		want("restored", 1, 4)
		feed.Apply(kvindex.Batch{Seq: 4, Events: []kvindex.Event{{Kind: kvindex.Cleared}}})
		want("cleared", 0, 0)
	})
}
