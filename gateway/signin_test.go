package gateway

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"parley/gateway/tenant"

	"github.com/coder/websocket"
)

const localToken = "local-0123456789abcdef0123456789abcdef"

func withToken(c *Config) { c.LocalToken = localToken }

// sends sends a request of this machine with a body.
func (s *server) sends(method, path, body string, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, "http://127.0.0.1:8080"+path, strings.NewReader(body))
	r.RemoteAddr = "127.0.0.1:9"
	r.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	s.gateway.ServeHTTP(w, r)
	return w
}

// signIn exchanges a secret for a cookie, and returns it as a header.
func (s *server) signIn(t *testing.T, path, secret string, headers ...string) (cookie []string, attributes string) {
	t.Helper()
	w := s.sends("POST", path, fmt.Sprintf(`{"key":%q}`, secret), headers...)
	set := w.Header().Get("Set-Cookie")
	if w.Code != 200 || set == "" {
		t.Fatalf("sign-in at %s: %d %s", path, w.Code, w.Body)
	}
	pair, attributes, _ := strings.Cut(set, "; ")
	return []string{"Cookie", pair}, attributes
}

// TestStrangersHaveStatelessAnswersOnly asks a server without keys as a stranger would
// who comes through a proxy that adds no header: from a loopback address, by a local
// name.
func TestStrangersHaveStatelessAnswersOnly(t *testing.T) {
	s, rig := startGuarded(t, &worker{script: speak(t, "Yes<|im_end|>", 0)}, newStoreName(t), withEverything, withToken)
	asked := 0
	for _, headers := range [][]string{nil, bearer("sk-anything"), bearer(localToken[1:]),
		{"Cookie", s.gateway.cookies.Name(tenant.ScopeAdmin) + "=x"}} {
		s.gateway.routes.each(func(method, path string) {
			asked++
			if w := s.askHere(method, path, headers...); w.Code != 401 ||
				!strings.Contains(w.Body.String(), "parley serve") && len(headers) < 2 {
				t.Errorf("%s %s with %q: %d: %.150s", method, path, headers, w.Code, w.Body)
			}
		}, owned, people, account, operator, fleetOperator)
	}
	if asked < 300 {
		t.Errorf("only %d requests were made", asked)
	}
	for path, body := range map[string]string{
		"/v1/chat/completions": chatBody(""),
		"/v1/messages": `{"model":"` + modelID +
			`","max_tokens":5,"messages":[{"role":"user","content":"Hi"}]}`,
		"/v1/completions": `{"model":"` + modelID + `","prompt":"x","max_tokens":2}`,
	} {
		for _, headers := range [][]string{nil, bearer("sk-anything"), bearer(localToken)} {
			if w := s.sends("POST", path, body, headers...); w.Code != 200 {
				t.Errorf("%s with %q: %d: %.150s", path, headers, w.Code, w.Body)
			}
		}
	}
	if w := s.askHere("GET", "/v1/models"); w.Code != 200 {
		t.Errorf("models: %d", w.Code)
	}
	keys, err := rig.store.Keys(t.Context(), tenant.KeyFilter{})
	if err != nil || len(keys) != 0 {
		t.Errorf("a stranger made keys: %v, %v", keys, err)
	}
}

// TestResponsesWithoutToken has a stranger's responses not stored.
func TestResponsesWithoutToken(t *testing.T) {
	s, _ := startGuarded(t, &worker{script: speak(t, "Yes<|im_end|>", 0)}, newStoreName(t), withToken)
	ask := func(extra string, headers ...string) (int, object) {
		w := s.sends("POST", "/v1/responses", responseBody(`"Hi"`, extra), headers...)
		return w.Code, parseObject(t, w.Body.String())
	}
	status, mine := ask("", bearer(localToken)...)
	if status != 200 || mine["store"] != true {
		t.Fatalf("with the token: %d %v", status, mine)
	}
	id := mine.text("id")
	for extra, want := range map[string]int{
		"": 200, `,"store":false`: 200, `,"store":null`: 200, `,"store":true`: 401, `,"background":true`: 401,
		`,"previous_response_id":"` + id + `"`: 401, `,"conversation":"conv_1"`: 401,
	} {
		status, o := ask(extra)
		if status != want {
			t.Errorf("%s gives %d %v", extra, status, o)
		}
		if status == 401 && (o.text("error", "code") != "missing_local_token" ||
			!strings.Contains(o.text("error", "message"), "Authorization: Bearer")) {
			t.Errorf("%s is told %v", extra, o)
		}
		if status == 200 && o["store"] != false {
			t.Errorf("%s is stored: %v", extra, o)
		}
		if status == 200 {
			if w := s.askHere("GET", "/v1/responses/"+o.text("id"), bearer(localToken)...); w.Code != 404 {
				t.Errorf("%s was stored: %d %s", extra, w.Code, w.Body)
			}
		}
	}
	for _, path := range []string{"/v1/responses/input_tokens", "/v1/responses/compact"} {
		if w := s.sends("POST", path, responseBody(`"Hi"`, `,"previous_response_id":"`+id+`"`)); w.Code != 401 {
			t.Errorf("%s reads a stored response: %d %s", path, w.Code, w.Body)
		}
	}
}

// TestStrangersShareNoCache looks at the salts of a stranger and of the owner.
func TestStrangersShareNoCache(t *testing.T) {
	w := &worker{script: speak(t, "Yes<|im_end|>", 0)}
	s, _ := startGuarded(t, w, newStoreName(t), withToken)
	s.sends("POST", "/v1/chat/completions", chatBody(`,"temperature":1`))
	s.sends("POST", "/v1/chat/completions", chatBody(`,"temperature":1`), bearer(localToken)...)
	if len(w.asked) != 2 || w.asked[0].Salt == w.asked[1].Salt || w.asked[0].Tenant == w.asked[1].Tenant {
		t.Errorf("asked %+v", w.asked)
	}
}

// TestLocalSessions exchanges the token for sessions, which end with the first key.
func TestLocalSessions(t *testing.T) {
	s, rig := startGuarded(t, &worker{}, newStoreName(t), withToken)
	if w := s.sends("POST", "/session", `{"key":"wrong"}`); w.Code != 401 || w.Header().Get("Set-Cookie") != "" {
		t.Errorf("a wrong token: %d %s", w.Code, w.Body)
	}
	chat, attributes := s.signIn(t, "/session", localToken)
	for _, want := range []string{"HttpOnly", "SameSite=Strict", "Path=/;", "Max-Age=2592000"} {
		if !strings.Contains(attributes+";", want) {
			t.Errorf("the cookie has not %s: %s", want, attributes)
		}
	}
	admin, attributes := s.signIn(t, "/admin/session", localToken)
	if !strings.Contains(attributes, "Path=/admin;") || strings.Contains(attributes, "Secure") {
		t.Errorf("the admin cookie: %s", attributes)
	}
	for path, want := range map[string][2]int{
		"/v1/conversations": {200, 401}, "/v1/organization/me": {200, 401}, "/admin/api/now": {401, 200},
		"/metrics":                           {401, 200},
		adminOrganizationPrefix + "api_keys": {401, 200}, adminOrganizationPrefix + "me": {401, 200},
		keysPath: {401, 200},
	} {
		for i, cookie := range [][]string{chat, admin} {
			if w := s.askHere("GET", path, cookie...); w.Code != want[i] {
				t.Errorf("%s with %s: %d, want %d: %.100s", path, cookie, w.Code, want[i], w.Body)
			}
		}
	}
	rig.key(tenant.NewKey{})
	for path, cookie := range map[string][]string{"/v1/conversations": chat, "/admin/api/now": admin} {
		for what, headers := range map[string][]string{"session": cookie, "token": bearer(localToken)} {
			if w := s.askHere("GET", path, headers...); w.Code != 401 {
				t.Errorf("the %s of before is good for %s: %d", what, path, w.Code)
			}
		}
	}
	if w := s.sends("POST", "/session", fmt.Sprintf(`{"key":%q}`, localToken)); w.Code != 401 {
		t.Errorf("the token is good after the first key: %d", w.Code)
	}
}

// TestKeySessions signs in with keys: as the chat without the admin right, as the admin
// page with it, until the key, its secret or the session ends.
func TestKeySessions(t *testing.T) {
	s, rig := startGuarded(t, &worker{}, newStoreName(t))
	secret, id := rig.key(tenant.NewKey{Admin: true, Name: "boss", Organization: "acme"})
	rig.key(tenant.NewKey{Admin: true})
	chat, _ := s.signIn(t, "/session", secret)
	admin, attributes := s.signIn(t, "/admin/session", secret, "Origin", "https://chat.example", "Sec-Fetch-Site",
		"same-origin")
	if !strings.Contains(attributes, "Secure") {
		t.Errorf("the cookie of a page over TLS: %s", attributes)
	}
	check := func(what string, headers []string, path string, want int) {
		t.Helper()
		if w := s.askHere("GET", path, headers...); w.Code != want {
			t.Errorf("%s at %s: %d, want %d: %.120s", what, path, w.Code, want, w.Body)
		}
	}
	both := func(what string, want int) {
		t.Helper()
		check(what, chat, "/v1/conversations", want)
		check(what, admin, "/admin/api/now", want)
	}
	both("signed in", 200)
	check("the chat's session", chat, "/admin/api/now", 401)
	check("the chat's session as the admin's", []string{"Cookie", strings.Replace(chat[1], "_chat_", "_admin_", 1)},
		"/admin/api/now", 401)
	check("another site's page", append(chat, "Sec-Fetch-Site", "cross-site"), "/v1/models", 403)
	if w := s.sends("POST", "/v1/conversations", "{}",
		append(chat, "Origin", "https://evil.example")...); w.Code != 403 {
		t.Errorf("another site's page posts: %d", w.Code)
	}
	if w := s.sends("POST", "/session", fmt.Sprintf(`{"key":%q}`, secret), "Origin",
		"https://evil.example"); w.Code != 403 {
		t.Errorf("another site's page signs in: %d", w.Code)
	}
	if o := parseObject(t, s.askHere("GET", "/session", chat...).Body.String()); o["signed_in"] != true ||
		o.text("name") != "boss" || o.text("redacted_key") != secret[:11]+"…" {
		t.Errorf("the session is shown as %v", o)
	}
	yes, no := true, false
	must(rig.store.ChangeKey(t.Context(), id, tenant.KeyChange{Blocked: &yes}))(t)
	must(0, rig.ring.Refresh(t.Context()))(t)
	both("blocked", 401)
	must(rig.store.ChangeKey(t.Context(), id, tenant.KeyChange{Blocked: &no}))(t)
	must(0, rig.ring.Refresh(t.Context()))(t)
	both("unblocked", 200)
	if w := s.sends("DELETE", "/session", "", chat...); w.Code != 200 ||
		!strings.Contains(w.Header().Get("Set-Cookie"), "Max-Age=0") {
		t.Errorf("sign-out: %d %v", w.Code, w.Header())
	}
	check("signed out", chat, "/v1/conversations", 401)
	check("the other session", admin, "/admin/api/now", 200)
	_, fresh, err := rig.store.RotateKey(t.Context(), id, 0, time.Now())
	must(0, err)(t)
	must(0, rig.ring.Refresh(t.Context()))(t)
	check("the secret was rotated out", admin, "/admin/api/now", 401)
	admin, _ = s.signIn(t, "/admin/session", fresh)
	check("the new secret", admin, "/admin/api/now", 200)
	must(0, rig.store.DeleteKey(t.Context(), id))(t)
	must(0, rig.ring.Refresh(t.Context()))(t)
	check("deleted", admin, "/admin/api/now", 401)
	if log := s.log.String(); strings.Contains(log, secret[11:]) ||
		strings.Contains(log, strings.SplitN(chat[1], "=", 2)[1]) {
		t.Error("a secret is in the log")
	}
}

// TestSessionsOnSockets connects as the page does, with its cookie.
func TestSessionsOnSockets(t *testing.T) {
	s, rig := startGuarded(t, &worker{script: speak(t, "Yes<|im_end|>", 0)}, newStoreName(t))
	secret, id := rig.key(tenant.NewKey{Organization: "acme"})
	rig.key(tenant.NewKey{})
	cookie, _ := s.signIn(t, "/session", secret)
	dial := func(origin string) (*websocket.Conn, error) {
		conn, _, err := websocket.Dial(t.Context(), "ws://parley/v1/chat/completions",
			&websocket.DialOptions{HTTPClient: s.client,
				HTTPHeader: http.Header{"Cookie": {cookie[1]}, "Origin": {origin}}})
		return conn, err
	}
	if _, err := dial("https://evil.example"); err == nil {
		t.Error("another site's page may connect")
	}
	conn, err := dial("http://parley")
	if err != nil {
		t.Fatal(err)
	}
	sendFrame(t, conn, chatBody(""))
	framesUntil(t, conn, "[DONE]")
	must(0, rig.store.DeleteKey(t.Context(), id))(t)
	must(0, rig.ring.Refresh(t.Context()))(t)
	if _, frame, err := conn.Read(t.Context()); err == nil {
		t.Errorf("the connection of a deleted key is open: %s", frame)
	}
}

// TestModelNamesAreForTheirKeys looks for a model's name where a key that may not use it
// reads, and for others' places in the queue.
func TestModelNamesAreForTheirKeys(t *testing.T) {
	s, rig := startGuarded(t, &worker{}, newStoreName(t))
	narrow, _ := rig.key(tenant.NewKey{Organization: "acme", Models: []string{"other"}})
	wide, _ := rig.key(tenant.NewKey{Organization: "beta"})
	for _, path := range []string{"/", "/v1/queue", "/v1/models", "/api/tags", "/api/ps"} {
		for secret, want := range map[string]bool{narrow: false, wide: true} {
			if w := s.askHere("GET", path, bearer(secret)...); w.Code != 200 ||
				strings.Contains(w.Body.String(), modelID) != want {
				t.Errorf("%s with a key that may use the model %v: %d %.300s", path, want, w.Code, w.Body)
			}
		}
	}
	for _, path := range []string{"show", "chat", "generate", "embed"} {
		body := `{"model":"` + modelID + `","messages":[{"role":"user","content":"Hi"}],"prompt":"Hi","input":"Hi"}`
		response, said := s.do("POST", "/api/"+path, body, bearer(narrow)...)
		if response.StatusCode != 404 || !strings.Contains(said, "does not exist or you do not have access") {
			t.Errorf("/api/%s with a key that may not use the model: %d %.300s", path, response.StatusCode, said)
		}
	}
	if w := s.askHere("GET", "/"); w.Code != 200 || strings.Contains(w.Body.String(), modelID) {
		t.Errorf("without a key: %d %.300s", w.Code, w.Body)
	}
	if w := s.askHere("GET", "/v1/queue", bearer(wide)...); strings.Contains(w.Body.String(), "enterprise") ||
		!strings.Contains(w.Body.String(), "free") {
		t.Errorf("a free key sees the queue of others: %s", w.Body)
	}
}

// TestModelNamesStayOnTheMachine: a server without keys names its models to programs of
// its machine, and not to a page whose name was made to point at it.
func TestModelNamesStayOnTheMachine(t *testing.T) {
	s, _ := startGuarded(t, &worker{}, newStoreName(t))
	for host, want := range map[string]bool{"localhost": true, "evil.example": false} {
		w := s.askHere("GET", "/", "Host", host)
		if w.Code != 200 || strings.Contains(w.Body.String(), modelID) != want {
			t.Errorf("as %s: %d %.300s", host, w.Code, w.Body)
		}
	}
}

// TestMetricsCanBeOpen reads metrics of a server that was told to show them.
func TestMetricsCanBeOpen(t *testing.T) {
	s, rig := startGuarded(t, &worker{}, newStoreName(t), func(c *Config) { c.MetricsOpen = true })
	rig.key(tenant.NewKey{})
	if w := s.askHere("GET", "/metrics"); w.Code != 200 {
		t.Errorf("%d: %.100s", w.Code, w.Body)
	}
}
