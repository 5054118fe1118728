package serve

import (
	"net"
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

// TestAddressOfTheBanner wants an address that a browser opens, also where the server listens on all of them, and the
// token of a server without keys on both pages.
func TestAddressOfTheBanner(t *testing.T) {
	s := settings.Default()
	for listens, want := range map[string]string{
		"127.0.0.1:8080": "http://127.0.0.1:8080",
		"[::]:8080":      "http://127.0.0.1:8080",
		"0.0.0.0:81":     "http://127.0.0.1:81",
		"[::1]:8080":     "http://[::1]:8080",
		"10.0.0.7:8080":  "http://10.0.0.7:8080",
	} {
		addr, err := net.ResolveTCPAddr("tcp", listens)
		if err != nil {
			t.Fatal(err)
		}
		if got := rootURL(s, addr); got != want {
			t.Errorf("for %s it says %s, want %s", listens, got, want)
		}
		if others := reachedAt(s, addr); others != "" && !addr.IP.IsUnspecified() {
			t.Errorf("for %s it names other addresses: %q", listens, others)
		}
	}
	if got := (accessLink{token: "local-A"}).page("http://h", "/admin"); got != "http://h/admin?token=local-A" {
		t.Errorf("the link is %s", got)
	}
	if got := (accessLink{}).page("http://h", "/"); got != "http://h/" {
		t.Errorf("the address is %s", got)
	}
}
