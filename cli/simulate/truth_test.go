package simulate

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"parley/sim/cost"
)

// TestBlame has passes that took as long as they cost, and others.
func TestBlame(t *testing.T) {
	model := &cost.Model{Rows: []cost.Knot{{Rows: 1, Seconds: 0.001}}}
	pass := cost.Sample{Pass: cost.Pass{Rows: 10, Sequences: 1}, Took: 10 * time.Millisecond}
	slow := pass
	slow.Took *= 2
	for _, c := range []struct {
		passes []cost.Sample
		far    bool
		want   string
	}{
		{[]cost.Sample{pass, pass}, false, "together by +0.0 %."},
		{[]cost.Sample{pass, pass}, true, "what differs is around the passes"},
		{[]cost.Sample{pass, slow}, true, "together by -33.3 %. The cost is not that of the real run"},
		{nil, true, "0 passes are in the logs"},
	} {
		if got := blame(model, c.passes, c.far, 0.1); !strings.Contains(got, c.want) {
			t.Errorf("%d passes: %s; want %q", len(c.passes), got, c.want)
		}
	}
	if got := blame(nil, []cost.Sample{pass}, true, 0.1); !strings.Contains(got, "calibration: false") {
		t.Error(got)
	}
}

func TestPassesOf(t *testing.T) {
	path := filepath.Join(t.TempDir(), "worker.log")
	line := `{"msg":"pass computed","rows":1,"sequences":1,"read":16,"lookback":17,"took_ns":900000,"gap_ns":100000}`
	if err := os.WriteFile(path, []byte(line+"\n"+line+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	passes, err := passesOf([]string{path, path})
	if err != nil || len(passes) != 4 || passes[0].Took != time.Millisecond {
		t.Errorf("%+v, %v", passes, err)
	}
	if _, err := passesOf([]string{path + "?"}); err == nil {
		t.Error("a file that is not there was read")
	}
}
