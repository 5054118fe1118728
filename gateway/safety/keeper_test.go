package safety

import (
	"context"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"testing"
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
	k := NewKeeper(book)
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

func TestEventsAreBounded(t *testing.T) {
	k := NewKeeper(nil)
	for range eventsKept + 5 {
		k.Note(Event{})
	}
	list := k.Recent(eventsKept, 10)
	if len(list) != 5 || list[0].ID != eventsKept+5 || len(k.Recent(0, 1<<20)) != eventsKept {
		t.Errorf("%d events, the newest %+v", len(list), list)
	}
}
