package convo

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"parley"
)

// Conform checks that the stores which open gives keep the contract of Store.
// Each part of it gets a store of its own.
func Conform(t *testing.T, open func(t *testing.T) *Store) {
	for _, part := range []struct {
		name string
		test func(*testing.T, *Store)
	}{
		{"conversations", conformConversations},
		{"keys of conversations", conformConversationKeys},
		{"deletion", conformDeletion},
		{"listing", conformListing},
		{"search", conformSearch},
		{"append", conformAppend},
		{"branches", conformBranches},
		{"random trees", conformRandomTrees},
		{"delete message", conformDeleteMessage},
		{"summaries", conformSummaries},
		{"turns", conformTurns},
		{"keys of turns", conformTurnKeys}, {"the same call", conformSameCall},
		{"resume", conformResume},
		{"recover", conformRecover},
		{"responses", conformResponses},
		{"events", conformEvents},
		{"told to a conversation", conformTold},
		{"chain", conformChain},
		{"recover responses", conformRecoverResponses},
		{"purge", conformPurge},
		{"erase", conformErase},
		{"adopt", conformAdopt},
		{"transfer", conformTransfer},
		{"limits", conformLimits},
		{"owners", conformOwners},
		{"concurrent turns", conformConcurrentTurns},
		{"cancelled calls", conformCancelledCalls},
	} {
		t.Run(part.name, func(t *testing.T) { part.test(t, open(t)) })
	}
}

func TestStoresConform(t *testing.T) {
	t.Run("SQLite", func(t *testing.T) {
		Conform(t, func(t *testing.T) *Store { return opened(t, sqliteDSN(t)) })
	})
	t.Run("PostgreSQL", func(t *testing.T) {
		postgresDSN(t)
		Conform(t, func(t *testing.T) *Store { return opened(t, postgresDSN(t)) })
	})
}

// same compares values of this package, but for what it keeps to itself.
func same(t testing.TB, what string, got, want any) {
	t.Helper()
	if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(Conversation{}, Response{}, Hit{}),
		cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// fails wants an error that is the one given.
func fails(t testing.TB, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("got error %v, want %v", err, want)
	}
}

// refused wants an error with the code given.
func refused(t testing.TB, err error, want parley.Code) {
	t.Helper()
	if err == nil || parley.CodeOf(err) != want {
		t.Errorf("got error %v, want one with the code %s", err, want)
	}
}

func conformConversations(t *testing.T, s *Store) {
	ctx := t.Context()
	made := must(s.CreateConversation(ctx, ann, NewConversation{
		Model: "polly", Title: "Häuser & Gärten", Pinned: true, Metadata: map[string]string{"a": "b", "nul": "\x00"},
		Policy: Drop,
	}, at(0)))(t)
	want := Conversation{ID: made.ID, Model: "polly", Title: "Häuser & Gärten", Pinned: true,
		Metadata: map[string]string{"a": "b", "nul": "\x00"}, Policy: Drop, Created: at(0), Updated: at(0)}
	same(t, "made", made, want)
	if !strings.HasPrefix(made.ID, "conv_") {
		t.Errorf("the id is %q", made.ID)
	}
	same(t, "read", must(s.Conversation(ctx, ann, made.ID))(t), want)

	want.Title, want.Pinned, want.Policy, want.Updated = "Gärten", false, Summarise, at(5)
	changed := must(s.ChangeConversation(ctx, ann, made.ID,
		Change{Title: &want.Title, Pinned: &want.Pinned, Policy: &want.Policy}, at(5)))(t)
	same(t, "changed", changed, want)
	want.Model, want.Metadata = "polly-mini", map[string]string{}
	must(s.ChangeConversation(ctx, ann, made.ID, Change{Model: &want.Model, Metadata: want.Metadata}, at(5)))(t)
	same(t, "read again", must(s.Conversation(ctx, ann, made.ID))(t), want)

	plain := must(s.CreateConversation(ctx, ann, NewConversation{}, at(1)))(t)
	same(t, "plain", plain, Conversation{ID: plain.ID, Policy: Refuse, Created: at(1), Updated: at(1)})
	for _, id := range []string{"conv_none", "", "\x00", "\xff", strings.Repeat("x", 1<<20)} {
		_, err := s.Conversation(ctx, ann, id)
		fails(t, err, ErrNotFound)
		fails(t, s.DeleteConversation(ctx, ann, id, at(6)), ErrNotFound)
		_, err = s.Message(ctx, ann, made.ID, id)
		fails(t, err, ErrNotFound)
	}

	begun := must(s.CreateConversation(ctx, ann,
		NewConversation{Key: "with items", Messages: []NewMessage{{Role: "system", Content: said("be kind")},
			{Role: "user", Content: said("hi")}}}, at(7)))(t)
	same(t, "begun", must(s.Conversation(ctx, ann, begun.ID))(t), begun)
	same(t, "what it begins with", (&scene{s, begun.ID}).path(t, ""), []string{"be kind", "hi"})
	again := must(s.CreateConversation(ctx, ann, NewConversation{Key: "with items"}, at(8)))(t)
	same(t, "begun again", again, begun)
}

func conformConversationKeys(t *testing.T, s *Store) {
	ctx := t.Context()
	first := must(s.CreateConversation(ctx, ann, NewConversation{Key: "k", Title: "one"}, at(0)))(t)
	again := must(s.CreateConversation(ctx, ann, NewConversation{Key: "k", Title: "one"}, at(9)))(t)
	same(t, "made again", again, first)
	for _, other := range []Owner{{Tenant: "acme", User: "bob"}, {Tenant: "other", User: "ann"}, {Tenant: "acme"}} {
		if c := must(s.CreateConversation(ctx, other, NewConversation{Key: "k"}, at(0)))(t); c.ID == first.ID {
			t.Errorf("%v got a conversation of ann's", other)
		}
	}
	check(t, s.DeleteConversation(ctx, ann, first.ID, at(10)))
	_, err := s.CreateConversation(ctx, ann, NewConversation{Key: "k", Title: "one"}, at(11))
	fails(t, err, ErrKeyReused)
}

func conformDeletion(t *testing.T, s *Store) {
	ctx := t.Context()
	sc := newScene(t, s)
	turn := sc.turn(t, "where is the lighthouse", "on the cliff", 1)
	before := must(s.Conversation(ctx, ann, sc.id))(t)
	check(t, s.DeleteConversation(ctx, ann, sc.id, at(2)))
	_, err := s.Conversation(ctx, ann, sc.id)
	fails(t, err, ErrNotFound)
	_, err = s.Message(ctx, ann, sc.id, turn.Answer.ID)
	fails(t, err, ErrNotFound)
	fails(t, s.DeleteConversation(ctx, ann, sc.id, at(3)), ErrNotFound)
	if hits := must(s.Search(ctx, ann, "lighthouse", Page{}))(t); len(hits.Items) != 0 {
		t.Errorf("search found %v in a deleted conversation", hits.Items)
	}
	same(t, "undeleted", must(s.UndeleteConversation(ctx, ann, sc.id))(t), before)
	same(t, "undeleted twice", must(s.UndeleteConversation(ctx, ann, sc.id))(t), before)
	same(t, "path", sc.path(t, ""), []string{"where is the lighthouse", "on the cliff"})
}

func conformListing(t *testing.T, s *Store) {
	ctx := t.Context()
	var ids []string // newest first
	for i := range 23 {
		c := must(s.CreateConversation(ctx, ann, NewConversation{Title: fmt.Sprint(i), Pinned: i%5 == 0}, at(i/3)))(t)
		ids = append(ids, c.ID)
	}
	must(s.CreateConversation(ctx, ann, NewConversation{Temporary: true}, at(50)))(t)
	must(s.CreateConversation(ctx, Owner{Tenant: "acme", User: "bob"}, NewConversation{}, at(50)))(t)

	everything := must(s.Conversations(ctx, ann, Filter{}, Page{Limit: 100}))(t)
	if everything.More || len(everything.Items) != len(ids) {
		t.Fatalf("listed %d of %d, more: %v", len(everything.Items), len(ids), everything.More)
	}
	var newest []string
	for i, c := range everything.Items {
		newest = append(newest, c.ID)
		if i > 0 && c.Updated.After(everything.Items[i-1].Updated) {
			t.Errorf("number %d is newer than the one before", i)
		}
	}
	oldest := slices.Clone(newest)
	slices.Reverse(oldest)
	for _, limit := range []int{1, 4, 22, 23} {
		same(t, "forward", walk(t, s, Page{Limit: limit}, false), newest)
		same(t, "backward", walk(t, s, Page{Limit: limit}, true), newest)
		same(t, "ascending", walk(t, s, Page{Limit: limit, Ascending: true}, false), oldest)
		same(t, "ascending backward", walk(t, s, Page{Limit: limit, Ascending: true}, true), oldest)
	}
	pinned := must(s.Conversations(ctx, ann, Filter{Pinned: new(true)}, Page{}))(t)
	others := must(s.Conversations(ctx, ann, Filter{Pinned: new(false)}, Page{}))(t)
	if len(pinned.Items) != 5 || len(others.Items) != 18 {
		t.Errorf("%d pinned and %d others", len(pinned.Items), len(others.Items))
	}
	for _, page := range []Page{{After: "nonsense"}, {Limit: 101}, {Limit: -1}, {After: "a", Before: "b"}} {
		_, err := s.Conversations(ctx, ann, Filter{}, page)
		refused(t, err, parley.InvalidRequest)
	}
}

// walk lists all conversations page by page, from the end if backward.
func walk(t *testing.T, s *Store, page Page, backward bool) (ids []string) {
	t.Helper()
	if backward {
		last := must(s.Conversations(t.Context(), ann, Filter{}, Page{Limit: 1, Ascending: !page.Ascending}))(t)
		ids, page.Before = []string{last.Items[0].ID}, last.Last
	}
	for {
		list := must(s.Conversations(t.Context(), ann, Filter{}, page))(t)
		var part []string
		for _, c := range list.Items {
			part = append(part, c.ID)
		}
		if backward {
			ids, page.Before = append(part, ids...), list.First
		} else {
			ids, page.After = append(ids, part...), list.Last
		}
		if !list.More {
			return ids
		}
	}
}

func conformSearch(t *testing.T, s *Store) {
	ctx := t.Context()
	sc := newScene(t, s)
	sc.turn(t, "Was kostet ein Café crème in Zürich?", "About 4.50 francs; the C++ of coffees.", 1)
	sc.turn(t, "請問東京塔在哪裡", "東京塔位於港區芝公園。", 2)
	must(s.ChangeConversation(ctx, ann, sc.id, Change{Title: new("Kaffee 'n' \"Turm\" %_*")}, at(3)))(t)

	find := func(query string) (found []string) {
		t.Helper()
		for _, h := range must(s.Search(ctx, ann, query, Page{}))(t).Items {
			var text strings.Builder
			for _, span := range h.Snippet {
				if span.Hit {
					text.WriteString("[" + span.Text + "]")
				} else {
					text.WriteString(span.Text)
				}
			}
			found = append(found, text.String())
		}
		return found
	}
	for query, want := range map[string][]string{
		"cafe CRÈME":     {"Was kostet ein [Café] [crème] in Zürich?"},
		"zur":            {"Was kostet ein Café crème in [Zürich]?"},
		"franc 50":       {"About 4.[50] [francs]; the C++ of coffees."},
		"ürich":          nil,
		"cafe francs":    nil,
		"京塔":             {"東[京塔]位於港區芝公園。", "請問東[京塔]在哪裡"},
		"港":              {"東京塔位於[港區]芝公園。"},
		"turm kaffee":    {"[Kaffee] 'n' \"[Turm]\" %_*"},
		"first":          nil,
		`"OR" NOT near*`: nil,
		"c++":            {"About 4.50 francs; the [C]++ of [coffees].", "Was kostet ein [Café] [crème] in Zürich?"},
	} {
		same(t, query, find(query), want)
	}
	for _, query := range []string{"", "?!", strings.Repeat("a", QueryMax+1),
		strings.Repeat("a b c d e f g h i j ", 3)} {
		if _, err := s.Search(ctx, ann, query, Page{}); err == nil && len(query) < 60 {
			t.Errorf("the query %q was accepted", query)
		}
	}
	one := must(s.Search(ctx, ann, "c", Page{Limit: 1}))(t)
	two := must(s.Search(ctx, ann, "c", Page{Limit: 1, After: one.Last}))(t)
	if !one.More || two.More || len(two.Items) != 1 || two.Items[0].Message == one.Items[0].Message {
		t.Errorf("pages of a search: %+v and %+v", one, two)
	}
	conformGrouped(t, s)
	hidden := must(s.CreateConversation(ctx, ann, NewConversation{Title: "submarine", Temporary: true}, at(4)))(t)
	if hits := find("submarine"); hits != nil {
		t.Errorf("found the temporary conversation %s: %v", hidden.ID, hits)
	}
}

// conformGrouped wants a long conversation to leave room for others, and those with the word itself to come first.
func conformGrouped(t *testing.T, s *Store) {
	ctx := t.Context()
	short, long := newScene(t, s), newScene(t, s)
	must(s.ChangeConversation(ctx, ann, short.id, Change{Title: new("At the port")}, at(5)))(t)
	must(s.ChangeConversation(ctx, ann, long.id, Change{Title: new("Travels")}, at(5)))(t)
	for i := range 5 {
		long.turn(t, "Which portal?", "The **portable** one.", 6+i)
	}
	grouped := must(s.SearchGrouped(ctx, ann, "port", 0))(t)
	var found []string
	for _, h := range grouped.Items {
		var text strings.Builder
		for _, span := range h.Snippet {
			text.WriteString(span.Text)
		}
		found = append(found, fmt.Sprintf("%s: %s (%d)", h.Title, text.String(), h.Matches))
	}
	same(t, "grouped", found, []string{"At the port: At the port (1)", "Travels: The portable one. (10)",
		"Travels: Which portal? (10)", "Travels: The portable one. (10)"})
	if some := must(s.SearchGrouped(ctx, ann, "port", 2))(t); len(some.Items) != 2 || !some.More {
		t.Errorf("with a limit of 2 it gives %+v", some)
	}
	bob := Owner{Tenant: "acme", User: "bob"}
	if others := must(s.SearchGrouped(ctx, bob, "port", 0))(t); len(others.Items) != 0 {
		t.Errorf("another user finds %+v", others)
	}
}

func conformAppend(t *testing.T, s *Store) {
	ctx := t.Context()
	sc := newScene(t, s)
	added := must(s.AppendMessages(ctx, ann, sc.id, "", []NewMessage{
		{Role: "system", Content: said("be kind")},
		{ID: "fc_1", Kind: "function_call", Content: []byte(`{"name":"f","arguments":"{}"}`)},
		{Kind: "function_call_output", Content: []byte(`{"call_id":"1","output":"12 degrees\u0000"}`)},
	}, at(1)))(t)
	want := Message{ID: "fc_1", Conversation: sc.id, Parent: added[0].ID, Seq: 2, Kind: "function_call",
		Content: []byte(`{"name":"f","arguments":"{}"}`), Status: Completed, Created: at(1), Result: Result{Completed: at(1)}}
	same(t, "added", added[1], want)
	same(t, "read", must(s.Message(ctx, ann, sc.id, "fc_1"))(t), want)
	same(t, "path", sc.path(t, ""), []string{"be kind", "", "12 degrees"})

	_, err := s.AppendMessages(ctx, ann, sc.id, "",
		[]NewMessage{{Content: said("x")}, {ID: "fc_1", Content: said("y")}}, at(2))
	refused(t, err, parley.InvalidRequest)
	_, err = s.AppendMessages(ctx, ann, sc.id, "msg_none", []NewMessage{{Content: said("x")}}, at(2))
	fails(t, err, ErrNotFound)
	c := must(s.Conversation(ctx, ann, sc.id))(t)
	size := 0
	for _, m := range added {
		size += len(m.Content)
	}
	if c.Messages != 3 || c.Leaf != added[2].ID || c.Bytes != int64(size) || !c.Updated.Equal(at(1)) {
		t.Errorf("after failures the conversation is %+v", c)
	}
	list := must(s.Messages(ctx, ann, sc.id, "", Page{Limit: 2}))(t)
	if !list.More || list.First != added[2].ID || list.Last != "fc_1" {
		t.Errorf("the newest two: %+v", list)
	}
	rest := must(s.Messages(ctx, ann, sc.id, "", Page{After: list.Last}))(t)
	if rest.More || len(rest.Items) != 1 || rest.Items[0].ID != added[0].ID {
		t.Errorf("the rest: %+v", rest)
	}
	_, err = s.Messages(ctx, ann, sc.id, "", Page{After: "msg_none"})
	fails(t, err, ErrNotFound)
}

func conformBranches(t *testing.T, s *Store) {
	ctx := t.Context()
	sc := newScene(t, s)
	first := sc.turn(t, "q1", "a1", 1)
	second := sc.turn(t, "q2", "a2", 2)

	edit := asked("q2 edited")
	edit.Parent = first.Answer.ID
	edited := must(s.BeginTurn(ctx, ann, sc.id, edit, at(3)))(t)
	must(s.FinishTurn(ctx, ann, edited.ID(), Outcome{Status: Completed, Content: said("a2 edited")}, at(3)))(t)
	again := must(s.BeginTurn(ctx, ann, sc.id, NewTurn{Parent: edited.Question.ID, Process: "here"}, at(4)))(t)
	must(s.FinishTurn(ctx, ann, again.ID(), Outcome{Status: Completed, Content: said("a2 again")}, at(4)))(t)
	restart := asked("q1 new")
	restart.Parent = Root
	other := must(s.BeginTurn(ctx, ann, sc.id, restart, at(5)))(t)
	must(s.FinishTurn(ctx, ann, other.ID(), Outcome{Status: Completed, Content: said("a1 new")}, at(5)))(t)

	same(t, "newest branch", sc.path(t, ""), []string{"q1 new", "a1 new"})
	same(t, "other branch", sc.path(t, second.Answer.ID), []string{"q1", "a1", "q2", "a2"})
	forest := must(NewForest(must(s.Tree(ctx, ann, sc.id))(t)))(t)
	same(t, "versions of q2", forest.siblings(second.Question.ID), []string{second.Question.ID, edited.Question.ID})
	same(t, "versions of a2", forest.siblings(again.Answer.ID), []string{edited.Answer.ID, again.Answer.ID})

	leaf := must(s.ChooseBranch(ctx, ann, sc.id, first.Question.ID, at(6)))(t)
	same(t, "leaf", leaf, again.Answer.ID)
	same(t, "chosen branch", sc.path(t, ""), []string{"q1", "a1", "q2 edited", "a2 again"})
	third := sc.turn(t, "q3", "a3", 7)
	same(t, "parent of the next turn", third.Question.Parent, again.Answer.ID)
	_, err := s.ChooseBranch(ctx, ann, sc.id, "msg_none", at(8))
	fails(t, err, ErrNotFound)
	_, err = s.BeginTurn(ctx, ann, sc.id, NewTurn{Parent: Root, Process: "here"}, at(8))
	refused(t, err, parley.InvalidRequest)
}

// conformRandomTrees compares the store's walk through a tree with Forest's.
func conformRandomTrees(t *testing.T, s *Store) {
	ctx := t.Context()
	sc := newScene(t, s)
	random := rand.New(rand.NewPCG(1, 2))
	var ids []string
	for range 60 {
		parent := Root
		if n := len(ids); n > 0 && random.IntN(10) > 0 {
			parent = ids[random.IntN(n)]
		}
		added := must(s.AppendMessages(ctx, ann, sc.id, parent, []NewMessage{{Role: "user", Content: said("x")}},
			at(1)))(t)
		ids = append(ids, added[0].ID)
	}
	forest := must(NewForest(must(s.Tree(ctx, ann, sc.id))(t)))(t)
	for _, id := range ids {
		var got []string
		for _, m := range must(s.Messages(ctx, ann, sc.id, id, Page{Ascending: true, Limit: 100}))(t).Items {
			got = append(got, m.ID)
		}
		same(t, "path to "+id, got, forest.Path(id))
	}
}

func conformDeleteMessage(t *testing.T, s *Store) {
	ctx := t.Context()
	sc := newScene(t, s)
	sc.turn(t, "q1", "walrus", 1)
	turn := sc.turn(t, "q2", "a2", 2)
	middle := must(s.Messages(ctx, ann, sc.id, "", Page{Ascending: true}))(t).Items[1]
	check(t, s.DeleteMessage(ctx, ann, sc.id, middle.ID, at(3)))
	same(t, "path", sc.path(t, ""), []string{"q1", "q2", "a2"})
	if hits := must(s.Search(ctx, ann, "walrus", Page{}))(t); len(hits.Items) != 0 {
		t.Errorf("search found what was deleted: %v", hits.Items)
	}
	check(t, s.DeleteMessage(ctx, ann, sc.id, turn.Answer.ID, at(4)))
	same(t, "path", sc.path(t, ""), []string{"q1", "q2"})
	fails(t, s.DeleteMessage(ctx, ann, sc.id, turn.Answer.ID, at(5)), ErrNotFound)
	c := must(s.Conversation(ctx, ann, sc.id))(t)
	if c.Messages != 2 || c.Leaf != turn.Question.ID || c.Bytes != int64(len(said("q1"))+len(said("q2"))) {
		t.Errorf("the conversation is %+v", c)
	}
}

func conformSummaries(t *testing.T, s *Store) {
	ctx := t.Context()
	sc := newScene(t, s)
	turn := sc.turn(t, "q", "a", 1)
	for _, text := range []string{"short", "shorter"} {
		want := Summary{Content: said(text), Model: "polly", Tokens: len(text)}
		check(t, s.SaveSummary(ctx, ann, sc.id, turn.Answer.ID, want, at(2)))
		same(t, "summary", must(s.Summary(ctx, ann, sc.id, turn.Answer.ID))(t), want)
	}
	_, err := s.Summary(ctx, ann, sc.id, turn.Question.ID)
	fails(t, err, ErrNotFound)
	fails(t, s.SaveSummary(ctx, ann, sc.id, "msg_none", Summary{Content: said("x")}, at(2)), ErrNotFound)
	check(t, s.DeleteMessage(ctx, ann, sc.id, turn.Answer.ID, at(3)))
	_, err = s.Summary(ctx, ann, sc.id, turn.Answer.ID)
	fails(t, err, ErrNotFound)
}

func conformPurge(t *testing.T, s *Store) {
	ctx := t.Context()
	sc := newScene(t, s)
	sc.turn(t, "q", "a", 1)
	temporary := must(s.CreateConversation(ctx, ann, NewConversation{Temporary: true}, at(0)))(t)
	kept := must(s.CreateConversation(ctx, ann, NewConversation{}, at(0)))(t)
	check(t, s.DeleteConversation(ctx, ann, sc.id, at(0)))
	keep := Retention{Deleted: 10 * time.Second, Temporary: 20 * time.Second, Responses: 30 * time.Second}
	check(t, s.Purge(ctx, at(9), keep))
	must(s.UndeleteConversation(ctx, ann, sc.id))(t)
	check(t, s.DeleteConversation(ctx, ann, sc.id, at(0)))
	check(t, s.Purge(ctx, at(10), keep))
	_, err := s.UndeleteConversation(ctx, ann, sc.id)
	fails(t, err, ErrNotFound)
	must(s.Conversation(ctx, ann, temporary.ID))(t)
	check(t, s.Purge(ctx, at(20), keep))
	_, err = s.Conversation(ctx, ann, temporary.ID)
	fails(t, err, ErrNotFound)
	must(s.Conversation(ctx, ann, kept.ID))(t)

	first := ended(t, s, NewResponse{}, at(0))
	second := ended(t, s, NewResponse{Previous: first.ID}, at(5))
	third := ended(t, s, NewResponse{Previous: second.ID}, at(15))
	loose := ended(t, s, NewResponse{}, at(0))
	check(t, s.Purge(ctx, at(44), keep)) // first was followed long ago, but its followers are kept
	_, err = s.Response(ctx, ann, loose.ID)
	fails(t, err, ErrNotFound)
	must(s.Chain(ctx, ann, third.ID))(t)
	check(t, s.Purge(ctx, at(45), keep))
	for _, id := range []string{first.ID, second.ID, third.ID} {
		_, err = s.Response(ctx, ann, id)
		fails(t, err, ErrNotFound)
	}
}
