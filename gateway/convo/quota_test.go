package convo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"parley"
	"parley/gateway/db"
)

// stored adds up what is in the tables themselves.
func stored(t *testing.T, s *Store) (sums map[Owner]Usage) {
	t.Helper()
	sums = map[Owner]Usage{}
	d := s
	check(t, d.read(t.Context(), func(tx *transaction) error {
		type row struct {
			Owner
			Usage
		}
		rows, err := all(tx, func(r db.Row, v *row) error {
			return r.Scan(&v.Tenant, &v.User, &v.Conversations, &v.Responses, &v.Bytes)
		},
			`SELECT tenant, user_id, 1, 0, bytes FROM conversations UNION ALL SELECT tenant, user_id, 0, 1, bytes FROM responses`)
		for _, v := range rows {
			u := sums[v.Owner]
			sums[v.Owner] = Usage{u.Conversations + v.Conversations, u.Responses + v.Responses, u.Bytes + v.Bytes}
		}
		return err
	}))
	return sums
}

// TestUsageDoesNotDrift does all that changes what is stored, and compares the
// counters with the tables after every step.
func TestUsageDoesNotDrift(t *testing.T) {
	onBoth(t, func(t *testing.T, dsn string) {
		s, ctx := opened(t, dsn), t.Context()
		check(t, s.Heartbeat(ctx, "here", at(1000)))
		bob := Owner{Tenant: "acme", User: "bob"}
		same := func(step string) {
			t.Helper()
			for owner, want := range stored(t, s) {
				if _, user, err := s.Usage(ctx, owner); err != nil || user != want {
					t.Errorf("after %s %v has %+v, and is said to have %+v (%v)", step, owner, want, user, err)
				}
			}
		}
		c := must(s.CreateConversation(ctx, ann,
			NewConversation{Messages: []NewMessage{{Role: "user", Content: said("hello")}}}, at(0)))(t)
		same("creating")
		turn := must(s.BeginTurn(ctx, ann, c.ID, asked("why"), at(1)))(t)
		check(t, s.Checkpoint(ctx, ann, turn.ID(), said("because")))
		must(s.FinishTurn(ctx, ann, turn.ID(), Outcome{Status: Completed, Content: said("because of it")}, at(2)))(t)
		same("a turn")
		check(t, s.DeleteMessage(ctx, ann, c.ID, turn.Question.ID, at(3)))
		same("deleting a message")
		archive := must(s.Export(ctx, ann, c.ID))(t)
		for range 20 {
			archive.Messages = append(archive.Messages, ArchivedMessage{ID: fmt.Sprint("m", len(archive.Messages)),
				Role: "user", Status: Completed, Content: said(strings.Repeat("large ", 50_000))})
		}
		must(s.Import(ctx, bob, archive, at(4)))(t)
		same("importing")
		r := must(s.CreateResponse(ctx, bob, NewResponse{Request: json.RawMessage(`{}`), Process: "here",
			Input: []Item{{Content: said("hi")}}}, at(5)))(t)
		must(s.AppendEvents(ctx, bob, r.ID, EventBatch{Process: "here", Events: events(0, 3)}))(t)
		same("a response")
		check(t, s.DeleteResponse(ctx, bob, r.ID))
		check(t, s.DeleteConversation(ctx, ann, c.ID, at(6)))
		same("deleting")
		check(t, s.Purge(ctx, at(6).Add(48*time.Hour), Retention{}))
		same("purging")
		organization, user, err := s.Usage(ctx, ann)
		if err != nil || user != (Usage{}) || organization.Conversations != 1 || organization.Bytes < 20*300_000 {
			t.Errorf("ann stores %+v, acme %+v (%v)", user, organization, err)
		}
	})
}

// TestQuotas stores until the quota of a tenant, or of one of its users, is used up.
// Deleting frees room, and other tenants and users keep theirs.
func TestQuotas(t *testing.T) {
	onBoth(t, func(t *testing.T, dsn string) {
		all, ctx := opened(t, dsn), t.Context()
		check(t, all.Heartbeat(ctx, "here", at(1000)))
		s := all.Within(Quota{Conversations: 3, UserConversations: 2, Bytes: 100_000})
		bob, eve := Owner{Tenant: "acme", User: "bob"}, Owner{Tenant: "other", User: "eve"}
		refused := func(err error, parts ...string) {
			t.Helper()
			if parley.CodeOf(err) != parley.QuotaExceeded {
				t.Errorf("got %v", err)
				return
			}
			for _, part := range parts {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("it does not say %q: %v", part, err)
				}
			}
		}
		first := must(s.CreateConversation(ctx, ann, NewConversation{Key: "k"}, at(0)))(t)
		must(s.CreateConversation(ctx, ann, NewConversation{}, at(0)))(t)
		_, err := s.CreateConversation(ctx, ann, NewConversation{}, at(0))
		refused(err, "You may store 2 conversations, and 2 are stored", "DELETE /v1/conversations/{id}")
		must(s.CreateConversation(ctx, bob, NewConversation{}, at(0)))(t)
		_, err = s.CreateConversation(ctx, bob, NewConversation{}, at(0))
		refused(err, "Your organisation may store 3 conversations, and 3 are stored")
		must(s.CreateConversation(ctx, eve, NewConversation{}, at(0)))(t)
		if again := must(s.CreateConversation(ctx, ann, NewConversation{Key: "k"}, at(0)))(t); again.ID != first.ID {
			t.Error("a repeated call is another conversation")
		}
		check(t, s.DeleteConversation(ctx, ann, first.ID, at(1)))
		c := must(s.CreateConversation(ctx, ann, NewConversation{}, at(2)))(t)
		if _, err := s.UndeleteConversation(ctx, ann, first.ID); !errors.Is(err, ErrNotFound) {
			t.Errorf("what made room is restored: %v", err)
		}
		large := []NewMessage{{Role: "user", Content: said(strings.Repeat("x", 60_000))}}
		must(s.AppendMessages(ctx, ann, c.ID, "", large, at(3)))(t)
		_, err = s.AppendMessages(ctx, ann, c.ID, "", large, at(3))
		refused(err, "may store 100000 bytes", "are stored, and this needs 600")
		_, err = s.BeginTurn(ctx, ann, c.ID, asked(strings.Repeat("x", 60_000)), at(3))
		refused(err)
		_, err = s.CreateResponse(ctx, bob, NewResponse{Request: json.RawMessage(`{}`), Process: "here",
			Input: []Item{{Content: large[0].Content}}}, at(3))
		refused(err)
		archive := must(s.Export(ctx, ann, c.ID))(t)
		_, err = s.Import(ctx, eve, archive, at(4))
		check(t, err)
		_, err = s.Import(ctx, eve, archive, at(4))
		refused(err, "bytes")
	})
}

// TestQuotasOfManyWriters has two gateways store at the same time, each with many
// clients that all find room when they begin: together they store what the quota has
// room for, and no more.
func TestQuotasOfManyWriters(t *testing.T) {
	onBoth(t, func(t *testing.T, dsn string) {
		gateways := []*Store{opened(t, dsn), opened(t, dsn)}
		ctx := t.Context()
		check(t, gateways[0].Heartbeat(ctx, "here", at(1000)))
		text := func(bytes int) []NewMessage {
			return []NewMessage{{Role: "user", Content: said(strings.Repeat("word ", bytes/5))}}
		}
		home := must(gateways[0].CreateConversation(ctx, ann, NewConversation{}, at(0)))(t)
		size := func(bytes int) int64 { return int64(sizeOf(text(bytes))) }
		for _, c := range []struct {
			what  string
			quota Quota
			room  int // for how many writes there is room
			write func(s *Store, i int) error
		}{
			{"conversations", Quota{Conversations: 6}, 5, func(s *Store, _ int) error {
				_, err := s.CreateConversation(ctx, ann, NewConversation{}, at(1))
				return err
			}},
			{"conversations of a user", Quota{UserConversations: 8}, 2, func(s *Store, _ int) error {
				_, err := s.CreateConversation(ctx, ann, NewConversation{}, at(1))
				return err
			}},
			{"large conversations", Quota{Bytes: 3*size(2<<20) + 1000}, 3, func(s *Store, _ int) error {
				_, err := s.CreateConversation(ctx, ann, NewConversation{Messages: append(text(1<<20), text(1<<20)...)},
					at(2))
				return err
			}},
			{"messages", Quota{Bytes: 3*size(2<<20) + 1000 + 4*size(100_000)}, 4, func(s *Store, _ int) error {
				_, err := s.AppendMessages(ctx, ann, home.ID, "", text(100_000), at(3))
				return err
			}},
			{"responses", Quota{UserBytes: 3*size(2<<20) + 1000 + 9*size(100_000)}, 5, func(s *Store, i int) error {
				_, err := s.CreateResponse(ctx, ann, NewResponse{Request: json.RawMessage(`{}`), Process: "here",
					Key: fmt.Sprint(i), Input: []Item{{Content: text(100_000)[0].Content}}}, at(4))
				return err
			}},
		} {
			var mu sync.Mutex
			stored := 0
			var writers sync.WaitGroup
			for i := range 16 {
				writers.Go(func() {
					switch err := c.write(gateways[i%2].Within(c.quota), i); {
					case err == nil:
						mu.Lock()
						stored++
						mu.Unlock()
					case parley.CodeOf(err) != parley.QuotaExceeded:
						t.Errorf("%s: %v", c.what, err)
					}
				})
			}
			writers.Wait()
			if stored != c.room {
				t.Errorf("%s: %d of 16 were stored, and there is room for %d", c.what, stored, c.room)
			}
		}
	})
}

// TestInterruptedImport ends an import between two of its pieces, once as its client
// does and once as a crash does: nothing of it is seen, and Purge removes the rest.
func TestInterruptedImport(t *testing.T) {
	onBoth(t, func(t *testing.T, dsn string) {
		s := opened(t, dsn)
		d := s
		messages := make([]Message, 8)
		for i := range messages {
			messages[i] = newMessage(&NewMessage{Role: "user", Content: said(strings.Repeat("needle ", 100_000))}, "",
				at(0))
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancelled := func(*Conversation) { cancel() }
		if _, err := d.load(ctx, ann, NewConversation{Title: "haystack"}, messages, cancelled, at(0)); err == nil {
			t.Fatal("an import without a client went on to the end")
		}
		invisible(t, s)
		if left := stored(t, s); len(left) != 0 {
			t.Errorf("the client left, and there is %+v", left)
		}
		// A crash leaves what was committed.
		var c Conversation
		check(t, d.write(t.Context(), func(tx *transaction) (err error) {
			if c, _, err = tx.makeConversation(ann, &NewConversation{Title: "haystack"}, &Quota{}, 0,
				at(0)); err != nil {
				return err
			}
			_, err = tx.exec(`UPDATE conversations SET deleted = $2 WHERE id = $1`, c.ID, -db.Stamp(at(0)))
			return err
		}))
		check(t, d.loadMessages(t.Context(), ann, &c, -db.Stamp(at(0)), messages, at(0)))
		invisible(t, s)
		check(t, s.Purge(t.Context(), at(60), Retention{}))
		if left := stored(t, s); left[ann].Conversations != 1 {
			t.Errorf("an import that may still be under way was removed: %+v", left)
		}
		check(t, s.Purge(t.Context(), at(3600), Retention{}))
		if left := stored(t, s); len(left) != 0 {
			t.Errorf("after an hour there is %+v", left)
		}
	})
}

// invisible wants that ann has nothing.
func invisible(t *testing.T, s *Store) {
	t.Helper()
	list := must(s.Conversations(t.Context(), ann, Filter{}, Page{}))(t)
	hits := must(s.Search(t.Context(), ann, "needle", Page{}))(t)
	titles := must(s.Search(t.Context(), ann, "haystack", Page{}))(t)
	if len(list.Items)+len(hits.Items)+len(titles.Items) != 0 {
		t.Errorf("half an import is seen: %+v %+v %+v", list, hits, titles)
	}
}

// TestRetention removes conversations that nothing has changed for long, if that is
// asked for.
func TestRetention(t *testing.T) {
	onBoth(t, func(t *testing.T, dsn string) {
		s, ctx := opened(t, dsn), t.Context()
		old := must(s.CreateConversation(ctx, ann, NewConversation{Title: "old", Pinned: true}, at(0)))(t)
		recent := must(s.CreateConversation(ctx, ann, NewConversation{Title: "recent"}, at(7000)))(t)
		check(t, s.Purge(ctx, at(7200), Retention{}))
		must(s.Conversation(ctx, ann, old.ID))(t)
		check(t, s.Purge(ctx, at(7200), Retention{Conversations: time.Hour}))
		if _, err := s.Conversation(ctx, ann, old.ID); !errors.Is(err, ErrNotFound) {
			t.Errorf("a conversation older than an hour is there: %v", err)
		}
		must(s.Conversation(ctx, ann, recent.ID))(t)
	})
}

// TestSmallWritesPassPieces has a large conversation wait for its next piece, as
// behind those of others: what it has written so far keeps no small write waiting.
func TestSmallWritesPassPieces(t *testing.T) {
	onBoth(t, func(t *testing.T, dsn string) {
		s, ctx := opened(t, dsn), t.Context()
		d := s
		var large []NewMessage
		for range 3 {
			large = append(large, NewMessage{Role: "user", Content: said(strings.Repeat("x", pieceBytes))})
		}
		done := make(chan error)
		d.pieces <- struct{}{} // another client's piece
		go func() {
			_, err := s.CreateConversation(ctx, Owner{Tenant: "flood"}, NewConversation{Messages: large}, at(0))
			done <- err
		}()
		for stored(t, s)[Owner{Tenant: "flood"}].Conversations == 0 {
			time.Sleep(time.Millisecond)
		}
		for range 3 {
			must(s.CreateConversation(ctx, ann, NewConversation{Title: "small"}, at(0)))(t)
		}
		select {
		case err := <-done:
			t.Fatalf("it did not wait: %v", err)
		default:
		}
		<-d.pieces
		check(t, <-done)
	})
}
