package convo

import (
	"bytes"
	"encoding/json"
	"fmt"
	"testing"

	"time"

	"parley"
)

// events returns JSON events numbered from first.
func events(first, n int) (list []json.RawMessage) {
	for i := range n {
		list = append(list, json.RawMessage(fmt.Sprintf(`{"sequence_number":%d}`, first+i)))
	}
	return list
}

// created makes a response of ann's, with a request if n has none.
func created(t testing.TB, s *Store, n NewResponse, now time.Time) Response {
	t.Helper()
	if n.Request == nil {
		n.Request = json.RawMessage(`{}`)
	}
	if n.Process == "" {
		n.Process = "here"
	}
	return must(s.CreateResponse(t.Context(), ann, n, now))(t)
}

// ended makes a response and completes it.
func ended(t testing.TB, s *Store, n NewResponse, now time.Time) Response {
	t.Helper()
	r := created(t, s, n, now)
	return must(s.FinishResponse(t.Context(), ann, r.ID,
		ResponseOutcome{Status: Completed, Body: json.RawMessage(`{}`), Batch: EventBatch{Process: r.Process}}, now))(t)
}

func conformResponses(t *testing.T, s *Store) {
	ctx := t.Context()
	sc := newScene(t, s)
	n := NewResponse{Key: "k", Conversation: sc.id, Model: "polly", Background: true,
		Request: json.RawMessage(`{"model":"polly"}`), Process: "here",
		Input: []Item{{ID: "msg_1", Content: said("one")}, {Content: said("two")},
			{ID: "msg_3", Content: said("three")}}}
	r := must(s.CreateResponse(ctx, ann, n, at(1)))(t)
	want := Response{ID: r.ID, Conversation: sc.id, Model: "polly", Status: Queued, Background: true,
		Request: n.Request, Process: "here", Created: at(1)}
	same(t, "created", r, want)
	same(t, "created again", must(s.CreateResponse(ctx, ann, n, at(2)))(t), want)
	same(t, "found", must(s.FindResponse(ctx, ann, n))(t), want)
	n.Model = "polly-mini"
	_, err := s.CreateResponse(ctx, ann, n, at(2))
	fails(t, err, ErrKeyReused)
	_, err = s.FindResponse(ctx, ann, n)
	fails(t, err, ErrKeyReused)
	_, err = s.FindResponse(ctx, ann, NewResponse{Key: "other", Request: n.Request, Process: "here"})
	fails(t, err, ErrNotFound)

	list := must(s.ResponseItems(ctx, ann, r.ID, Input, Page{Limit: 2}))(t)
	if !list.More || len(list.Items) != 2 || list.Items[0].ID != "msg_3" ||
		!bytes.Equal(list.Items[1].Content, said("two")) || list.Items[1].ID == "" {
		t.Errorf("the newest input: %+v", list)
	}
	rest := must(s.ResponseItems(ctx, ann, r.ID, Input, Page{After: list.Last}))(t)
	if rest.More || len(rest.Items) != 1 || rest.Items[0].ID != "msg_1" {
		t.Errorf("the rest: %+v", rest)
	}
	cancelled := must(s.CancelResponse(ctx, ann, r.ID))(t)
	if !cancelled.CancelAsked || cancelled.Status != Queued {
		t.Errorf("after the cancel: %+v", cancelled)
	}
	usage := parley.Usage{PromptTokens: 5, CachedTokens: 4, OutputTokens: 3}
	outcome := ResponseOutcome{Status: Cancelled, Output: []Item{{ID: "msg_9", Content: said("out")}},
		Body: json.RawMessage(`{"status":"cancelled"}`), Usage: usage, CostMicros: 9,
		Err: parley.Errorf(parley.Cancelled, "stopped"), Batch: EventBatch{Process: "here", Events: events(0, 3)}}
	want.CancelAsked, want.Status, want.Body, want.Usage = true, Cancelled, outcome.Body, usage
	want.CostMicros, want.Err, want.Events, want.Completed = 9, outcome.Err, 3, at(3)
	same(t, "finished", must(s.FinishResponse(ctx, ann, r.ID, outcome, at(3)))(t), want)
	same(t, "finished again", must(s.FinishResponse(ctx, ann, r.ID, outcome, at(4)))(t), want)
	same(t, "read", must(s.Response(ctx, ann, r.ID))(t), want)
	same(t, "cancel is too late", must(s.CancelResponse(ctx, ann, r.ID))(t), want)
	same(t, "output", must(s.ResponseItems(ctx, ann, r.ID, Output, Page{}))(t).Items, outcome.Output)
	outcome.Status = Completed
	_, err = s.FinishResponse(ctx, ann, r.ID, outcome, at(4))
	fails(t, err, ErrTaken)

	check(t, s.DeleteResponse(ctx, ann, r.ID))
	fails(t, s.DeleteResponse(ctx, ann, r.ID), ErrNotFound)
	_, err = s.Events(ctx, ann, r.ID, -1, 10)
	fails(t, err, ErrNotFound)
	_, err = s.CreateResponse(ctx, ann, NewResponse{Previous: r.ID, Request: json.RawMessage(`{}`), Process: "here"},
		at(5))
	fails(t, err, ErrNotFound)
	_, err = s.CreateResponse(ctx, ann, NewResponse{Request: json.RawMessage(`{}`), Process: "nobody"}, at(5))
	fails(t, err, ErrNotAlive)
	_, err = s.CreateResponse(ctx, ann,
		NewResponse{Previous: "a", Conversation: "b", Request: json.RawMessage(`{}`), Process: "here"}, at(5))
	refused(t, err, parley.InvalidRequest)
	_, err = s.CreateResponse(ctx, ann, NewResponse{Input: []Item{{ID: "a", Content: said("")},
		{ID: "a", Content: said("")}}, Request: json.RawMessage(`{}`), Process: "here"}, at(5))
	refused(t, err, parley.InvalidRequest)
}

func conformEvents(t *testing.T, s *Store) {
	ctx := t.Context()
	newScene(t, s)
	r := created(t, s, NewResponse{Background: true}, at(1))
	log := events(0, 137)
	add := func(first, n int) Progress {
		t.Helper()
		return must(s.AppendEvents(ctx, ann, r.ID,
			EventBatch{Process: "here", First: int64(first), Events: log[first : first+n]}))(t)
	}
	same(t, "first batch", add(0, 3), Progress{Next: 3})
	if got := must(s.Response(ctx, ann, r.ID))(t).Status; got != InProgress {
		t.Errorf("after the first events the status is %s", got)
	}
	same(t, "again", add(0, 3), Progress{Next: 3})
	same(t, "overlapping", add(1, 119), Progress{Next: 120})
	must(s.CancelResponse(ctx, ann, r.ID))(t)
	same(t, "after a cancel", add(120, 1), Progress{Next: 121, CancelAsked: true})
	_, err := s.AppendEvents(ctx, ann, r.ID, EventBatch{Process: "here", First: 122, Events: log[122:]})
	refused(t, err, parley.Internal)
	_, err = s.AppendEvents(ctx, ann, r.ID, EventBatch{Process: "there", First: 121, Events: log[121:]})
	fails(t, err, ErrTaken)

	page := must(s.Events(ctx, ann, r.ID, -1, 50))(t)
	same(t, "first page", page, EventPage{First: 0, Events: log[:50], Status: InProgress, More: true})
	page = must(s.Events(ctx, ann, r.ID, 99, 50))(t)
	same(t, "last page", page, EventPage{First: 100, Events: log[100:121], Status: InProgress})
	page = must(s.Events(ctx, ann, r.ID, 120, 50))(t)
	same(t, "nothing yet", page, EventPage{First: 121, Status: InProgress})

	outcome := ResponseOutcome{Status: Incomplete, Body: json.RawMessage(`{}`),
		Batch: EventBatch{Process: "here", First: 121, Events: log[121:]}}
	must(s.FinishResponse(ctx, ann, r.ID, outcome, at(2)))(t)
	must(s.FinishResponse(ctx, ann, r.ID, outcome, at(3)))(t)
	page = must(s.Events(ctx, ann, r.ID, 120, 50))(t)
	same(t, "the end", page, EventPage{First: 121, Events: log[121:], Status: Incomplete})
	_, err = s.AppendEvents(ctx, ann, r.ID, EventBatch{Process: "here", First: 137, Events: events(137, 1)})
	fails(t, err, ErrTaken)
	for _, limit := range []int{0, EventBatchMax + 1} {
		_, err = s.Events(ctx, ann, r.ID, -1, limit)
		refused(t, err, parley.InvalidRequest)
	}
}

// conformTold checks that what a response says to its conversation is said
// with the response's end, once, or not at all.
func conformTold(t *testing.T, s *Store) {
	ctx := t.Context()
	sc := newScene(t, s)
	sc.turn(t, "q", "a", 1)
	r := created(t, s, NewResponse{Conversation: sc.id}, at(2))
	outcome := ResponseOutcome{Status: Completed, Body: json.RawMessage(`{}`), Batch: EventBatch{Process: "here"},
		Messages: []NewMessage{{Role: "user", Content: said("in")},
			{ID: "msg_out", Role: "assistant", Content: said("out")}}}
	must(s.FinishResponse(ctx, ann, r.ID, outcome, at(3)))(t)
	must(s.FinishResponse(ctx, ann, r.ID, outcome, at(4)))(t)
	same(t, "path", sc.path(t, ""), []string{"q", "a", "in", "out"})

	clash := created(t, s, NewResponse{Conversation: sc.id}, at(5))
	_, err := s.FinishResponse(ctx, ann, clash.ID, outcome, at(5)) // msg_out is there already
	refused(t, err, parley.InvalidRequest)
	if got := must(s.Response(ctx, ann, clash.ID))(t); got.Status != InProgress {
		t.Errorf("a response that could not be told has ended: %+v", got)
	}
	same(t, "path", sc.path(t, ""), []string{"q", "a", "in", "out"})
	check(t, s.DeleteConversation(ctx, ann, sc.id, at(6)))
	must(s.FinishResponse(ctx, ann, clash.ID, outcome, at(7)))(t)
}

func conformChain(t *testing.T, s *Store) {
	ctx := t.Context()
	newScene(t, s)
	var want []Item
	var last Response
	for i := range 5 {
		in := []Item{{ID: fmt.Sprint("in", i), Content: said("q")}, {ID: fmt.Sprint("in2", i), Content: said("q")}}
		out := []Item{{ID: fmt.Sprint("out", i), Content: said("a")}}
		last = created(t, s, NewResponse{Previous: last.ID, Input: in}, at(i))
		must(s.FinishResponse(ctx, ann, last.ID, ResponseOutcome{Status: Completed, Output: out,
			Body: json.RawMessage(`{}`), Batch: EventBatch{Process: "here"}}, at(i)))(t)
		want = append(append(want, in...), out...)
	}
	same(t, "chain", must(s.Chain(ctx, ann, last.ID))(t), want)
	lone := created(t, s, NewResponse{}, at(9))
	same(t, "without items", must(s.Chain(ctx, ann, lone.ID))(t), []Item(nil))
	check(t, s.DeleteResponse(ctx, ann, must(s.Response(ctx, ann, last.Previous))(t).Previous))
	_, err := s.Chain(ctx, ann, last.ID)
	fails(t, err, ErrNotFound)
}

func conformRecoverResponses(t *testing.T, s *Store) {
	ctx := t.Context()
	newScene(t, s)
	check(t, s.Heartbeat(ctx, "there", at(9000)))
	left := created(t, s, NewResponse{Background: true}, at(1))
	must(s.AppendEvents(ctx, ann, left.ID, EventBatch{Process: "here", Events: events(0, 2)}))(t)
	running := created(t, s, NewResponse{Background: true, Process: "there"}, at(1))
	same(t, "too early", must(s.Recover(ctx, at(1000)))(t), Recovery{})
	same(t, "recovered", must(s.Recover(ctx, at(1001)))(t), Recovery{Responses: []RecoveredResponse{{ann, left.ID}}})
	r := must(s.Response(ctx, ann, left.ID))(t)
	if r.Status != Incomplete || r.Err == nil || r.Err.Code != parley.Unavailable || r.Events != 2 ||
		!r.Completed.Equal(at(1001)) {
		t.Errorf("the response left is %+v", r)
	}
	if r := must(s.Response(ctx, ann, running.ID))(t); r.Status != Queued {
		t.Errorf("the running response is %+v", r)
	}
	_, err := s.AppendEvents(ctx, ann, left.ID, EventBatch{Process: "here", First: 2, Events: events(2, 1)})
	fails(t, err, ErrTaken)
}

func conformTransfer(t *testing.T, s *Store) {
	ctx := t.Context()
	sc := newScene(t, s)
	sc.turn(t, "q1 <b>&", "a1", 1)
	second := sc.turn(t, "q2", "a2", 2)
	again := must(s.BeginTurn(ctx, ann, sc.id, NewTurn{Parent: second.Question.ID, Process: "here"}, at(3)))(t)
	check(t, s.Checkpoint(ctx, ann, again.ID(), said("half")))
	must(s.ChangeConversation(ctx, ann, sc.id, Change{Title: new("moved"), Metadata: map[string]string{"a": "b"}},
		at(4)))(t)

	archive := must(s.Export(ctx, ann, sc.id))(t)
	var file bytes.Buffer
	check(t, archive.WriteJSON(&file))
	read := must(ParseArchive(file.Bytes()))(t)
	same(t, "archive", read, archive)
	bob := Owner{Tenant: "other", User: "bob"}
	copied := must(s.Import(ctx, bob, read, at(9)))(t)
	if copied.ID == sc.id || copied.Title != "moved" || copied.Messages != 5 || copied.Metadata["a"] != "b" {
		t.Errorf("imported %+v", copied)
	}
	texts := func(owner Owner, id string) (texts []string) {
		for _, m := range must(s.Messages(ctx, owner, id, "", Page{Ascending: true}))(t).Items {
			texts = append(texts, m.Text+string(m.Status))
		}
		return texts
	}
	same(t, "imported path", texts(bob, copied.ID),
		[]string{"q1 <b>&completed", "a1completed", "q2completed", "halfincomplete"})
	twice := must(s.Export(ctx, bob, copied.ID))(t)
	for i := range twice.Messages { // ids and nothing else differ
		twice.Messages[i].ID, twice.Messages[i].Parent = archive.Messages[i].ID, archive.Messages[i].Parent
	}
	same(t, "exported again", twice.Messages, archive.Messages)
	if hits := must(s.Search(ctx, bob, "moved", Page{}))(t); len(hits.Items) != 1 {
		t.Errorf("search found %+v in the import", hits.Items)
	}
	var page bytes.Buffer
	check(t, archive.WriteMarkdown(&page))
	same(t, "markdown", page.String(),
		"# moved\n\n## User\n\nq1 <b>&\n\n## Assistant\n\na1\n\n## User\n\nq2\n\n## "+
			"Assistant\n\nhalf\n\n*(incomplete)*\n")
}
