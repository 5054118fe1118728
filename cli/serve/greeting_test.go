package serve

import (
	"strings"
	"testing"

	"parley/cli/settings"
)

// TestCommandThatMakesAKey wants the command that a server without keys names to
// find its store, and to tell no password.
func TestCommandThatMakesAKey(t *testing.T) {
	for want, change := range map[string]func(*settings.Settings){
		"To create a key: parley keys create --admin " +
			"--name me\n": func(*settings.Settings) {},
		"To create a key: parley keys create --admin --name me --data " +
			"\"elsewhere\"\n": func(s *settings.Settings) { s.Data = "elsewhere" },
		"To create a key: parley keys create --admin --name me --store " +
			"\"postgres://…@db.internal/parley\"\n": func(s *settings.Settings) {
			s.Store = "postgres://parley:secret@db.internal/parley"
		},
	} {
		s := settings.Default()
		change(s)
		if got := openNote(s, true); !strings.HasSuffix(got, want) {
			t.Errorf("it says %q, want %q", got, want)
		}
	}
}
