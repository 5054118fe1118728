package batch

import (
	"testing"
	"time"

	"parley/gateway/convo"
	"parley/gateway/openai"
)

// TestOwnersChange gives what one owner has to another, erases batches, and looks again
// after a restart.
func TestOwnersChange(t *testing.T) {
	dir := t.TempDir()
	s := must(Open(dir, Limits{}))(t)
	id := createFor(t, s, ann, 2)
	heir := convo.Owner{Tenant: "local", User: "heir"}
	if err := s.Adopt(ann, heir); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Of(ann).Batch(id); err == nil {
		t.Error("ann still has the batch")
	}
	if used, _ := s.Of(heir).Usage(); used.Batches != 1 || used.Files != 1 {
		t.Errorf("the heir uses %+v", used)
	}
	if err := s.Of(bob).Erase(time.Now()); err != nil {
		t.Fatal(err)
	}
	if b := must(s.Of(heir).Batch(id))(t); b.Status == openai.BatchCancelling {
		t.Error("another's erasing cancels it")
	}
	if err := s.Of(heir).Erase(time.Now()); err != nil {
		t.Fatal(err)
	}
	if b := must(s.Of(heir).Batch(id))(t); b.Status != openai.BatchCancelling {
		t.Errorf("erased, it is %s", b.Status)
	}
	over := func(r *record) bool {
		r.Status = openai.BatchCancelled
		return true
	}
	if err := s.change(s.batches[id], over); err != nil {
		t.Fatal(err)
	}
	if err := s.Of(heir).Erase(time.Now()); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Of(heir).Batch(id); err == nil {
		t.Error("the record of a batch that is over stays")
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	again := must(Open(dir, Limits{}))(t)
	defer again.Close()
	if list := must(again.Of(heir).Files(openai.Page{Limit: 10}))(t); len(list.Data) != 1 || len(again.batches) != 0 {
		t.Errorf("after a restart %d files and %d batches", len(list.Data), len(again.batches))
	}
}
