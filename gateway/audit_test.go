package gateway

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"parley/gateway/audit"
	"parley/gateway/db"
	"parley/gateway/exchange"
	"parley/gateway/tenant"
)

// auditedBy gives a gateway an audit log in the database that dsn names.
func auditedBy(t *testing.T, dsn string) func(*Config) {
	return func(c *Config) {
		d := must(db.Open(context.Background(), dsn))(t)
		t.Cleanup(func() { d.Close() })
		c.Audit = must(audit.Open(context.Background(), d, 0, c.Log))(t)
	}
}

// from asks as a client with that address, and returns status and body.
func (s *server) from(addr, method, path, body, secret string) (int, string) {
	r := httptest.NewRequestWithContext(s.t.Context(), method, path, strings.NewReader(body))
	r.RemoteAddr = addr + ":1234"
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", "Bearer "+secret)
	w := httptest.NewRecorder()
	s.gateway.ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

// TestEveryChangeHasAnAuditName walks the route table: a route that changes the
// server has a name in the audit log.
func TestEveryChangeHasAnAuditName(t *testing.T) {
	dsn := newStoreName(t)
	s, _ := startGuarded(t, &worker{}, dsn, auditedBy(t, dsn), func(c *Config) {
		c.FleetAPI = &FleetAPI{Operate: http.NotFoundHandler(), Register: http.NotFoundHandler()}
		c.ModelAPI = http.NotFoundHandler()
	})
	named := 0
	for _, r := range s.gateway.routes.all() {
		for method := range r.methods {
			x := &exchange.Exchange{Request: &http.Request{Method: method, URL: &url.URL{Path: r.name}}}
			if c := (call{Exchange: x, access: r.access}); !c.audited() {
				continue
			}
			if strings.HasPrefix(auditAction(method, r.name), method) {
				t.Errorf("%s %s has no name in auditActions", method, r.name)
			}
			named++
		}
	}
	if named < 15 {
		t.Errorf("only %d routes change something", named)
	}
}

func TestChangesAreAudited(t *testing.T) {
	dsn := newStoreName(t)
	var lines lockedBuffer
	s, rig := startGuarded(t, &worker{}, dsn, func(c *Config) {
		c.Log = slog.New(slog.NewTextHandler(&lines, nil))
	}, auditedBy(t, dsn))
	secret, admin := rig.key(tenant.NewKey{Admin: true})
	member, _ := rig.key(tenant.NewKey{Organization: "acme"})
	ask := func(method, path, body string, want int) (answer map[string]any) {
		t.Helper()
		status, text := s.from("192.0.2.9", method, path, body, secret)
		if status != want || json.Unmarshal([]byte(text), &answer) != nil {
			t.Fatalf("%s %s: %d %s", method, path, status, text)
		}
		return answer
	}
	made := ask("POST", keysPath, `{"name":"site","organization":"acme"}`, 200)
	id, _ := made["id"].(string)
	ask("POST", keysPath+"/"+id, `{"blocked":true}`, 200)
	ask("POST", keysPath+"/"+id+"/rotate", `{}`, 200)
	ask("DELETE", keysPath+"/"+id, ``, 200)
	ask("DELETE", keysPath+"/key_unknown", ``, 404)
	s.from("192.0.2.9", "POST", keysPath, `{"name":"evil"}`, member)

	page := ask("GET", auditPath+"?limit=10", "", 200)
	var got []string
	for _, entry := range page["data"].([]any) {
		e := entry.(map[string]any)
		got = append(got, e["type"].(string))
		if actor := e["actor"].(map[string]any); actor["api_key"] != admin || actor["type"] != "api_key" {
			t.Errorf("the actor is %v", actor)
		}
		if e["ip_address"] != "192.0.2.9" || e["request_id"] == nil {
			t.Errorf("no address or request: %v", e)
		}
	}
	if want := "api_key.deleted api_key.deleted api_key.rotated api_key.updated api_key.created"; strings.Join(got,
		" ") != want {
		t.Errorf("got  %v\nwant %s", got, want)
	}
	updated := ask("GET", auditPath+"?type=api_key.updated", "", 200)["data"].([]any)[0].(map[string]any)
	before, after := updated["before"].(map[string]any), updated["after"].(map[string]any)
	if before["blocked"] != false || after["blocked"] != true || updated["target"] != id {
		t.Errorf("the change is %v", updated)
	}
	text, _ := json.Marshal(page)
	for _, made := range []string{made["value"].(string), secret} {
		if strings.Contains(string(text), made) || strings.Contains(lines.String(), made) {
			t.Error("a secret is in the audit log")
		}
	}
	if !strings.Contains(lines.String(), "msg=audit") || !strings.Contains(lines.String(), "action=api_key.created") {
		t.Errorf("no line in the log: %s", lines.String())
	}
	if response, _ := s.do("GET", auditPath, "", bearer(member)...); response.StatusCode != 403 {
		t.Errorf("a member reads the audit log: %d", response.StatusCode)
	}
}

// TestRequestLinesNameTheCaller wants organisation, key and address on request
// lines, and no address where the operator does not record them.
func TestRequestLinesNameTheCaller(t *testing.T) {
	for _, hidden := range []bool{false, true} {
		var lines lockedBuffer
		s, rig := startGuarded(t, &worker{script: speak(t, "Yes<|im_end|>", 0)}, newStoreName(t), func(c *Config) {
			c.Log, c.NoAddresses = slog.New(slog.NewTextHandler(&lines, nil)), hidden
		})
		secret, id := rig.key(tenant.NewKey{Organization: "acme", User: "ann"})
		body := `{"model":"` + modelID + `","max_tokens":5,"messages":[{"role":"user","content":"Hi"}]}`
		s.from("192.0.2.9", "POST", "/v1/chat/completions", body, secret)
		line := ""
		for until := time.Now().Add(time.Minute); !strings.Contains(line, "msg=request") &&
			time.Now().Before(until); {
			time.Sleep(time.Millisecond) // the line is written after the answer
			line = lines.String()
		}
		for _, part := range []string{"organization=acme", "user=ann", "key=" + id} {
			if !strings.Contains(line, part) {
				t.Errorf("no %s in %s", part, line)
			}
		}
		if strings.Contains(line, "remote=192.0.2.9") == hidden {
			t.Errorf("hidden %v: %s", hidden, line)
		}
	}
}
