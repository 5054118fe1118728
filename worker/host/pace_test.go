package host

import (
	"os"
	"path/filepath"
	"testing"

	"parley"
)

// TestThePaceSurvivesTheProcess answers a request, starts the same model again, and
// looks at what the second engine begins with; a model that differs, and a damaged
// file, begin with nothing.
func TestThePaceSurvivesTheProcess(t *testing.T) {
	dir := t.TempDir()
	t.Run("learn", func(t *testing.T) { // the host is closed at its end
		h := startHost(t, openBuiltin(t, "polly-mini"), Config{Name: "mini", DataDir: dir, Threads: 2})
		answer(t, h, &parley.Request{Prompt: []parley.Token{5, 6, 7}, MaxTokens: 8, Stop: parley.Stop{IgnoreEnd: true}})
	})
	path := filepath.Join(dir, "pace", "mini.json")
	for _, c := range []struct {
		name    string
		threads int
		damage  bool
		known   bool
	}{{"same", 2, false, true}, {"other threads", 1, false, false}, {"damaged", 2, true, false}} {
		if c.damage {
			if err := os.WriteFile(path, []byte("{"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		ck := openBuiltin(t, "polly-mini")
		defer ck.Close()
		plans, err := PlanMemory([]Candidate{{ck, Config{Name: "mini", DataDir: dir, Threads: c.threads}}}, 1<<30)
		if err != nil {
			t.Fatal(err)
		}
		plan := plans[0]
		backend, err := plan.newBackend(nil)
		if err != nil {
			t.Fatal(err)
		}
		if pace := plan.paceMemory(backend).recall(); pace.Known() != c.known {
			t.Errorf("%s: known is %v, want %v", c.name, pace.Known(), c.known)
		}
		if err := backend.Close(); err != nil {
			t.Error(err)
		}
	}
}
