package gateway

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"parley/gateway/accounts"
	"parley/gateway/exchange"
	"parley/gateway/issuer"
)

// A fakeIssuer speaks OpenID Connect, and lies as a test wants.
type fakeIssuer struct {
	t      *testing.T
	server *httptest.Server
	key    *ecdsa.PrivateKey
	// claims are those of the next ID token beside the usual ones, which they replace.
	claims map[string]any
	// none signs nothing, foreign with a key that is not the issuer's.
	none, foreign bool
	// down answers nothing.
	down bool
	// nonce and challenge are those of the sign-in under way.
	nonce, challenge string
}

func newIssuer(t *testing.T) *fakeIssuer {
	f := &fakeIssuer{t: t, key: must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)}
	f.server = httptest.NewServer(f)
	t.Cleanup(f.server.Close)
	return f
}

func (f *fakeIssuer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if f.down {
		http.Error(w, "down", http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	switch r.URL.Path {
	case "/.well-known/openid-configuration":
		fmt.Fprintf(w, `{"issuer":%[1]q,"authorization_endpoint":"%[2]s/auth","token_endpoint":"%[2]s/token",
			"jwks_uri":"%[2]s/keys","id_token_signing_alg_values_supported":["ES256","none"]}`, f.server.URL, f.server.URL)
	case "/keys":
		_ = json.NewEncoder(w).Encode(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: f.key.Public(), KeyID: "1"}}})
	case "/token":
		sum := sha256.Sum256([]byte(r.FormValue("code_verifier")))
		id, secret, _ := r.BasicAuth()
		if r.FormValue("code") != "the-code" || base64.RawURLEncoding.EncodeToString(sum[:]) != f.challenge ||
			id != "parley" || secret != "client-secret" {
			http.Error(w, `{"error":"invalid_grant"}`, http.StatusBadRequest)
			return
		}
		fmt.Fprintf(w, `{"access_token":"x","token_type":"Bearer","id_token":%q}`, f.token())
	default:
		http.NotFound(w, r)
	}
}

func (f *fakeIssuer) token() string {
	claims := map[string]any{"iss": f.server.URL, "aud": "parley", "sub": "1", "nonce": f.nonce,
		"exp": time.Now().Add(time.Hour).Unix(), "iat": time.Now().Unix(), "email": "ann@example.com",
		"email_verified": true, "name": "Ann"}
	maps.Copy(claims, f.claims)
	payload := must(json.Marshal(claims))(f.t)
	if f.none {
		encode := base64.RawURLEncoding.EncodeToString
		return encode([]byte(`{"alg":"none"}`)) + "." + encode(payload) + "."
	}
	key := f.key
	if f.foreign {
		key = must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(f.t)
	}
	signer := must(jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256,
		Key: jose.JSONWebKey{Key: key, KeyID: "1"}}, nil))(f.t)
	return must(must(signer.Sign(payload))(f.t).CompactSerialize())(f.t)
}

// config is that of the server which trusts the issuer.
func (f *fakeIssuer) config(change func(*issuer.Config)) func(*Config) {
	return func(c *Config) {
		config := issuer.Config{URL: f.server.URL, ClientID: "parley", ClientSecret: "client-secret", Name: "Work"}
		if change != nil {
			change(&config)
		}
		c.Issuer = must(issuer.New(config, time.Now))(f.t)
	}
}

// begin starts a sign-in as the page does, and returns the state and its cookie.
func (f *fakeIssuer) begin(s *server, path, body string, headers ...string) (state string, cookie []string) {
	f.t.Helper()
	headers = append([]string{"Origin", "http://127.0.0.1:8080"}, headers...)
	w := s.sends("POST", path, body, headers...)
	if w.Code != 200 {
		f.t.Fatalf("begun with %d %s", w.Code, w.Body)
	}
	address := must(url.Parse(parseObject(f.t, w.Body.String()).text("url")))(f.t)
	q := address.Query()
	f.nonce, f.challenge = q.Get("nonce"), q.Get("code_challenge")
	if q.Get("redirect_uri") != "http://127.0.0.1:8080/session/callback" || q.Get("code_challenge_method") != "S256" ||
		f.nonce == "" || len(q.Get("state")) < 32 || !strings.HasPrefix(q.Get("scope"), "openid email profile") {
		f.t.Errorf("the browser is sent to %s", address)
	}
	set := w.Header().Get("Set-Cookie")
	for _, want := range []string{"HttpOnly", "SameSite=Lax", "Path=/session/callback"} {
		if !strings.Contains(set, want) {
			f.t.Errorf("the cookie of the state has not %s: %s", want, set)
		}
	}
	pair, _, _ := strings.Cut(set, "; ")
	return q.Get("state"), []string{"Cookie", pair}
}

// come has a browser come back from the issuer.
func (s *server) come(state string, headers ...string) *httptest.ResponseRecorder {
	headers = append(headers, "Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Accept", "text/html")
	return s.sends("GET", "/session/callback?code=the-code&state="+url.QueryEscape(state), "", headers...)
}

// sessionOf returns the cookie of the session that an answer opens, as a header; nil for none.
func sessionOf(w *httptest.ResponseRecorder) []string {
	for _, set := range w.Header().Values("Set-Cookie") {
		if pair, attributes, _ := strings.Cut(set, "; "); strings.Contains(pair, "=ps-") &&
			strings.Contains(attributes, "SameSite=Strict") {
			return []string{"Cookie", pair}
		}
	}
	return nil
}

// TestSignInAtIssuer signs in at an issuer, with groups that give a role and models, and
// again when they give less.
func TestSignInAtIssuer(t *testing.T) {
	f := newIssuer(t)
	s, rig := startGuarded(t, &worker{}, newStoreName(t), f.config(func(c *issuer.Config) {
		c.Domains = []string{"example.com"}
		c.Groups = []accounts.GroupRule{
			{Name: "staff", Grant: accounts.Grant{Organization: "acme", Tier: "pro"}},
			{Name: "bosses", Grant: accounts.Grant{Role: accounts.OrgAdmin, Models: []string{"polly"}}},
		}
	}))
	rig.person(s, "boss@example.com", accounts.Grant{Role: accounts.ServerAdmin, Organization: "local"})
	if o := s.wants(t, 200, "GET", "/session", ""); o.text("issuer") != "Work" {
		t.Errorf("the page is told %v", o)
	}
	sign := func(groups ...string) (*httptest.ResponseRecorder, []string) {
		f.claims = map[string]any{"groups": groups}
		state, cookie := f.begin(s, "/session/issuer", `{"return_to":"/c/conv_1"}`)
		w := s.come(state, cookie...)
		return w, sessionOf(w)
	}
	if w, session := sign("others"); session != nil || !strings.Contains(w.Body.String(), "You have no account") {
		t.Errorf("a stranger: %d %s", w.Code, w.Body)
	}
	w, session := sign("staff", "bosses")
	if w.Code != 200 || session == nil || !strings.Contains(w.Body.String(), `content="0;url=/c/conv_1"`) {
		t.Fatalf("%d %v %s", w.Code, w.Header(), w.Body)
	}
	u := s.wants(t, 200, "GET", "/account", "", session...)
	if u.text("organization") != "acme" || u.text("role") != "org-admin" || u.text("tier") != "pro" ||
		fmt.Sprint(u["models"]) != "[polly]" || u["has_password"] != false || u.text("name") != "Ann" {
		t.Errorf("signed in as %v", u)
	}
	if _, session = sign("staff"); session == nil {
		t.Fatal("the second sign-in")
	}
	if u := s.wants(t, 200, "GET", "/account", "", session...); u.text("role") != "member" || u["models"] != nil {
		t.Errorf("without the group of bosses: %v", u)
	}
	if log := s.log.String(); strings.Contains(log, "the-code") || strings.Contains(log, "client-secret") {
		t.Error("a secret is in the log")
	}
}

// TestSignInBehindAProxy: where a proxy speaks TLS, passkeys are for the name that the browser knows, and the
// session's cookie goes over TLS alone; what other peers say counts for nothing.
func TestSignInBehindAProxy(t *testing.T) {
	for _, c := range []struct {
		name, proxies, proto string
		secure               bool
	}{
		{"a trusted proxy with TLS", "127.0.0.0/8", "https", true},
		{"a trusted proxy without TLS", "127.0.0.0/8", "http", false},
		{"the nearest of two proxies counts", "127.0.0.0/8", "https, http", false},
		{"another peer", "10.0.0.0/8", "https", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newIssuer(t)
			s, rig := startGuarded(t, &worker{}, newStoreName(t), f.config(func(c *issuer.Config) {
				c.CreateUnknown = true
			}), func(config *Config) { config.TrustedProxies = must(exchange.ParseProxies(c.proxies))(t) })
			rig.person(s, "boss@example.com", accounts.Grant{Role: accounts.ServerAdmin, Organization: "local"})
			through := []string{"X-Forwarded-Proto", c.proto, "X-Forwarded-Host", "127.0.0.1:8080"}
			state, cookie := f.begin(s, "/session/issuer", `{"return_to":"/"}`, through...)
			w := s.come(state, append(cookie, through...)...)
			set := strings.Join(w.Header().Values("Set-Cookie"), "\n")
			if sessionOf(w) == nil || strings.Contains(set, "Secure") != c.secure {
				t.Errorf("the session's cookie is %q, want Secure to be %v: %s", set, c.secure, w.Body)
			}
			w = s.sends("POST", "/session/passkey", "{}", append(through, "X-Forwarded-Host", "chat.example.com")...)
			if made := strings.Contains(w.Body.String(), `"site":"chat.example.com"`); made != c.secure {
				t.Errorf("a passkey for chat.example.com: %d %s", w.Code, w.Body)
			}
		})
	}
}

// TestHostileIssuers: nothing that an issuer or a stranger between it and the browser makes
// up opens a session.
func TestHostileIssuers(t *testing.T) {
	f := newIssuer(t)
	s, rig := startGuarded(t, &worker{}, newStoreName(t), f.config(func(c *issuer.Config) {
		c.CreateUnknown, c.Domains = true, []string{"example.com"}
	}))
	rig.person(s, "boss@example.com", accounts.Grant{Role: accounts.ServerAdmin, Organization: "local"})
	for name, lie := range map[string]func(){
		"another audience":          func() { f.claims = map[string]any{"aud": "another"} },
		"another issuer":            func() { f.claims = map[string]any{"iss": "https://evil.example"} },
		"expired":                   func() { f.claims = map[string]any{"exp": time.Now().Add(-time.Hour).Unix()} },
		"another nonce":             func() { f.claims = map[string]any{"nonce": "guess"} },
		"no nonce":                  func() { f.claims = map[string]any{"nonce": ""} },
		"address not verified":      func() { f.claims = map[string]any{"email_verified": false} },
		"address verified by text":  func() { f.claims = map[string]any{"email_verified": "false"} },
		"no word on the address":    func() { f.claims = map[string]any{"email_verified": nil} },
		"another domain":            func() { f.claims = map[string]any{"email": "ann@example.com.evil.example"} },
		"two at signs":              func() { f.claims = map[string]any{"email": "ann@evil.example@example.com"} },
		"the address of an account": func() { f.claims = map[string]any{"email": "BOSS@example.com"} },
		"no subject":                func() { f.claims = map[string]any{"sub": ""} },
		"groups that are a number":  func() { f.claims = map[string]any{"groups": 3} },
		"no signature":              func() { f.none = true },
		"a foreign signature":       func() { f.foreign = true },
		"another verifier":          func() { f.challenge = "guess" },
	} {
		state, cookie := f.begin(s, "/session/issuer", `{"return_to":"/"}`)
		f.claims, f.none, f.foreign = nil, false, false
		lie()
		if w := s.come(state, cookie...); w.Code != 403 || sessionOf(w) != nil ||
			!strings.Contains(w.Body.String(), "You are not signed in") {
			t.Errorf("%s: %d %v %s", name, w.Code, w.Header(), w.Body)
		}
	}
	f.claims, f.none, f.foreign = nil, false, false
	state, cookie := f.begin(s, "/session/issuer", `{"return_to":"/"}`)
	other, _ := f.begin(s, "/session/issuer", `{"return_to":"/"}`)
	for what, w := range map[string]*httptest.ResponseRecorder{
		"without the cookie":     s.come(state),
		"with another's state":   s.come(other, cookie...),
		"with a state by guess":  s.come("guess", "Cookie", strings.Split(cookie[1], "=")[0]+"=guess"),
		"with an empty state":    s.come("", "Cookie", strings.Split(cookie[1], "=")[0]+"="),
		"refused by the issuer ": s.sends("GET", "/session/callback?error=access_denied&state="+other, "", cookie...),
	} {
		if w.Code != 403 || sessionOf(w) != nil {
			t.Errorf("%s: %d %s", what, w.Code, w.Body)
		}
	}
	state, cookie = f.begin(s, "/session/issuer", `{"return_to":"/admin"}`)
	if w := s.come(state, cookie...); w.Code != 200 || sessionOf(w) == nil {
		t.Fatalf("an honest one: %d %s", w.Code, w.Body)
	}
	if w := s.come(state, cookie...); w.Code != 403 || sessionOf(w) != nil {
		t.Errorf("replayed: %d %s", w.Code, w.Body)
	}
	for _, back := range []string{"//evil.example", "https://evil.example", `/\evil.example`, "/c/../x", "javascript:1"} {
		body := string(must(json.Marshal(map[string]string{"return_to": back}))(t))
		if w := s.sends("POST", "/session/issuer", body); w.Code != 400 {
			t.Errorf("a sign-in returns to %s: %d", back, w.Code)
		}
	}
	if w := s.sends("POST", "/session/issuer", `{"return_to":"/"}`, "Origin", "https://evil.example"); w.Code != 403 {
		t.Errorf("another site's page begins a sign-in: %d", w.Code)
	}
}

// TestIssuerIsDown: the page is told, and passwords go on.
func TestIssuerIsDown(t *testing.T) {
	f := newIssuer(t)
	f.down = true
	s, rig := startGuarded(t, &worker{}, newStoreName(t), f.config(nil))
	rig.person(s, "boss@example.com", accounts.Grant{Role: accounts.ServerAdmin, Organization: "local"})
	o := s.wants(t, 503, "POST", "/session/issuer", `{"return_to":"/"}`)
	if !strings.Contains(o.text("error", "message"), "Work does not answer") {
		t.Errorf("told %v", o)
	}
	s.enter(t, "/session", "boss@example.com", password)
	f.down = false
	state, cookie := f.begin(s, "/session/issuer", `{"return_to":"/"}`)
	f.down = true
	if w := s.come(state, cookie...); w.Code != 403 || !strings.Contains(w.Body.String(), "Work does not answer") {
		t.Errorf("down at the end: %d %s", w.Code, w.Body)
	}
}

// TestIdentitiesAreConnected: the owner of an account connects what they sign in with, and
// an invitation is accepted with it.
func TestIdentitiesAreConnected(t *testing.T) {
	f := newIssuer(t)
	s, rig := startGuarded(t, &worker{}, newStoreName(t), f.config(nil))
	u, cookie := rig.person(s, "ann@example.com", accounts.Grant{Organization: "acme"})
	s.wants(t, 400, "POST", "/account/identities", `{"current_password":"wrong"}`, cookie...)
	state, flow := f.begin(s, "/account/identities", `{"current_password":"`+password+`"}`, cookie...)
	session := sessionOf(s.come(state, flow...))
	if session == nil {
		t.Fatal("the identity was not connected")
	}
	state, flow = f.begin(s, "/session/issuer", `{"return_to":"/"}`)
	if session = sessionOf(s.come(state, flow...)); session == nil {
		t.Fatal("the sign-in with a connected identity")
	}
	if o := s.wants(t, 200, "GET", "/account", "", session...); o.text("id") != u.ID {
		t.Errorf("signed in as %v", o)
	}
	list := s.wants(t, 200, "GET", "/account/identities", "", session...)
	if !strings.Contains(fmt.Sprint(list), "Work") {
		t.Errorf("listed %v", list)
	}
	gone := fmt.Sprintf(`{"issuer":%q,"subject":"1"}`, f.server.URL)
	s.wants(t, 200, "DELETE", "/account/identities", gone, session...)
	s.wants(t, 404, "DELETE", "/account/identities", gone, session...)

	_, token, err := rig.store.Accounts().Invite(t.Context(), accounts.Invitation{Email: "bob@example.com",
		Grant: accounts.Grant{Organization: "acme", Role: accounts.OrgAdmin}}, time.Now())
	must(0, err)(t)
	f.claims = map[string]any{"sub": "2", "email": "bob@work.example"}
	state, flow = f.begin(s, "/session/issuer", `{"return_to":"/","invitation":"`+token+`"}`)
	if session = sessionOf(s.come(state, flow...)); session == nil {
		t.Fatal("the invitation was not accepted")
	}
	if o := s.wants(t, 200, "GET", "/account", "", session...); o.text("email") != "bob@example.com" ||
		o.text("role") != "org-admin" {
		t.Errorf("invited %v", o)
	}
}

// TestGroupsOfTheStore: what server admins give groups on the page counts from the next sign-in
// on, beside the configuration, which they do not change; and every change is in the audit log.
func TestGroupsOfTheStore(t *testing.T) {
	f := newIssuer(t)
	dsn := newStoreName(t)
	s, rig := startGuarded(t, &worker{}, dsn, auditedBy(t, dsn), f.config(func(c *issuer.Config) {
		c.Groups = []accounts.GroupRule{{Name: "staff", Grant: accounts.Grant{Organization: "acme"}}}
	}))
	rig.person(s, "boss@example.com", accounts.Grant{Role: accounts.ServerAdmin, Organization: "local"})
	_, ann := rig.person(s, "bob@example.com", accounts.Grant{Role: accounts.OrgAdmin, Organization: "acme"})
	admin := s.enter(t, "/admin/session", "boss@example.com", password)
	groups := adminOrganizationPrefix + "groups"
	sign := func() object {
		f.claims = map[string]any{"groups": []string{"/eng/gpu"}}
		state, cookie := f.begin(s, "/session/issuer", `{"return_to":"/"}`)
		session := sessionOf(s.come(state, cookie...))
		if session == nil {
			return nil
		}
		return s.wants(t, 200, "GET", "/account", "", session...)
	}
	if u := sign(); u != nil {
		t.Fatalf("a group that nothing names signs in as %v", u)
	}
	body := `{"name":"/eng/gpu","organization":"acme","tier":"pro","models":["polly"]}`
	s.wants(t, 200, "POST", groups, body, admin...)
	if u := sign(); u.text("organization") != "acme" || u.text("tier") != "pro" || u.text("role") != "member" ||
		fmt.Sprint(u["models"]) != "[polly]" {
		t.Errorf("signed in as %v", u)
	}
	s.wants(t, 200, "POST", groups, `{"name":"/eng/gpu","organization":"acme","role":"org-admin","tier":"free"}`, admin...)
	if u := sign(); u.text("tier") != "free" || u.text("role") != "org-admin" {
		t.Errorf("after the change %v", u)
	}
	list := fmt.Sprint(s.wants(t, 200, "GET", groups, "", admin...)["data"])
	if !strings.Contains(list, "configured:true models:<nil> name:staff") || !strings.Contains(list, "name:/eng/gpu") {
		t.Errorf("listed %s", list)
	}
	if seen := s.wants(t, 200, "GET", groupsPath, "", ann...)["data"].([]any); len(seen) != 2 {
		t.Errorf("an admin of acme sees %v", seen)
	}
	for want, bodies := range map[int][]string{
		400: {`{"name":"x"}`, `{"name":"","tier":"pro"}`, `{"name":" x","tier":"pro"}`, `{"name":"x","tier":"gold"}`,
			`{"name":"x","role":"king"}`, `{"name":"a\nb","tier":"pro"}`},
		409: {`{"name":"staff","tier":"pro"}`},
	} {
		for _, body := range bodies {
			s.wants(t, want, "POST", groups, body, admin...)
		}
	}
	s.wants(t, 403, "POST", groupsPath, body, ann...)
	s.wants(t, 403, "DELETE", groupsPath, `{"name":"/eng/gpu"}`, ann...)
	s.wants(t, 404, "DELETE", groups, `{"name":"none"}`, admin...)
	s.wants(t, 409, "DELETE", groups, `{"name":"staff"}`, admin...)
	s.wants(t, 200, "DELETE", groups, `{"name":"/eng/gpu"}`, admin...)
	if list := s.wants(t, 200, "GET", groups, "", admin...)["data"].([]any); len(list) != 1 {
		t.Errorf("after deletion %v", list)
	}
	log := fmt.Sprint(s.wants(t, 200, "GET", adminOrganizationPrefix+"audit_logs?limit=100", "", admin...))
	for _, want := range []string{"group.updated", "group.deleted", "/eng/gpu"} {
		if !strings.Contains(log, want) {
			t.Errorf("the audit log has not %s: %s", want, log)
		}
	}
}
