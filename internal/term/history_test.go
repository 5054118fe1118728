package term

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestHistoryIsKept(t *testing.T) {
	path := filepath.Join(t.TempDir(), "new", "history")
	for i, entry := range []string{"one", "two\nlines", "\tüber \"x\""} {
		h, err := OpenHistory(path)
		if err != nil {
			t.Fatal(err)
		}
		if len(h.entries) != i {
			t.Fatalf("%d entries after %d", len(h.entries), i)
		}
		if err := h.Add(entry); err != nil {
			t.Fatal(err)
		}
	}
	h, err := OpenHistory(path)
	if err != nil || !slices.Equal(h.entries, []string{"one", "two\nlines", "\tüber \"x\""}) {
		t.Errorf("the history is %q, %v", h.entries, err)
	}
	st, err := os.Stat(path)
	if err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("the file's mode is %v, %v", st.Mode(), err)
	}
}

func TestHistoryIsBounded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "history")
	var all strings.Builder
	for i := range 3 * historyEntriesMax {
		fmt.Fprintf(&all, "\"entry %d\"\n", i)
	}
	if err := os.WriteFile(path, []byte(all.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	h, err := OpenHistory(path)
	if err != nil || len(h.entries) != historyEntriesMax || h.entries[len(h.entries)-1] != "entry 2999" {
		t.Fatalf("%d entries, %v", len(h.entries), err)
	}
	again, err := OpenHistory(path)
	if err != nil || len(again.entries) != historyEntriesMax/2 || again.entries[len(again.entries)-1] != "entry 2999" {
		t.Errorf("then %d entries, %v", len(again.entries), err)
	}
	if err := again.Add(strings.Repeat("x", historyEntryMax+1)); err != nil ||
		len(again.entries) != historyEntriesMax/2 {
		t.Errorf("an entry of more than %d bytes was kept, %v", historyEntryMax, err)
	}
	left, err := filepath.Glob(path + ".*")
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func FuzzHistory(f *testing.F) {
	f.Add([]byte("\"a\"\n\"b\\n\"\nnonsense\n\"\\u001b[31m\"\n\"torn"))
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, entry := range parseHistory(data) {
			if strings.ContainsRune(entry, 0x1b) {
				t.Errorf("%q has an escape", entry)
			}
		}
	})
}
