package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"testing"

	"parley/gateway/audit"
)

// command runs parley with a key and returns what it printed.
func command(t *testing.T, key string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "parley", args...)
	cmd.Env = append(os.Environ(), "PARLEY_API_KEY="+key)
	var failure strings.Builder
	cmd.Stderr = &failure
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("parley %s: %v: %s", strings.Join(args, " "), err, failure.String())
	}
	return string(out)
}

// TestAuditCommand changes keys by a command on the store and by the server: the
// audit log has both, with who did it.
func TestAuditCommand(t *testing.T) {
	data := t.TempDir()
	var admin struct{ ID, Value string }
	if err := json.Unmarshal([]byte(command(t, "", "keys", "create", "me", "--admin", "--data", data, "--json")),
		&admin); err != nil {
		t.Fatal(err)
	}
	s := startServerIn(t, data, "--model", "polly-mini")
	command(t, admin.Value, "keys", "create", "site", "--url", s.url)
	command(t, admin.Value, "keys", "block", "site", "--url", s.url)

	table := command(t, admin.Value, "audit", "--url", s.url)
	for _, want := range []string{"TIME", "api_key.updated", "admin.ID", "127.0.0.1", "command"} {
		if want = strings.ReplaceAll(want, "admin.ID", admin.ID); !strings.Contains(table, want) {
			t.Errorf("no %q in\n%s", want, table)
		}
	}
	var list struct{ Data []audit.Entry }
	if err := json.Unmarshal(
		[]byte(command(t, admin.Value, "audit", "--url", s.url, "--json", "--action", "api_key.")), &list); err != nil {
		t.Fatal(err)
	}
	if len(list.Data) != 3 || list.Data[2].Actor.Kind != audit.Command || list.Data[0].Actor.Key != admin.ID {
		t.Errorf("entries: %+v", list.Data)
	}
	if strings.Contains(table, admin.Value) {
		t.Error("a secret is in the audit log")
	}
}
