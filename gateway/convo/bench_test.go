package convo

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"parley/internal/stat"
)

// BenchmarkTurn measures one whole turn, begun and finished, each on the disk
// before it is acknowledged; of one caller and of many, each with their own
// conversation.
func BenchmarkTurn(b *testing.B) {
	for _, store := range []struct {
		name string
		dsn  func(testing.TB) string
	}{{"SQLite", sqliteDSN}, {"PostgreSQL", postgresDSN}} {
		b.Run(store.name+"/one", func(b *testing.B) {
			sc := newScene(b, opened(b, store.dsn(b)))
			for b.Loop() {
				benchTurn(b, sc)
			}
		})
		b.Run(store.name+"/sixteen", func(b *testing.B) {
			s := opened(b, store.dsn(b))
			newScene(b, s)
			b.SetParallelism(8)
			b.RunParallel(func(pb *testing.PB) {
				sc := &scene{s, must(s.CreateConversation(b.Context(), ann, NewConversation{}, at(0)))(b).ID}
				for pb.Next() {
					benchTurn(b, sc)
				}
			})
		})
	}
}

var benchKeys atomic.Int64

// conversationTurns is how many turns go into one conversation: a usual one.
const conversationTurns = 50

func benchTurn(b *testing.B, sc *scene) {
	n := asked("What is the capital of Switzerland, and why is it not Zürich?")
	key := benchKeys.Add(1)
	n.Key = fmt.Sprint(key)
	if key%conversationTurns == 0 {
		sc.id = must(sc.CreateConversation(b.Context(), ann, NewConversation{}, at(0)))(b).ID
	}
	turn, err := sc.BeginTurn(b.Context(), ann, sc.id, n, at(1))
	if err == nil {
		_, err = sc.FinishTurn(b.Context(), ann, turn.ID(),
			Outcome{Status: Completed, Content: said("There is none by law; the federal city is Bern.")}, at(2))
	}
	if err != nil {
		b.Error(err)
	}
}

// BenchmarkPath measures reading a conversation of 100 messages.
func BenchmarkPath(b *testing.B) {
	for _, store := range []struct {
		name string
		dsn  func(testing.TB) string
	}{{"SQLite", sqliteDSN}, {"PostgreSQL", postgresDSN}} {
		b.Run(store.name, func(b *testing.B) {
			sc := newScene(b, opened(b, store.dsn(b)))
			for i := range 50 {
				sc.turn(b, fmt.Sprint("question ", i), "answer", i)
			}
			for b.Loop() {
				if texts := sc.path(b, ""); len(texts) != 100 {
					b.Fatalf("%d messages", len(texts))
				}
			}
		})
	}
}

// neighbourWaitMax is what a small write may wait beside a flood of large ones, in
// milliseconds, at the 99th percentile.
const neighbourWaitMax = 250

// BenchmarkNeighbour measures a small write while four clients create conversations of
// 14 MB, one after the other. `make bench-store` fails if one in a hundred takes longer
// than users are promised.
func BenchmarkNeighbour(b *testing.B) {
	for _, store := range []struct {
		name string
		dsn  func(testing.TB) string
	}{{"SQLite", sqliteDSN}, {"PostgreSQL", postgresDSN}} {
		b.Run(store.name, func(b *testing.B) {
			s := opened(b, store.dsn(b))
			write := func() float64 {
				time.Sleep(10 * time.Millisecond)
				asked := time.Now()
				must(s.CreateConversation(b.Context(), ann, NewConversation{Title: "small",
					Messages: []NewMessage{{Role: "user", Content: said("hello")}}}, at(0)))(b)
				return time.Since(asked).Seconds() * 1e3
			}
			var alone, waits []float64
			for range 200 {
				alone = append(alone, write())
			}
			written, stop := benchFlood(b, s)
			defer stop()
			for b.Loop() {
				waits = append(waits, write())
			}
			slices.Sort(alone)
			slices.Sort(waits)
			p99 := waits[stat.Rank(0.99, len(waits))]
			b.ReportMetric(0, "ns/op") // the pauses are most of it
			b.ReportMetric(alone[stat.Rank(0.99, len(alone))], "ms-p99-alone")
			b.ReportMetric(stat.Median(waits), "ms-median")
			b.ReportMetric(p99, "ms-p99")
			b.ReportMetric(waits[len(waits)-1], "ms-longest")
			b.ReportMetric(float64(written.Load()), "flood-conversations")
			if len(waits) >= 100 && p99 > neighbourWaitMax {
				b.Errorf("p99 is %.0f ms, and may be %d", p99, neighbourWaitMax)
			}
		})
	}
}

// benchFlood has four clients create large conversations until stop is called, and
// counts them.
func benchFlood(b *testing.B, s *Store) (written *atomic.Int64, stop func()) {
	text := said(strings.Repeat("flood of words that are to be found ", 20_000))
	var large []NewMessage
	for range 20 {
		large = append(large, NewMessage{Role: "user", Content: text})
	}
	ctx, cancel := context.WithCancel(b.Context())
	written = &atomic.Int64{}
	var clients sync.WaitGroup
	for i := range 4 {
		clients.Go(func() {
			for ctx.Err() == nil {
				if _, err := s.CreateConversation(ctx, Owner{Tenant: "flood", User: fmt.Sprint(i)},
					NewConversation{Messages: large}, at(0)); err == nil {
					written.Add(1)
				} else if ctx.Err() == nil {
					b.Error(err)
					return
				}
			}
		})
	}
	return written, func() { cancel(); clients.Wait() }
}
