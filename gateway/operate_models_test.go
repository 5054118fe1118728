package gateway

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"parley/gateway/tenant"
)

// Changes of the model folder are in the audit log with the model that they are about,
// and without the credentials of the address that it came from.
func TestModelChangesAreAudited(t *testing.T) {
	dsn := newStoreName(t)
	var bodies []string
	s, rig := startGuarded(t, &worker{}, dsn, auditedBy(t, dsn), func(c *Config) {
		c.ModelAPI = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			bodies = append(bodies, string(body))
			w.WriteHeader(http.StatusOK)
		})
	})
	admin, _ := rig.key(tenant.NewKey{Admin: true})
	const source = `{"source":"https://user:secret@example.com/tiny.gguf?token=secret"}`
	for _, does := range [][3]string{
		{"POST", "/admin/api/models", source},
		{"POST", "/admin/api/models/tiny/load", "{}"},
		{"POST", "/admin/api/models/tiny/unload", "{}"},
		{"DELETE", "/admin/api/models/tiny", ""},
	} {
		if status, text := s.from("127.0.0.1", does[0], does[1], does[2], admin); status != 200 {
			t.Errorf("%s %s: %d %s", does[0], does[1], status, text)
		}
	}
	if len(bodies) != 4 || bodies[0] != source {
		t.Errorf("the handler got %q", bodies)
	}
	_, log := s.from("127.0.0.1", "GET", auditPath, "", admin)
	for _, want := range []string{
		`"type":"model.pulled"`, `"target":"https://example.com/tiny.gguf"`,
		`"type":"model.loaded"`, `"type":"model.unloaded"`, `"type":"model.deleted"`, `"target":"tiny"`,
	} {
		if !strings.Contains(log, want) {
			t.Errorf("no %s in %s", want, log)
		}
	}
	if strings.Contains(log, "secret") {
		t.Errorf("a secret is in %s", log)
	}
}
