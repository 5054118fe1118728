package safety

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// A changed file is read again, and a wrong one changes nothing.
func TestPolicyIsReadAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "safety.yaml")
	write := func(text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("safety: {default: {input: {hate: flag}}}")
	book, err := ReadBook(path)
	if err != nil {
		t.Fatal(err)
	}
	k := NewPolicies(book)
	ctx, cancel := context.WithCancel(t.Context())
	var watching sync.WaitGroup
	watching.Go(func() { k.Watch(ctx, path, time.Millisecond, slog.New(slog.NewTextHandler(io.Discard, nil))) })
	defer watching.Wait()
	defer cancel()
	await := func(want Action) {
		t.Helper()
		for range 5000 {
			if k.For("", "").Input[Hate].Action == want {
				return
			}
			time.Sleep(time.Millisecond)
		}
		t.Fatalf("the action is %q, not %q", k.For("", "").Input[Hate].Action, want)
	}
	await(Flag)
	write("safety: {default: {input: {hate: block}}}")
	await(Block)
	write("safety: {default: {input: {hate: nonsense}}}")
	write("safety: {default: {input: {hate: flag }}}  # longer")
	await(Flag)
}

// A file that is written in two steps is read when it is whole, though its
// first half is a policy, too.
func TestHalfAPolicyIsNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "safety.yaml")
		k := NewPolicies(nil)
		ctx, cancel := context.WithCancel(t.Context())
		var watching sync.WaitGroup
		watching.Go(func() { k.Watch(ctx, path, time.Second, slog.New(slog.DiscardHandler)) })
		defer watching.Wait()
		defer cancel()
		write := func(text string) {
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		const half = "safety:\n  default:\n    input: {hate: block}\n"
		time.Sleep(time.Second / 2)
		write(half)
		time.Sleep(time.Second)
		if k.For("", "").Input[Hate].Action == Block {
			t.Error("half a policy was read")
		}
		write(half + "    output: {hate: block}\n")
		time.Sleep(2 * time.Second)
		if r := k.For("", ""); r.Input[Hate].Action != Block || r.Output[Hate].Action != Block {
			t.Errorf("the whole policy was not read: %+v", r)
		}
	})
}

// A request asks the moderators of the policy that it began with, and is closed
// to what that closes, whatever holds by now.
func TestRequestsKeepTheModeratorsTheyBeganWith(t *testing.T) {
	asked := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked++
		http.Error(w, "down", http.StatusInternalServerError)
	}))
	defer server.Close()
	k := NewPolicies(
		bookOf(t,
			`safety: {default: {input: {hate: {action: block, when_down: closed}}, moderators: [first]}, moderators: {first: {url: "`+server.URL+`"}}}`))
	r := k.For("", "")
	k.Replace(DefaultBook())
	_, down := k.Moderate(t.Context(), r, "Hello", false, nil)
	if asked != 1 || down["first"] == nil || !r.ClosedWithout("first", false) {
		t.Errorf("asked %d times, down %v, closed %v", asked, down, r.ClosedWithout("first", false))
	}
}

// What a moderator is not asked for does not count.
func TestModeratorsSayOnlyWhatTheyAreAsked(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"results":[{"categories":{"hate":true,"violence":true}}]}`))
	}))
	defer server.Close()
	k := NewPolicies(
		bookOf(t,
			`safety: {default: {input: {hate: block, violence: block}, moderators: [m]}, moderators: {m: {url: "`+
				server.URL+`", categories: [violence]}}}`))
	r := k.For("", "")
	found, _ := k.Moderate(t.Context(), r, "Hello", false, nil)
	decisions, _ := r.DecideInput(found["m"], FromUser)
	if len(decisions) != 1 || decisions[0].Category != Violence {
		t.Errorf("decided %+v", decisions)
	}
}

func bookOf(t *testing.T, text string) *Book {
	t.Helper()
	b, err := ParseBook([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestEventsAreBounded(t *testing.T) {
	k := NewPolicies(nil)
	for range eventsKept + 5 {
		k.Note(Event{})
	}
	list := k.Recent(eventsKept, 10)
	if len(list) != 5 || list[0].ID != eventsKept+5 || len(k.Recent(0, 1<<20)) != eventsKept {
		t.Errorf("%d events, the newest %+v", len(list), list)
	}
}

// TestModeratorsAreNotFollowed has a moderator answer with a redirect: the text
// must not reach the server that it names.
func TestModeratorsAreNotFollowed(t *testing.T) {
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		t.Error("the text was sent to a server that the operator did not name")
	}))
	defer elsewhere.Close()
	server := httptest.NewServer(http.RedirectHandler(elsewhere.URL, http.StatusTemporaryRedirect))
	defer server.Close()
	k := NewPolicies(bookOf(t,
		`safety: {default: {input: {hate: block}, moderators: [m]}, moderators: {m: {url: "`+server.URL+`"}}}`))
	if _, down := k.Moderate(t.Context(), k.For("", ""), "a secret", false, nil); down["m"] == nil {
		t.Error("a redirect was taken for an answer")
	}
}
