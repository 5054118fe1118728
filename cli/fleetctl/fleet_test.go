package fleetctl

import (
	"strings"
	"testing"
	"time"

	"parley/fleet"
)

// TestFilesGetEachChangeOnce shows a fleet in a file, second by second: there is a table for each change of its workers
// and for each news, and none for the time that has passed.
func TestFilesGetEachChangeOnce(t *testing.T) {
	var out strings.Builder
	v := fleetView{out: &out, word: "Chat with it.\n"}
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for i, c := range []struct {
		state  fleet.State
		up     float64
		news   string
		tables int
	}{
		{fleet.Up, 1, "", 1},
		{fleet.Up, 2, "", 1},
		{fleet.Draining, 3, "", 2},
		{fleet.Draining, 4, "one was added\n", 3},
		{fleet.Draining, 5, "one was added\n", 3},
	} {
		workers := []fleet.Standing{{Name: "a", State: c.state, UpSeconds: c.up}}
		if err := v.show(workers, c.news, at); err != nil {
			t.Fatal(err)
		}
		if got := strings.Count(out.String(), "WORKER"); got != c.tables {
			t.Errorf("%d tables after look %d, want %d", got, i, c.tables)
		}
	}
	if strings.Count(out.String(), "Chat with it.") != 1 || !strings.Contains(out.String(), "03:04:05\nWORKER") {
		t.Errorf("the file has %s", &out)
	}
}
