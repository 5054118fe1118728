package gateway

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"parley"
	"parley/gateway/batch"
	"parley/gateway/convo"
	"parley/gateway/db"
	"parley/gateway/models"
	"parley/gateway/tenant"
	"parley/limit"

	"github.com/coder/websocket"
)

// A tenantRig is the store of a server that asks for keys.
type tenantRig struct {
	t     *testing.T
	store *tenant.Store
	ring  *tenant.Keyring
}

// guardedBy lets a server keep everything in the store that dsn names, keys
// included.
func guardedBy(t *testing.T, dsn string, rig *tenantRig) func(*Config) {
	return func(c *Config) {
		d := must(db.Open(context.Background(), dsn))(t)
		t.Cleanup(func() { d.Close() })
		rig.t, rig.store = t, must(tenant.New(context.Background(), d))(t)
		rig.ring = must(tenant.NewKeyring(context.Background(), rig.store, tenant.DefaultTiers(), c.Log))(t)
		t.Cleanup(rig.ring.Close)
		c.Keys, c.Store, c.NoTitles = rig.ring, must(convo.New(context.Background(), d))(t), true
		c.Batches = must(batch.Open(t.TempDir(), batch.Limits{}))(t)
		t.Cleanup(func() { c.Batches.Close() })
	}
}

// startGuarded serves w with a store of keys.
func startGuarded(t *testing.T, w parley.Worker, dsn string, change ...func(*Config)) (*server, *tenantRig) {
	rig := &tenantRig{}
	s := start(t, w, append([]func(*Config){guardedBy(t, dsn, rig)}, change...)...)
	t.Cleanup(func() {
		now, cancel := context.WithCancel(context.Background())
		cancel()
		s.gateway.Close(now)
	})
	return s, rig
}

func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// key makes a key and returns its secret and its id.
func (r *tenantRig) key(n tenant.NewKey) (secret, id string) {
	r.t.Helper()
	k, secret, err := r.store.CreateKey(r.t.Context(), n, time.Now())
	if err == nil {
		err = r.ring.Refresh(r.t.Context())
	}
	if err != nil {
		r.t.Fatal(err)
	}
	return secret, k.ID
}

func newStoreName(t *testing.T) string { return filepath.Join(t.TempDir(), "parley.db") }

func bearer(secret string) []string { return []string{"Authorization", "Bearer " + secret} }

// TestEveryRouteNeedsAKey asks on all routes there are, without a key and with a
// wrong one.
func TestEveryRouteNeedsAKey(t *testing.T) {
	w := &worker{}
	s, rig := startGuarded(t, w, newStoreName(t))
	rig.key(tenant.NewKey{})
	wrong, id := rig.key(tenant.NewKey{})
	if err := rig.store.DeleteKey(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	if err := rig.ring.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	routes := s.gateway.routes.all()
	if len(routes) < 40 {
		t.Fatalf("only %d routes are there", len(routes))
	}
	for _, r := range routes {
		for method := range r.methods {
			headers := []string{"Content-Type", "application/json"}
			if method == upgrade {
				method, headers = "GET", []string{"Connection", "Upgrade", "Upgrade", "websocket",
					"Sec-WebSocket-Version", "13", "Sec-WebSocket-Key", "AAAAAAAAAAAAAAAAAAAAAA=="}
			}
			path := strings.NewReplacer("{", "", "}", "").Replace(r.name)
			for what, more := range map[string][]string{"no key": nil, "a wrong key": bearer(wrong),
				"a foreign key": {"X-Api-Key", "sk-live"}} {
				response, body := s.do(method, path, "{}", append(headers, more...)...)
				if want := response.StatusCode == 401; want == r.access.isOpen() {
					t.Errorf("%s %s with %s gives %d: %.100s", method, path, what, response.StatusCode, body)
				}
				if response.StatusCode == 401 && !strings.HasPrefix(response.Header.Get("WWW-Authenticate"), "Bearer") {
					t.Errorf("%s %s does not say how to authenticate", method, path)
				}
			}
		}
	}
	if len(w.asked) != 0 {
		t.Errorf("the worker was asked %d times", len(w.asked))
	}
}

// TestKeysAreShown has every interface take its own header.
func TestKeysAreShown(t *testing.T) {
	s, rig := startGuarded(t, &worker{script: speak(t, "Yes<|im_end|>", 0)}, newStoreName(t))
	pro := parley.Pro
	secret, _ := rig.key(tenant.NewKey{Organization: "acme", Tier: &pro}) // a free one may not ask so often
	message := `{"model":"` + modelID + `","max_tokens":5,"messages":[{"role":"user","content":"Hi"}]}`
	for _, headers := range [][]string{bearer(secret), {"Authorization", "bearer " + secret}, {"X-Api-Key", secret}} {
		for path, body := range map[string]string{"/v1/chat/completions": chatBody(""), "/v1/messages": message} {
			if response, answer := s.do("POST", path, body, headers...); response.StatusCode != 200 {
				t.Errorf("%s with %s: %d %s", path, headers[0], response.StatusCode, answer)
			}
		}
	}
	_, answer := s.do("POST", "/v1/messages", message)
	if o := parseObject(t, answer); o.text("type") != "error" || o.text("error", "type") != "authentication_error" {
		t.Errorf("Anthropic's clients are told %s", answer)
	}
	_, answer = s.do("POST", "/v1/chat/completions", chatBody(""))
	if o := parseObject(t, answer); o.text("error", "code") != "missing_api_key" ||
		o.text("error", "type") != "invalid_request_error" {
		t.Errorf("OpenAI's clients are told %s", answer)
	}
	_, answer = s.do("POST", "/v1/chat/completions", chatBody(""), bearer(secret+"x")...)
	if o := parseObject(t, answer); o.text("error", "code") != "invalid_api_key" || strings.Contains(answer, secret) {
		t.Errorf("OpenAI's clients are told %s", answer)
	}
}

// TestWebSocketKeys connects with a header and, as pages do, with a protocol; a
// key that is blocked ends the connection, also after it has answered.
func TestWebSocketKeys(t *testing.T) {
	s, rig := startGuarded(t, &worker{script: speak(t, "Yes<|im_end|>", 0)}, newStoreName(t))
	secret, id := rig.key(tenant.NewKey{Organization: "acme"})
	if _, response, err := s.dial("/v1/chat/completions"); err == nil || response.StatusCode != 401 {
		t.Errorf("without a key: %v", err)
	}
	conn, _, err := websocket.Dial(t.Context(), "ws://parley/v1/chat/completions",
		&websocket.DialOptions{HTTPClient: s.client,
			Subprotocols: []string{"realtime", "openai-insecure-api-key." + secret}})
	if err != nil {
		t.Fatal(err)
	}
	if conn.Subprotocol() != "realtime" {
		t.Errorf("the protocol is %q", conn.Subprotocol())
	}
	conn.CloseNow()
	conn = s.mustDial("/v1/chat/completions", bearer(secret)...)
	sendFrame(t, conn, chatBody(""))
	framesUntil(t, conn, "[DONE]")
	yes := true
	must(rig.store.ChangeKey(t.Context(), id, tenant.KeyChange{Blocked: &yes}))(t)
	must(0, rig.ring.Refresh(t.Context()))(t)
	if _, frame, err := conn.Read(t.Context()); err == nil {
		t.Errorf("the connection of a blocked key is open: %s", frame)
	}
	if _, response, err := s.dial("/v1/chat/completions", bearer(secret)...); err == nil ||
		response.StatusCode != 401 && response.StatusCode != 403 {
		t.Errorf("a blocked key connects: %v", err)
	}
}

// TestTenantsSeeTheirOwn makes things with one key and looks for them with keys
// of another organisation, of another user, and of the same user.
func TestTenantsSeeTheirOwn(t *testing.T) {
	s, rig := startGuarded(t, &worker{script: speak(t, "Yes<|im_end|>", 0)}, newStoreName(t))
	ann, _ := rig.key(tenant.NewKey{Organization: "acme", User: "ann"})
	anns, _ := rig.key(tenant.NewKey{Organization: "acme", User: "ann"})
	bob, _ := rig.key(tenant.NewKey{Organization: "acme", User: "bob"})
	other, _ := rig.key(tenant.NewKey{Organization: "other", User: "ann"})
	admin, _ := rig.key(tenant.NewKey{Admin: true})
	for _, organization := range []string{"acme", "other"} { // the test asks more than the free tier may
		must(rig.store.ChangeOrganization(t.Context(), organization,
			tenant.OrganizationChange{Limits: &limit.Limits{RequestsPerSecond: 1000, RequestsPerMinute: 1000}}))(t)
	}

	_, o := s.call("POST", "/v1/conversations", `{"items":[{"role":"user","content":"Hi"}]}`, bearer(ann)...)
	conversation := "/v1/conversations/" + o.text("id")
	_, o = s.call("POST", "/v1/responses", responseBody(`"Hi"`, ""), bearer(ann)...)
	response := "/v1/responses/" + o.text("id")
	contentType, body := form("file", "line\n", "purpose", "batch")
	_, o = s.call("POST", "/v1/files", body, append(bearer(ann), "Content-Type", contentType)...)
	file := o.text("id")
	_, o = s.call("POST", "/v1/batches",
		`{"input_file_id":"`+file+`","endpoint":"/v1/chat/completions","completion_window":"24h"}`, bearer(ann)...)
	paths := []string{conversation, conversation + "/items", response, "/v1/files/" + file,
		"/v1/files/" + file + "/content", "/v1/batches/" + o.text("id")}
	for _, path := range paths {
		for name, secret := range map[string]string{"other": other, "bob": bob, "admin": admin} {
			if r, answer := s.do("GET", path, "", bearer(secret)...); r.StatusCode != 404 {
				t.Errorf("%s sees %s: %d %.200s", name, path, r.StatusCode, answer)
			}
		}
		for _, secret := range []string{ann, anns} {
			if r, answer := s.do("GET", path, "", bearer(secret)...); r.StatusCode != 200 {
				t.Errorf("ann does not see %s: %d %.200s", path, r.StatusCode, answer)
			}
		}
	}
	conn := s.mustDial("/v1/responses", bearer(other)...)
	sendFrame(t, conn, fmt.Sprintf(`{"type":"response.create","model":%q,"input":"x","previous_response_id":%q}`,
		modelID, strings.TrimPrefix(response, "/v1/responses/")))
	framesUntil(t, conn, "previous_response_not_found")
	for _, list := range []string{"/v1/conversations", "/v1/files", "/v1/batches"} {
		if _, o := s.call("GET", list, "", bearer(other)...); len(o["data"].([]any)) != 0 {
			t.Errorf("%s shows another's: %v", list, o)
		}
	}
}

// TestTheTenantReachesTheWorker looks at what the worker is asked for two
// tenants: class, tenant and salt.
func TestTheTenantReachesTheWorker(t *testing.T) {
	w := &worker{script: speak(t, "Yes<|im_end|>", 0)}
	s, rig := startGuarded(t, w, newStoreName(t))
	pro := parley.Pro
	one, _ := rig.key(tenant.NewKey{Organization: "one", Tier: &pro})
	again, _ := rig.key(tenant.NewKey{Organization: "one"})
	two, _ := rig.key(tenant.NewKey{Organization: "two"})
	for _, secret := range []string{one, again, two} {
		if status, _ := s.call("POST", "/v1/chat/completions", chatBody(`,"temperature":1`),
			bearer(secret)...); status != 200 {
			t.Fatal(status)
		}
	}
	a, b, c := w.asked[0], w.asked[1], w.asked[2]
	if a.Tenant != "one" || b.Tenant != "one" || c.Tenant != "two" || a.Class != parley.Pro || b.Class != parley.Pro ||
		c.Class != parley.Free {
		t.Errorf("asked for %s %s, %s %s, %s %s", a.Tenant, a.Class, b.Tenant, b.Class, c.Tenant, c.Class)
	}
	if a.Salt != b.Salt || a.Salt == c.Salt || a.Salt == (parley.Salt{}) {
		t.Errorf("salts %x %x %x", a.Salt, b.Salt, c.Salt)
	}
}

// TestModelsByTier has one name stand for a small model and for a large one.
func TestModelsByTier(t *testing.T) {
	large, small := &worker{script: speak(t, "Yes<|im_end|>", 0)}, &worker{script: speak(t, "No<|im_end|>", 0)}
	s, rig := startGuarded(t, large, newStoreName(t), func(c *Config) {
		mini := c.Models[0]
		mini.ID, mini.Worker, c.Models[0].Default = "mini", small, true
		mini.ContextTokens = c.Models[0].Context()
		c.Models = append(c.Models, mini)
		c.Aliases = map[string]models.Alias{"chat": {"mini", modelID, modelID}, "gpt-4.1": models.AliasOf(modelID),
			modelID: {parley.Free: "mini"}}
	})
	pro := parley.Pro
	free, _ := rig.key(tenant.NewKey{Organization: "f"})
	other, _ := rig.key(tenant.NewKey{Organization: "g"}) // also free, which allows two requests in a second
	paid, _ := rig.key(tenant.NewKey{Organization: "p", Tier: &pro})
	narrow, _ := rig.key(tenant.NewKey{Organization: "p", Models: []string{"chat"}})
	ask := func(secret, name string) string {
		_, o := s.call("POST", "/v1/chat/completions",
			`{"model":"`+name+`","messages":[{"role":"user","content":"Hi"}]}`, bearer(secret)...)
		if code := o["error"]; code != nil {
			return o.text("error", "code")
		}
		return o.text("model")
	}
	for _, c := range []struct{ secret, name, want string }{
		{free, "chat", "mini"}, {paid, "chat", modelID}, {free, modelID, "mini"}, {paid, modelID, modelID},
		{paid, "gpt-4.1", modelID}, {other, "", "mini"}, {paid, "", modelID},
		{narrow, "chat", modelID}, {narrow, "mini", "model_not_found"}, {narrow, "gpt-4.1", "model_not_found"},
		{paid, "nothing", "model_not_found"},
	} {
		if got := ask(c.secret, c.name); got != c.want {
			t.Errorf("%q gives %q, want %q", c.name, got, c.want)
		}
	}
	_, o := s.call("GET", "/v1/models", "", bearer(narrow)...)
	if list := o["data"].([]any); len(list) != 1 || o.text("data", "id") != "chat" {
		t.Errorf("the narrow key sees %v", list)
	}
	if _, o := s.call("GET", "/v1/models", "", bearer(paid)...); len(o["data"].([]any)) != 4 {
		t.Errorf("the paid key sees %v", o)
	}
}

// TestTwoGateways blocks a key at one gateway and has another refuse it.
func TestTwoGateways(t *testing.T) {
	test := func(t *testing.T, dsn string) {
		one, rig := startGuarded(t, &worker{script: speak(t, "Yes<|im_end|>", 0)}, dsn)
		two, _ := startGuarded(t, &worker{script: speak(t, "Yes<|im_end|>", 0)}, dsn)
		admin, _ := rig.key(tenant.NewKey{Admin: true})
		_, made := one.call("POST", keysPath, `{"name":"site","organization":"acme"}`, bearer(admin)...)
		secret := made.text("value")
		status := func() int {
			status, _ := two.call("GET", "/v1/models", "", bearer(secret)...)
			return status
		}
		until := func(want int) time.Duration {
			began := time.Now()
			for status() != want {
				time.Sleep(5 * time.Millisecond)
			}
			return time.Since(began)
		}
		until(200)
		for _, blocked := range []bool{true, false, true} {
			one.call("POST", keysPath+"/"+made.text("id"), fmt.Sprintf(`{"blocked":%v}`, blocked), bearer(admin)...)
			if blocked {
				t.Logf("refused after %v", until(401))
			} else {
				until(200)
			}
			if got, _ := one.call("GET", "/v1/models", "", bearer(secret)...); (got == 401) != blocked {
				t.Errorf("the gateway that was told gives %d", got)
			}
		}
	}
	t.Run("SQLite", func(t *testing.T) { test(t, newStoreName(t)) })
	t.Run("PostgreSQL", func(t *testing.T) { test(t, postgresDSN(t)) })
}

// TestAdminRoutes manages keys over the interface.
func TestAdminRoutes(t *testing.T) {
	s, rig := startGuarded(t, &worker{}, newStoreName(t))
	admin, adminID := rig.key(tenant.NewKey{Admin: true, Name: "root"})
	plain, _ := rig.key(tenant.NewKey{Organization: "acme"})
	for _, path := range []string{keysPath, adminKeysPath, projectsPath} {
		if status, o := s.call("GET", path, "", bearer(plain)...); status != 403 ||
			o.text("error", "code") != "permission_denied" {
			t.Errorf("a plain key gets %d at %s", status, path)
		}
	}
	call := func(method, path, body string) (int, object) {
		t.Helper()
		return s.call(method, path, body, bearer(admin)...)
	}
	status, made := call("POST", keysPath,
		`{"name":"site","organization":"acme","user":"ann","tier":"pro","models":["a"],"limits":{"requests_per_minute":5,"monthly_budget":"2.50"},"expires_in_seconds":60}`)
	if status != 200 || made.text("object") != "organization.api_key" || made.text("tier") != "pro" || made.text(
		"limits", "monthly_budget") != "2.50" || made.text("owner", "type") != "user" || made["expires_at"] == nil {
		t.Errorf("%d %v", status, made)
	}
	path := keysPath + "/" + made.text("id")
	if _, shown := call("GET", path, ""); shown["value"] != nil ||
		shown.text("redacted_value") != made.text("value")[:11]+"…" {
		t.Errorf("shown as %v", shown)
	}
	_, changed := call("POST", path, `{"tier":null,"models":null,"name":"site 2","expires_at":null}`)
	if changed["tier"] != nil || changed["models"] != nil || changed["expires_at"] != nil ||
		changed.text("name") != "site 2" || changed.text("user") != "ann" {
		t.Errorf("changed to %v", changed)
	}
	_, rotated := call("POST", path+"/rotate", "")
	for secret, want := range map[string]int{made.text("value"): 401, rotated.text("value"): 200} {
		if status, _ := s.call("GET", "/v1/models", "", bearer(secret)...); status != want {
			t.Errorf("after the rotation: %d, want %d", status, want)
		}
	}
	if _, o := call("GET", keysPath+"?limit=2", ""); len(o["data"].([]any)) != 2 || o["has_more"] != true ||
		o.text("first_id") != adminID {
		t.Errorf("listed %v", o)
	}
	if _, o := call("GET", adminKeysPath, ""); len(o["data"].([]any)) != 1 {
		t.Errorf("admins %v", o)
	}
	if _, o := call("GET", projectsPath+"/acme/api_keys", ""); len(o["data"].([]any)) != 2 {
		t.Errorf("keys of acme %v", o)
	}
	adminProjects(t, s, admin, plain, made.text("id"))
}

// adminProjects is the half of TestAdminRoutes about organisations; acme has the
// key plain, and one of ann's with the id given.
func adminProjects(t *testing.T, s *server, admin, plain, id string) {
	path := keysPath + "/" + id
	call := func(method, path, body string) (int, object) {
		t.Helper()
		return s.call(method, path, body, bearer(admin)...)
	}
	if status, o := call("GET", projectsPath+"/acme/api_keys/"+id, ""); status != 200 ||
		o.text("owner", "user", "id") != "ann" {
		t.Errorf("%d %v", status, o)
	}
	for _, method := range []string{"GET", "DELETE"} {
		if status, _ := call(method, projectsPath+"/local/api_keys/"+id, ""); status != 404 {
			t.Errorf("%s of another's key gives %d", method, status)
		}
	}
	if status, o := call("POST", projectsPath,
		`{"name":"beta","tier":"enterprise","limits":{"requests_per_minute":9}}`); status != 200 ||
		o.text("tier") != "enterprise" || o.text("status") != "active" {
		t.Errorf("%d %v", status, o)
	}
	if _, o := call("POST", projectsPath+"/acme", `{"blocked":true}`); o.text("status") != "archived" {
		t.Errorf("archived %v", o)
	}
	if status, o := s.call("GET", "/v1/models", "", bearer(plain)...); status != 401 ||
		!strings.Contains(o.text("error", "message"), "blocked") {
		t.Errorf("a key of a blocked organisation: %d %v", status, o)
	}
	if _, o := call("GET", projectsPath+"/acme/users", ""); o.text("data", "id") != "ann" {
		t.Errorf("users %v", o)
	}
	if status, _ := call("POST", projectsPath+"/acme/users/ann", `{"blocked":true}`); status != 200 {
		t.Error(status)
	}
	if status, _ := call("DELETE", path, ""); status != 200 {
		t.Error(status)
	}
	for _, c := range []struct {
		method, path string
		want         int
	}{
		{"GET", path, 404}, {"DELETE", path, 404}, {"DELETE", projectsPath + "/acme", 409},
		{"DELETE", projectsPath + "/beta", 200}, {"GET", projectsPath + "/beta", 404},
	} {
		if status, o := call(c.method, c.path, ""); status != c.want {
			t.Errorf("%s %s gives %d %v", c.method, c.path, status, o)
		}
	}
	for _, bad := range []string{`{`, `{"nme":"x"}`, `{"tier":"gold"}`, `{"limits":{"requests_per_minute":-1}}`,
		`{"expires_at":1}`, `{"organization":"a b"}`, `{} {}`, `{"blocked":true}`} {
		if status, o := call("POST", keysPath, bad); status != 400 {
			t.Errorf("%s gives %d %v", bad, status, o)
		}
	}
}

// TestNoKeyInLogs uses keys in every way, and then looks through all that was
// logged, at the finest level.
func TestNoKeyInLogs(t *testing.T) {
	var log lockedBuffer
	s, rig := startGuarded(t, &worker{script: speak(t, "Yes<|im_end|>", 0)}, newStoreName(t), func(c *Config) {
		c.Log = slog.New(slog.NewJSONHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	})
	admin, _ := rig.key(tenant.NewKey{Admin: true})
	_, made := s.call("POST", keysPath, `{"name":"site"}`, bearer(admin)...)
	_, rotated := s.call("POST", keysPath+"/"+made.text("id")+"/rotate", "", bearer(admin)...)
	secrets := []string{admin, made.text("value"), rotated.text("value"), "sk-from-elsewhere-0123456789"}
	for _, secret := range secrets {
		for _, headers := range [][]string{bearer(secret), {"X-Api-Key", secret},
			{"Authorization", "Basic " + secret}} {
			s.do("POST", "/v1/chat/completions", chatBody(""), headers...)
			s.do("POST", "/v1/chat/completions", "{", headers...)
			s.do("POST", "/v1/messages", "{", headers...)
			s.do("GET", "/v1/nothing", "", headers...)
		}
		if conn, _, err := websocket.Dial(t.Context(), "ws://parley/v1/chat/completions",
			&websocket.DialOptions{HTTPClient: s.client,
				Subprotocols: []string{"openai-insecure-api-key." + secret}}); err == nil {
			conn.CloseNow()
		}
	}
	text := log.String()
	if strings.Count(text, "\n") < 40 {
		t.Fatalf("little was logged: %s", text)
	}
	for _, secret := range secrets {
		if strings.Contains(text, secret) || strings.Contains(text, secret[len(secret)-20:]) {
			t.Errorf("a key is in the log")
		}
	}
}

// A lockedBuffer can be written to by many.
type lockedBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write adds p.
func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

// String returns what was written.
func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// TestWithoutKeys asks a server that has none with its token, from here and from
// elsewhere.
func TestWithoutKeys(t *testing.T) {
	s, rig := startGuarded(t, &worker{script: speak(t, "Yes<|im_end|>", 0)}, newStoreName(t), func(c *Config) {
		c.AllowOrigins, c.LocalToken = []string{"https://ok.example"}, localToken
	})
	for _, c := range []struct {
		what, remote, host string
		headers            []string
		want               int
	}{
		{"from here", "127.0.0.1:9", "127.0.0.1:8080", nil, 200},
		{"by name", "127.0.0.1:9", "localhost:8080", nil, 200},
		{"by another name of here", "[::1]:9", "parley.localhost", nil, 200},
		{"by IPv6", "[::1]:9", "[::1]:8080", nil, 200},
		{"from our page", "127.0.0.1:9", "localhost:8080", []string{"Origin", "http://localhost:8080"}, 200},
		{"from an allowed page", "127.0.0.1:9", "localhost:8080", []string{"Origin", "https://ok.example"}, 200},
		{"from elsewhere", "192.0.2.7:9", "127.0.0.1:8080", nil, 403},
		{"rebound", "127.0.0.1:9", "evil.example:8080", nil, 403},
		{"rebound to look local", "127.0.0.1:9", "localhost.evil.example", nil, 403},
		{"an address of ours", "127.0.0.1:9", "192.0.2.7:8080", nil, 403},
		{"a foreign page", "127.0.0.1:9", "localhost:8080", []string{"Origin", "https://evil.example"}, 403},
		{"a page of nowhere", "127.0.0.1:9", "localhost:8080", []string{"Origin", "null"}, 403},
		{"a page of another port", "127.0.0.1:9", "localhost:8080", []string{"Origin", "http://localhost:3000"}, 403},
		{"through a proxy", "127.0.0.1:9", "127.0.0.1:8080", []string{"X-Forwarded-For", "192.0.2.7"}, 403},
		{"no address", "", "localhost", nil, 403},
	} {
		for _, path := range []string{"/v1/models", "/metrics", keysPath, "/admin/api/now"} {
			r := httptest.NewRequest("GET", path, nil)
			r.RemoteAddr, r.Host = c.remote, c.host
			r.Header.Set("Authorization", "Bearer "+localToken)
			for i := 0; i < len(c.headers); i += 2 {
				r.Header.Set(c.headers[i], c.headers[i+1])
			}
			w := httptest.NewRecorder()
			s.gateway.ServeHTTP(w, r)
			if w.Code != c.want {
				t.Errorf("%s at %s: %d %s", c.what, path, w.Code, w.Body)
			}
			if w.Code == 403 && path == "/v1/models" && !strings.Contains(w.Body.String(), "no API keys") {
				t.Errorf("%s: %s", c.what, w.Body)
			}
		}
	}
	// From the first key on, what was open here needs one.
	admin, _ := rig.key(tenant.NewKey{Admin: true})
	plain, _ := rig.key(tenant.NewKey{})
	for _, c := range []struct {
		path, remote, secret string
		want                 int
	}{
		{"/metrics", "127.0.0.1:9", "", 401}, {"/metrics", "192.0.2.7:9", "", 401},
		{"/metrics", "192.0.2.7:9", admin, 200}, {"/metrics", "192.0.2.7:9", plain, 403},
		{"/admin/api/now", "127.0.0.1:9", "", 401}, {"/admin/api/now", "192.0.2.7:9", admin, 200},
		{"/admin/api/now", "192.0.2.7:9", plain, 403},
		{"/v1/models", "127.0.0.1:9", "", 401}, {"/healthz", "192.0.2.7:9", "", 200}, {"/", "192.0.2.7:9", "", 200},
	} {
		r := httptest.NewRequest("GET", "http://localhost:8080"+c.path, nil)
		r.RemoteAddr = c.remote
		if c.secret != "" {
			r.Header.Set("Authorization", "Bearer "+c.secret)
		}
		w := httptest.NewRecorder()
		s.gateway.ServeHTTP(w, r)
		if w.Code != c.want {
			t.Errorf("%s from %s: %d, want %d: %.200s", c.path, c.remote, w.Code, c.want, w.Body)
		}
	}
}

// TestDeletingTheLastKeyOpensNothing deletes the only key of a server: its own machine
// needs a key as before, until there is a new one.
func TestDeletingTheLastKeyOpensNothing(t *testing.T) {
	s, rig := startGuarded(t, &worker{}, newStoreName(t))
	secret, id := rig.key(tenant.NewKey{Admin: true})
	if w := s.askHere("GET", "/v1/models", bearer(secret)...); w.Code != 200 {
		t.Fatalf("with its key: %d %s", w.Code, w.Body)
	}
	if err := errors.Join(rig.store.DeleteKey(t.Context(), id), rig.ring.Refresh(t.Context())); err != nil {
		t.Fatal(err)
	}
	for _, headers := range [][]string{nil, bearer(secret), bearer("sk-anything")} {
		for _, path := range []string{"/v1/models", "/v1/conversations", "/metrics"} {
			if w := s.askHere("GET", path, headers...); w.Code != 401 {
				t.Errorf("GET %s with %v: %d %.200s", path, headers, w.Code, w.Body)
			}
		}
	}
	secret, _ = rig.key(tenant.NewKey{})
	if w := s.askHere("GET", "/v1/models", bearer(secret)...); w.Code != 200 {
		t.Errorf("with a new key: %d %s", w.Code, w.Body)
	}
}
