package convo

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"parley"
)

func conformTurns(t *testing.T, s *Store) {
	ctx := t.Context()
	sc := newScene(t, s)
	turn := must(s.BeginTurn(ctx, ann, sc.id, asked("hello"), at(1)))(t)
	question := Message{ID: turn.Question.ID, Conversation: sc.id, Seq: 1, Kind: "message", Role: "user",
		Content: said("hello"), Text: "hello", Status: Completed, Created: at(1), Result: Result{Completed: at(1)}}
	answer := Message{ID: turn.Answer.ID, Conversation: sc.id, Parent: question.ID, Seq: 2, Kind: "message",
		Role: "assistant", Content: emptyContent, Status: InProgress, Created: at(1),
		Result: Result{Process: "here", Model: "polly"}}
	same(t, "begun", turn, Turn{Question: question, Answer: answer, Begun: true})
	same(t, "question read", must(s.Message(ctx, ann, sc.id, question.ID))(t), question)
	same(t, "answer read", must(s.Message(ctx, ann, sc.id, answer.ID))(t), answer)
	_, err := s.BeginTurn(ctx, ann, sc.id, asked("too early"), at(2))
	fails(t, err, ErrRunning)

	check(t, s.Checkpoint(ctx, ann, turn.ID(), said("hi th")))
	answer.Content = said("hi th")
	same(t, "checkpoint", must(s.Message(ctx, ann, sc.id, answer.ID))(t), answer)
	stranger := turn.ID()
	stranger.Process = "elsewhere"
	fails(t, s.Checkpoint(ctx, ann, stranger, said("no")), ErrTaken)
	_, err = s.FinishTurn(ctx, ann, stranger, Outcome{Status: Completed, Content: said("no")}, at(3))
	fails(t, err, ErrTaken)

	usage := parley.Usage{PromptTokens: 12, CachedTokens: 8, OutputTokens: 3, Queued: time.Millisecond,
		Prefill: 2500 * time.Microsecond, Decode: time.Second}
	outcome := Outcome{Status: Completed, Content: said("hi there"), Finish: parley.FinishStop, Usage: usage,
		CostMicros: 77, Model: "other"}
	answer.Model = "other" // it answered instead
	answer.Content, answer.Text, answer.Status, answer.Finish, answer.Usage, answer.CostMicros, answer.Completed = said(
		"hi there"), "hi there", Completed, parley.FinishStop, usage, 77, at(4)
	same(t, "finished", must(s.FinishTurn(ctx, ann, turn.ID(), outcome, at(4)))(t), answer)
	same(t, "finished again", must(s.FinishTurn(ctx, ann, turn.ID(), outcome, at(9)))(t), answer)
	same(t, "read", must(s.Message(ctx, ann, sc.id, answer.ID))(t), answer)
	_, err = s.FinishTurn(ctx, ann, turn.ID(), Outcome{Status: Failed}, at(9))
	fails(t, err, ErrTaken)
	fails(t, s.Checkpoint(ctx, ann, turn.ID(), said("late")), ErrTaken)
	c := must(s.Conversation(ctx, ann, sc.id))(t)
	if c.Leaf != answer.ID || c.Messages != 2 || c.Bytes != int64(len(said("hello"))+len(said("hi there"))) ||
		!c.Updated.Equal(at(4)) {
		t.Errorf("the conversation is %+v", c)
	}

	failing := must(s.BeginTurn(ctx, ann, sc.id, asked("next"), at(5)))(t)
	check(t, s.Checkpoint(ctx, ann, failing.ID(), said("half")))
	failed := must(s.FinishTurn(ctx, ann, failing.ID(),
		Outcome{Status: Failed, Err: parley.Errorf(parley.Overloaded, "no room\x00")}, at(6)))(t)
	if failed.Text != "half" || failed.Err == nil || failed.Err.Code != parley.Overloaded ||
		failed.Err.Message != "no room" {
		t.Errorf("the failed answer is %+v", failed)
	}
	same(t, "failed, read", must(s.Message(ctx, ann, sc.id, failed.ID))(t), failed)
	lifeless := asked("x")
	lifeless.Process = "never beat"
	_, err = s.BeginTurn(ctx, ann, sc.id, lifeless, at(7))
	fails(t, err, ErrNotAlive)
}

func conformTurnKeys(t *testing.T, s *Store) {
	ctx := t.Context()
	sc := newScene(t, s)
	keyed := asked("once")
	keyed.Key = "k"
	first := must(s.BeginTurn(ctx, ann, sc.id, keyed, at(1)))(t)
	again := must(s.BeginTurn(ctx, ann, sc.id, keyed, at(2)))(t)
	first.Begun = false
	same(t, "while it runs", again, first)
	first.Answer = must(s.FinishTurn(ctx, ann, first.ID(), Outcome{Status: Completed, Content: said("done")}, at(3)))(t)
	same(t, "when it has ended", must(s.BeginTurn(ctx, ann, sc.id, keyed, at(4)))(t), first)
	changed := asked("twice")
	changed.Key = "k"
	_, err := s.BeginTurn(ctx, ann, sc.id, changed, at(5))
	fails(t, err, ErrKeyReused)
	same(t, "path", sc.path(t, ""), []string{"once", "done"})

	regenerate := NewTurn{Key: "r", Parent: first.Question.ID, Process: "here"}
	one := must(s.BeginTurn(ctx, ann, sc.id, regenerate, at(6)))(t)
	two := must(s.BeginTurn(ctx, ann, sc.id, regenerate, at(6)))(t)
	one.Begun = false
	same(t, "regenerated", two, one)

	elsewhere := must(s.CreateConversation(ctx, ann, NewConversation{}, at(0)))(t)
	if other := must(s.BeginTurn(ctx, ann, elsewhere.ID, keyed, at(7)))(t); !other.Begun {
		t.Error("the key of one conversation was known in another")
	}
	check(t, s.DeleteMessage(ctx, ann, sc.id, first.Question.ID, at(8)))
	first.Question, first.Answer.Parent = Message{}, ""
	same(t, "without its question", must(s.BeginTurn(ctx, ann, sc.id, keyed, at(9)))(t), first)
}

// conformSameCall makes calls again whose outcome nobody heard: with a key or
// without, what they name is theirs, and there once.
func conformSameCall(t *testing.T, s *Store) {
	ctx := t.Context()
	for _, key := range []string{"", "k"} {
		sc := newScene(t, s)
		n := asked("once")
		n.Key, n.Answer = key, NewMessageID()
		first := must(s.BeginTurn(ctx, ann, sc.id, n, at(1)))(t)
		same(t, "the same call", must(s.BeginTurn(ctx, ann, sc.id, n, at(2)))(t), first)
		same(t, "path", sc.path(t, ""), []string{"once", ""})
		same(t, "taken up by its own process", must(s.ResumeTurn(ctx, ann, first.ID(), at(3)))(t), first.Answer)

		r := NewResponse{ID: NewResponseID(), Key: key, Model: "m", Request: json.RawMessage(`{}`),
			Input: []Item{{Content: json.RawMessage(`"hi"`)}}, Process: "here"}
		made := must(s.CreateResponse(ctx, ann, r, at(1)))(t)
		same(t, "the same response", must(s.CreateResponse(ctx, ann, r, at(2)))(t), made)
		if made.ID != r.ID {
			t.Errorf("%s was made as %s", r.ID, made.ID)
		}
		_, err := s.CreateResponse(ctx, Owner{Tenant: "evil"}, r, at(3))
		fails(t, err, ErrNotFound)
	}
}

func conformResume(t *testing.T, s *Store) {
	ctx := t.Context()
	sc := newScene(t, s)
	turn := must(s.BeginTurn(ctx, ann, sc.id, asked("q"), at(1)))(t)
	check(t, s.Checkpoint(ctx, ann, turn.ID(), said("half")))
	check(t, s.Heartbeat(ctx, "there", at(5000)))
	takeover := turn.ID()
	takeover.Process = "there"
	_, err := s.ResumeTurn(ctx, ann, takeover, at(2))
	fails(t, err, ErrRunning)
	resumed := must(s.ResumeTurn(ctx, ann, takeover, at(1001)))(t) // "here" was alive until 1000
	want := turn.Answer
	want.Process, want.Content = "there", said("half")
	same(t, "resumed", resumed, want)
	_, err = s.FinishTurn(ctx, ann, turn.ID(), Outcome{Status: Completed, Content: said("ghost")}, at(1002))
	fails(t, err, ErrTaken)
	done := must(s.FinishTurn(ctx, ann, takeover, Outcome{Status: Completed, Content: said("half and half")},
		at(1003)))(t)
	same(t, "path", sc.path(t, ""), []string{"q", "half and half"})
	_, err = s.ResumeTurn(ctx, ann, takeover, at(1004))
	refused(t, err, parley.InvalidRequest)
	_, err = s.ResumeTurn(ctx, ann, AnswerID{sc.id, done.ID, "unknown"}, at(1004))
	fails(t, err, ErrNotAlive)
}

func conformRecover(t *testing.T, s *Store) {
	ctx := t.Context()
	sc := newScene(t, s)
	check(t, s.Heartbeat(ctx, "other", at(9000)))
	abandoned := must(s.BeginTurn(ctx, ann, sc.id, asked("q"), at(1)))(t)
	check(t, s.Checkpoint(ctx, ann, abandoned.ID(), said("the tortoise was")))
	unnamed := must(s.CreateConversation(ctx, ann, NewConversation{}, at(1)))(t)
	nameless := must(s.BeginTurn(ctx, ann, unnamed.ID, asked("q"), at(2)))(t)
	elsewhere := must(s.CreateConversation(ctx, ann, NewConversation{}, at(1)))(t)
	living := asked("q")
	living.Process = "other"
	running := must(s.BeginTurn(ctx, ann, elsewhere.ID, living, at(1)))(t)

	if r := must(s.Recover(ctx, at(1000)))(t); len(r.Answers) != 0 {
		t.Fatalf("recovered %v while its process was alive", r)
	}
	r := must(s.Recover(ctx, at(1001)))(t)
	slices.SortFunc(r.Answers, func(a, b RecoveredAnswer) int { return strings.Compare(a.Message, b.Message) })
	want := []RecoveredAnswer{{ann, sc.id, abandoned.Answer.ID}, {ann, unnamed.ID, nameless.Answer.ID}}
	slices.SortFunc(want, func(a, b RecoveredAnswer) int { return strings.Compare(a.Message, b.Message) })
	same(t, "recovered", r, Recovery{Answers: want})
	if c := must(s.Conversation(ctx, ann, unnamed.ID))(t); c.Title != "q" {
		t.Errorf("a conversation without a title is named %q, not after its question", c.Title)
	}
	if hits := must(s.Search(ctx, ann, "q", Page{}))(t); len(hits.Items) == 0 {
		t.Error("search does not find the name")
	}
	m := must(s.Message(ctx, ann, sc.id, abandoned.Answer.ID))(t)
	if m.Status != Incomplete || m.Text != "the tortoise was" || m.Err == nil || m.Err.Code != parley.Unavailable ||
		!m.Completed.Equal(at(1001)) {
		t.Errorf("the recovered answer is %+v", m)
	}
	if hits := must(s.Search(ctx, ann, "tortoise", Page{}))(t); len(hits.Items) != 1 {
		t.Errorf("search found %v", hits.Items)
	}
	same(t, "again", must(s.Recover(ctx, at(1001)))(t), Recovery{})
	if m := must(s.Message(ctx, ann, elsewhere.ID, running.Answer.ID))(t); m.Status != InProgress {
		t.Errorf("the running answer is %s", m.Status)
	}
	// A process that was only slow may still end what nobody took over.
	late := must(s.FinishTurn(ctx, ann, abandoned.ID(),
		Outcome{Status: Completed, Content: said("the tortoise was slow")}, at(1002)))(t)
	if late.Status != Completed || late.Err != nil {
		t.Errorf("the late answer is %+v", late)
	}
	_, err := s.BeginTurn(ctx, ann, sc.id, asked("next"), at(1003))
	fails(t, err, ErrNotAlive)
	check(t, s.Heartbeat(ctx, "here", at(2000)))
	must(s.BeginTurn(ctx, ann, sc.id, asked("next"), at(1003)))(t)
}

func conformLimits(t *testing.T, s *Store) {
	ctx := t.Context()
	sc := newScene(t, s)
	many := map[string]string{}
	for i := range MetadataPairsMax + 1 {
		many[fmt.Sprint(i)] = ""
	}
	for name, c := range map[string]NewConversation{
		"title":    {Title: strings.Repeat("é", TitleMax+1)},
		"control":  {Title: "a\nb"},
		"utf8":     {Title: "\xff"},
		"model":    {Model: strings.Repeat("m", NameMax+1)},
		"policy":   {Policy: "forget"},
		"pairs":    {Metadata: many},
		"key":      {Metadata: map[string]string{strings.Repeat("k", MetadataKeyMax+1): ""}},
		"value":    {Metadata: map[string]string{"k": strings.Repeat("v", MetadataValueMax+1)}},
		"badvalue": {Metadata: map[string]string{"k": "\xff"}},
		"retry":    {Key: "a\x00b"},
	} {
		_, err := s.CreateConversation(ctx, ann, c, at(1))
		if parley.CodeOf(err) != parley.InvalidRequest {
			t.Errorf("%s: got %v", name, err)
		}
	}
	huge := json.RawMessage(`"` + strings.Repeat("x", ContentBytesMax) + `"`)
	for name, m := range map[string]NewMessage{
		"not JSON": {Content: []byte("{")}, "nothing": {}, "huge": {Content: huge},
		"role": {Role: "narrator", Content: said("x")}, "root": {ID: Root, Content: said("x")},
	} {
		_, err := s.AppendMessages(ctx, ann, sc.id, "", []NewMessage{m}, at(1))
		if parley.CodeOf(err) != parley.InvalidRequest {
			t.Errorf("%s: got %v", name, err)
		}
	}
	_, err := s.AppendMessages(ctx, ann, sc.id, "", make([]NewMessage, AppendMax+1), at(1))
	refused(t, err, parley.InvalidRequest)
	_, err = s.Conversation(ctx, Owner{}, sc.id)
	refused(t, err, parley.Unauthenticated)

	big := json.RawMessage(`"` + strings.Repeat("x", ContentBytesMax-2) + `"`)
	for range ConversationBytesMax / ContentBytesMax {
		must(s.AppendMessages(ctx, ann, sc.id, "", []NewMessage{{Content: big}}, at(1)))(t)
	}
	_, err = s.AppendMessages(ctx, ann, sc.id, "", []NewMessage{{Content: said("x")}}, at(1))
	fails(t, err, ErrFull)
	_, err = s.BeginTurn(ctx, ann, sc.id, asked("x"), at(1))
	fails(t, err, ErrFull)
}

// conformConcurrentTurns has many callers begin the same and different turns at
// once: each key begins one, and no message is lost or doubled.
func conformConcurrentTurns(t *testing.T, s *Store) {
	ctx := t.Context()
	sc := newScene(t, s)
	const keys, callers = 6, 4
	var group sync.WaitGroup
	var mu sync.Mutex
	begun := map[string]int{}
	for key := range keys {
		for range callers {
			group.Go(func() {
				n := asked(fmt.Sprint("question ", key))
				n.Key, n.Parent = fmt.Sprint(key), Root
				turn, err := s.BeginTurn(ctx, ann, sc.id, n, at(1))
				if err == nil {
					_, err = s.FinishTurn(ctx, ann, turn.ID(), Outcome{Status: Completed, Content: said("a")}, at(2))
				}
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				if turn.Begun {
					begun[n.Key]++
				}
			})
		}
	}
	group.Wait()
	for key := range keys {
		if n := begun[fmt.Sprint(key)]; n != 1 {
			t.Errorf("key %d began %d turns", key, n)
		}
	}
	nodes := must(s.Tree(ctx, ann, sc.id))(t)
	c := must(s.Conversation(ctx, ann, sc.id))(t)
	if len(nodes) != 2*keys || c.Messages != 2*keys {
		t.Errorf("%d messages, the conversation counts %d; want %d", len(nodes), c.Messages, 2*keys)
	}
}

// conformCancelledCalls ends calls at whatever point they have reached. Each
// has done all or nothing, and the store works on.
func conformCancelledCalls(t *testing.T, s *Store) {
	sc := newScene(t, s)
	for i := range 60 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i*i)*time.Microsecond)
		n := asked(fmt.Sprint("question ", i))
		n.Key, n.Parent = fmt.Sprint(i), Root
		_, err := s.BeginTurn(ctx, ann, sc.id, n, at(i))
		cancel()
		if code := parley.CodeOf(err); err != nil && code != parley.DeadlineExceeded && code != parley.Cancelled {
			t.Errorf("call %d failed with %v", i, err)
		}
		turn := must(s.BeginTurn(t.Context(), ann, sc.id, n, at(i)))(t)
		if err == nil && turn.Begun {
			t.Errorf("call %d was acknowledged and is not there", i)
		}
		must(s.FinishTurn(t.Context(), ann, turn.ID(), Outcome{Status: Completed, Content: said("a")}, at(i)))(t)
	}
	nodes := must(s.Tree(t.Context(), ann, sc.id))(t)
	must(NewForest(nodes))(t)
	c := must(s.Conversation(t.Context(), ann, sc.id))(t)
	if len(nodes) != 120 || c.Messages != 120 {
		t.Errorf("%d messages, the conversation counts %d; want 120", len(nodes), c.Messages)
	}
}
