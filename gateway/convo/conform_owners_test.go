package convo

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"testing"
)

// A victim is what ann has and others reach for.
type victim struct {
	conversation, deleted string
	turn                  Turn
	running               AnswerID
	response              string
}

// reaches has, for every method of Store that takes an owner, calls by an
// owner who knows ids that are not theirs. Each must be told ErrNotFound.
var reaches = map[string]func(ctx context.Context, s *Store, o Owner, v *victim) []error{
	"Conversation": func(ctx context.Context, s *Store, o Owner, v *victim) []error {
		_, err := s.Conversation(ctx, o, v.conversation)
		return []error{err}
	},
	"ChangeConversation": func(ctx context.Context, s *Store, o Owner, v *victim) []error {
		_, err := s.ChangeConversation(ctx, o, v.conversation, Change{Title: new("stolen")}, at(5))
		return []error{err}
	},
	"DeleteConversation": func(ctx context.Context, s *Store, o Owner, v *victim) []error {
		return []error{s.DeleteConversation(ctx, o, v.conversation, at(5))}
	},
	"UndeleteConversation": func(ctx context.Context, s *Store, o Owner, v *victim) []error {
		_, err := s.UndeleteConversation(ctx, o, v.deleted)
		return []error{err}
	},
	"Export": func(ctx context.Context, s *Store, o Owner, v *victim) []error {
		_, err := s.Export(ctx, o, v.conversation)
		return []error{err}
	},
	"Messages": func(ctx context.Context, s *Store, o Owner, v *victim) []error {
		_, whole := s.Messages(ctx, o, v.conversation, "", Page{})
		_, leaf := s.Messages(ctx, o, v.conversation, v.turn.Answer.ID, Page{})
		return []error{whole, leaf}
	},
	"Message": func(ctx context.Context, s *Store, o Owner, v *victim) []error {
		_, err := s.Message(ctx, o, v.conversation, v.turn.Answer.ID)
		return []error{err}
	},
	"Tree": func(ctx context.Context, s *Store, o Owner, v *victim) []error {
		_, err := s.Tree(ctx, o, v.conversation)
		return []error{err}
	},
	"AppendMessages": func(ctx context.Context, s *Store, o Owner, v *victim) []error {
		_, err := s.AppendMessages(ctx, o, v.conversation, "", []NewMessage{{Content: said("graffiti")}}, at(5))
		return []error{err}
	},
	"DeleteMessage": func(ctx context.Context, s *Store, o Owner, v *victim) []error {
		return []error{s.DeleteMessage(ctx, o, v.conversation, v.turn.Answer.ID, at(5))}
	},
	"ChooseBranch": func(ctx context.Context, s *Store, o Owner, v *victim) []error {
		_, err := s.ChooseBranch(ctx, o, v.conversation, v.turn.Question.ID, at(5))
		return []error{err}
	},
	"SaveSummary": func(ctx context.Context, s *Store, o Owner, v *victim) []error {
		return []error{s.SaveSummary(ctx, o, v.conversation, v.turn.Answer.ID, Summary{Content: said("lies")}, at(5))}
	},
	"Summary": func(ctx context.Context, s *Store, o Owner, v *victim) []error {
		_, err := s.Summary(ctx, o, v.conversation, v.turn.Answer.ID)
		return []error{err}
	},
	"BeginTurn": func(ctx context.Context, s *Store, o Owner, v *victim) []error {
		keyed := asked("q")
		keyed.Key = "k"
		_, known := s.BeginTurn(ctx, o, v.conversation, keyed, at(5))
		_, fresh := s.BeginTurn(ctx, o, v.conversation, asked("graffiti"), at(5))
		return []error{known, fresh}
	},
	"Checkpoint": func(ctx context.Context, s *Store, o Owner, v *victim) []error {
		return []error{s.Checkpoint(ctx, o, v.running, said("graffiti"))}
	},
	"FinishTurn": func(ctx context.Context, s *Store, o Owner, v *victim) []error {
		_, running := s.FinishTurn(ctx, o, v.running, Outcome{Status: Failed}, at(5))
		_, done := s.FinishTurn(ctx, o, v.turn.ID(), Outcome{Status: Completed}, at(5))
		return []error{running, done}
	},
	"ResumeTurn": func(ctx context.Context, s *Store, o Owner, v *victim) []error {
		_, err := s.ResumeTurn(ctx, o, v.running, at(5))
		return []error{err}
	},
	"CreateResponse": func(ctx context.Context, s *Store, o Owner, v *victim) []error {
		_, previous := s.CreateResponse(ctx, o,
			NewResponse{Previous: v.response, Request: json.RawMessage(`{}`), Process: "here"}, at(5))
		_, conversation := s.CreateResponse(ctx, o,
			NewResponse{Conversation: v.conversation, Request: json.RawMessage(`{}`), Process: "here"}, at(5))
		return []error{previous, conversation}
	},
	"Response": func(ctx context.Context, s *Store, o Owner, v *victim) []error {
		_, err := s.Response(ctx, o, v.response)
		return []error{err}
	},
	"FindResponse": func(ctx context.Context, s *Store, o Owner, v *victim) []error {
		_, err := s.FindResponse(ctx, o, NewResponse{ID: v.response, Request: json.RawMessage(`{}`), Process: "here"})
		return []error{err}
	},
	"ResponseItems": func(ctx context.Context, s *Store, o Owner, v *victim) []error {
		_, in := s.ResponseItems(ctx, o, v.response, Input, Page{})
		_, out := s.ResponseItems(ctx, o, v.response, Output, Page{})
		return []error{in, out}
	},
	"Chain": func(ctx context.Context, s *Store, o Owner, v *victim) []error {
		_, err := s.Chain(ctx, o, v.response)
		return []error{err}
	},
	"AppendEvents": func(ctx context.Context, s *Store, o Owner, v *victim) []error {
		_, err := s.AppendEvents(ctx, o, v.response, EventBatch{Process: "here", Events: events(0, 1)})
		return []error{err}
	},
	"Events": func(ctx context.Context, s *Store, o Owner, v *victim) []error {
		_, err := s.Events(ctx, o, v.response, -1, 10)
		return []error{err}
	},
	"FinishResponse": func(ctx context.Context, s *Store, o Owner, v *victim) []error {
		_, err := s.FinishResponse(ctx, o, v.response,
			ResponseOutcome{Status: Failed, Body: json.RawMessage(`{}`), Batch: EventBatch{Process: "here"}}, at(5))
		return []error{err}
	},
	"CancelResponse": func(ctx context.Context, s *Store, o Owner, v *victim) []error {
		_, err := s.CancelResponse(ctx, o, v.response)
		return []error{err}
	},
	"DeleteResponse": func(ctx context.Context, s *Store, o Owner, v *victim) []error {
		return []error{s.DeleteResponse(ctx, o, v.response)}
	},
}

// idless are the methods that take an owner and no id: what they must not do
// is give others what is ann's, which seen checks.
var idless = []string{"CreateConversation", "Conversations", "Search", "SearchGrouped", "Import", "Usage", "Erase",
	"Adopt"}

// conformOwners walks all methods of Store.
func conformOwners(t *testing.T, s *Store) {
	ctx := t.Context()
	v := newVictim(t, s)
	before := witness(t, s, v)
	store, owner := reflect.TypeFor[*Store](), reflect.TypeFor[Owner]()
	for method := range store.Methods() {
		reach, listed := reaches[method.Name]
		owned := method.Type.NumIn() > 2 && method.Type.In(2) == owner
		if owned != (listed || slices.Contains(idless, method.Name)) {
			t.Errorf("method %s: takes an owner is %v, but the table of this test says otherwise", method.Name, owned)
		}
		if !listed {
			continue
		}
		for _, thief := range []Owner{{Tenant: "acme", User: "bob"}, {Tenant: "evil", User: "ann"}, {Tenant: "acme"},
			{Tenant: "acmeann"}} {
			for i, err := range reach(ctx, s, thief, v) {
				if !errors.Is(err, ErrNotFound) {
					t.Errorf("%s, call %d by %v: got %v, want ErrNotFound", method.Name, i, thief, err)
				}
			}
		}
	}
	same(t, "what ann has", witness(t, s, v), before)
	bob := Owner{Tenant: "acme", User: "bob"}
	if list := must(s.Conversations(ctx, bob, Filter{}, Page{}))(t); len(list.Items) != 0 {
		t.Errorf("bob lists %v", list.Items)
	}
	if list := must(s.Search(ctx, bob, "first", Page{}))(t); len(list.Items) != 0 {
		t.Errorf("bob finds %v", list.Items)
	}
	if list := must(s.SearchGrouped(ctx, bob, "first", 0))(t); len(list.Items) != 0 {
		t.Errorf("another user finds %+v", list)
	}
}

func newVictim(t *testing.T, s *Store) *victim {
	t.Helper()
	ctx := t.Context()
	sc := newScene(t, s)
	keyed := asked("q")
	keyed.Key = "k"
	turn := must(s.BeginTurn(ctx, ann, sc.id, keyed, at(1)))(t)
	must(s.FinishTurn(ctx, ann, turn.ID(), Outcome{Status: Completed, Content: said("first secret")}, at(1)))(t)
	check(t, s.SaveSummary(ctx, ann, sc.id, turn.Answer.ID, Summary{Content: said("s")}, at(2)))
	running := must(s.BeginTurn(ctx, ann, sc.id, asked("more"), at(2)))(t)
	deleted := must(s.CreateConversation(ctx, ann, NewConversation{}, at(2)))(t)
	check(t, s.DeleteConversation(ctx, ann, deleted.ID, at(3)))
	response := created(t, s, NewResponse{Input: []Item{{Content: said("x")}}}, at(3))
	return &victim{sc.id, deleted.ID, turn, running.ID(), response.ID}
}

// witness returns all that ann has.
func witness(t *testing.T, s *Store, v *victim) []any {
	t.Helper()
	ctx := t.Context()
	return []any{
		must(s.Conversation(ctx, ann, v.conversation))(t), must(s.Export(ctx, ann, v.conversation))(t),
		must(s.Response(ctx, ann, v.response))(t),
		must(s.ResponseItems(ctx, ann, v.response, Input, Page{}))(t),
		must(s.Conversations(ctx, ann, Filter{}, Page{}))(t),
		must(s.Summary(ctx, ann, v.conversation, v.turn.Answer.ID))(t),
	}
}

// conformErase erases what others own, and then what ann does.
func conformErase(t *testing.T, s *Store) {
	ctx := t.Context()
	v := newVictim(t, s)
	before := witness(t, s, v)
	for _, other := range []Owner{{Tenant: "acme", User: "bob"}, {Tenant: "evil", User: "ann"}, {Tenant: "acme"}} {
		check(t, s.Erase(ctx, other))
	}
	same(t, "what ann has", witness(t, s, v), before)
	check(t, s.Erase(ctx, ann))
	_, err := s.Conversation(ctx, ann, v.conversation)
	fails(t, err, ErrNotFound)
	_, err = s.UndeleteConversation(ctx, ann, v.deleted)
	fails(t, err, ErrNotFound)
	_, err = s.Response(ctx, ann, v.response)
	fails(t, err, ErrNotFound)
	for _, table := range []string{"conversations", "messages", "documents", "summaries", "responses",
		"response_items"} {
		var rows int
		check(t, s.read(ctx, func(tx *transaction) error { return tx.One(`SELECT count(*) FROM `+table, nil, &rows) }))
		if rows != 0 {
			t.Errorf("%d rows are left in %s", rows, table)
		}
	}
	if _, used, err := s.Usage(ctx, ann); err != nil || used != (Usage{}) {
		t.Errorf("ann still uses %+v, %v", used, err)
	}
}

// conformAdopt gives what ann has to another, with its count.
func conformAdopt(t *testing.T, s *Store) {
	ctx := t.Context()
	v := newVictim(t, s)
	_, used, err := s.Usage(ctx, ann)
	check(t, err)
	heir := Owner{Tenant: "other", User: "heir"}
	check(t, s.Adopt(ctx, Owner{Tenant: "acme"}, Owner{Tenant: "other", User: "nobody"}))
	check(t, s.Adopt(ctx, ann, heir))
	_, err = s.Conversation(ctx, ann, v.conversation)
	fails(t, err, ErrNotFound)
	must(s.Conversation(ctx, heir, v.conversation))(t)
	must(s.Response(ctx, heir, v.response))(t)
	if _, now, err := s.Usage(ctx, heir); err != nil || now != used || used == (Usage{}) {
		t.Errorf("the heir uses %+v of %+v, %v", now, used, err)
	}
	check(t, s.Erase(ctx, heir))
	if _, now, err := s.Usage(ctx, heir); err != nil || now != (Usage{}) {
		t.Errorf("erased, the heir uses %+v, %v", now, err)
	}
}
