package convo

import (
	"fmt"
	"sync/atomic"
	"testing"
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
