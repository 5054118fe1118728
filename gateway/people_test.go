package gateway

import (
	"archive/zip"
	"bytes"
	"fmt"
	"io"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"parley/gateway/accounts"
	"parley/gateway/tenant"
)

const password = "correct horse battery"

// person makes an account and returns the cookie of a session of the chat page. The first
// account of a server is an admin, so another one comes before a first who is not to be.
func (r *tenantRig) person(s *server, email string, g accounts.Grant) (u accounts.User, cookie []string) {
	r.t.Helper()
	if g.Role != accounts.ServerAdmin && !r.ring.HasAccounts() {
		must(r.store.Accounts().Create(r.t.Context(), accounts.NewUser{Email: "root@example.com",
			Grant: accounts.Grant{Organization: "local"}}, s.gateway.config.Now()))(r.t)
	}
	must(0, r.store.EnsureOrganization(r.t.Context(), g.Organization, s.gateway.config.Now()))(r.t)
	u = must(r.store.Accounts().Create(r.t.Context(),
		accounts.NewUser{Email: email, Name: "Some Body", Password: password, Grant: g}, s.gateway.config.Now()))(r.t)
	must(0, r.ring.Refresh(r.t.Context()))(r.t)
	return u, s.enter(r.t, "/session", email, password)
}

// enter signs in with a password, and returns the cookie as a header.
func (s *server) enter(t *testing.T, path, email, password string) []string {
	t.Helper()
	w := s.sends("POST", path, fmt.Sprintf(`{"email":%q,"password":%q}`, email, password))
	pair, _, _ := strings.Cut(w.Header().Get("Set-Cookie"), "; ")
	if w.Code != 200 || pair == "" {
		t.Fatalf("sign-in at %s: %d %s", path, w.Code, w.Body)
	}
	return []string{"Cookie", pair}
}

// wants sends a request and returns its answer, which must have a status.
func (s *server) wants(t *testing.T, status int, method, path, body string, headers ...string) object {
	t.Helper()
	w := s.sends(method, path, body, headers...)
	if w.Code != status {
		t.Fatalf("%s %s %s: %d, want %d: %.300s", method, path, body, w.Code, status, w.Body)
	}
	return parseObject(t, w.Body.String())
}

// TestFirstAccount has the operator of a server without keys make the first account with
// the token that the server printed. The token is then good for nothing.
func TestFirstAccount(t *testing.T) {
	s, _ := startGuarded(t, &worker{}, newStoreName(t), withToken)
	body := `{"email":"ann@example.com","name":"Ann","password":"` + password + `","role":"server-admin"}`
	if w := s.sends("POST", usersPath, body); w.Code != 401 {
		t.Errorf("a stranger: %d %s", w.Code, w.Body)
	}
	chat, _ := s.signIn(t, "/session", localToken)
	if w := s.sends("POST", usersPath, body, chat...); w.Code != 403 {
		t.Errorf("the chat page: %d %s", w.Code, w.Body)
	}
	if o := s.wants(t, 200, "GET", "/session", ""); o.text("kind") != "local" {
		t.Errorf("before: %v", o)
	}
	made := s.wants(t, 200, "POST", usersPath, body, bearer(localToken)...)
	if made.text("role") != "server-admin" || made.text("organization") != "local" {
		t.Errorf("made %v", made)
	}
	if w := s.askHere("GET", usersPath, bearer(localToken)...); w.Code != 401 {
		t.Errorf("the token is good after the first account: %d", w.Code)
	}
	if o := s.wants(t, 200, "GET", "/session", ""); o.text("kind") != "account" {
		t.Errorf("after: %v", o)
	}
	admin := s.enter(t, "/admin/session", "Ann@Example.com", password)
	if w := s.askHere("GET", "/admin/api/now", admin...); w.Code != 200 {
		t.Errorf("the admin page: %d %s", w.Code, w.Body)
	}
	cookie := s.enter(t, "/session", "ann@example.com", password)
	for path, want := range map[string]int{"/v1/conversations": 200, "/account": 200, "/admin/api/now": 401,
		"/v1/organization/me": 200} {
		if w := s.askHere("GET", path, cookie...); w.Code != want {
			t.Errorf("%s with the chat's session: %d, want %d: %s", path, w.Code, want, w.Body)
		}
	}
	if log := s.log.String(); strings.Contains(log, password) || strings.Contains(log, cookie[1]) {
		t.Error("a secret is in the log")
	}
}

// TestFirstAccountOnPage: the chat page of a server without keys makes the first account,
// with the token that was printed alone. It is an admin, and has what was stored before.
func TestFirstAccountOnPage(t *testing.T) {
	s, _ := startGuarded(t, &worker{}, newStoreName(t), withToken)
	body := `{"email":"ann@example.com","name":"Ann","password":"` + password + `"}`
	s.wants(t, 401, "POST", "/account/first", body)
	chat, _ := s.signIn(t, "/session", localToken)
	before := s.wants(t, 200, "POST", "/v1/conversations", `{}`, chat...).text("id")
	s.wants(t, 400, "POST", "/account/first", `{"email":"ann@example.com","name":"Ann","password":"short"}`, chat...)
	w := s.sends("POST", "/account/first", body, chat...)
	ann := sessionOf(w)
	if w.Code != 200 || ann == nil {
		t.Fatalf("made with %d %s", w.Code, w.Body)
	}
	if o := s.wants(t, 200, "GET", "/account", "", ann...); o.text("role") != "server-admin" {
		t.Errorf("the first account is %v", o)
	}
	s.wants(t, 200, "GET", "/v1/conversations/"+before, "", ann...)
	s.wants(t, 401, "POST", "/account/first", body, chat...)
	s.wants(t, 409, "POST", "/account/first", body, ann...)
	s.wants(t, 401, "POST", "/account/first", body, bearer(localToken)...)
}

// TestLimitsAreOfAllGateways guesses at two gateways of one store.
func TestLimitsAreOfAllGateways(t *testing.T) {
	dsn := newStoreName(t)
	one, rig := startGuarded(t, &worker{}, dsn)
	other, _ := startGuarded(t, &worker{}, dsn)
	rig.person(one, "ann@example.com", accounts.Grant{Organization: "acme"})
	for i := range 12 {
		s, want := []*server{one, other}[i%2], 401
		if i >= 10 {
			want = 429
		}
		s.wants(t, want, "POST", "/session", `{"email":"Ann@example.com","password":"a guess of it"}`)
	}
}

// TestSignInSaysNothing compares refusals, and the cookie with what it must be.
func TestSignInSaysNothing(t *testing.T) {
	s, rig := startGuarded(t, &worker{}, newStoreName(t))
	_, cookie := rig.person(s, "ann@example.com", accounts.Grant{Organization: "acme"})
	try := func(email, password string, headers ...string) *httptest.ResponseRecorder {
		return s.sends("POST", "/session", fmt.Sprintf(`{"email":%q,"password":%q}`, email, password), headers...)
	}
	wrong, unknown := try("ann@example.com", "not her password"), try("eve@example.com", password)
	if wrong.Code != 401 || unknown.Code != 401 ||
		parseObject(t, wrong.Body.String()).text("error", "message") !=
			parseObject(t, unknown.Body.String()).text("error", "message") {
		t.Errorf("refusals differ: %d %s and %d %s", wrong.Code, wrong.Body, unknown.Code, unknown.Body)
	}
	if w := try("ann@example.com", password, "Origin", "https://evil.example"); w.Code != 403 {
		t.Errorf("another site's page signs in: %d", w.Code)
	}
	w := try("ann@example.com", password)
	for _, want := range []string{"HttpOnly", "SameSite=Strict", "Path=/;", "Max-Age=2592000"} {
		if !strings.Contains(w.Header().Get("Set-Cookie")+";", want) {
			t.Errorf("the cookie has not %s: %s", want, w.Header().Get("Set-Cookie"))
		}
	}
	foreign := append(slices.Clone(cookie), "Sec-Fetch-Site", "cross-site")
	if w := s.askHere("GET", "/account", foreign...); w.Code != 403 {
		t.Errorf("another site's page reads the account: %d", w.Code)
	}
	moved := strings.Replace(cookie[1], "_chat_", "_admin_", 1)
	if w := s.askHere("GET", "/admin/api/now", "Cookie", moved); w.Code != 401 {
		t.Errorf("the chat's session as the admin's: %d", w.Code)
	}
	for _, attempt := range []string{"ann@example.com", "nobody@example.com"} { // known or not, guesses end
		var last *httptest.ResponseRecorder
		for range 12 {
			last = try(attempt, "a guess of a password")
		}
		if last.Code != 429 || last.Header().Get("Retry-After") == "" {
			t.Errorf("guesses for %s: %d %v", attempt, last.Code, last.Header())
		}
	}
	if w := try("ann@example.com", password); w.Code != 429 {
		t.Errorf("the right password during guesses: %d", w.Code)
	}
}

// TestChatsBelongToTheirUser has two people of one organisation reach for each other's.
func TestChatsBelongToTheirUser(t *testing.T) {
	s, rig := startGuarded(t, &worker{}, newStoreName(t))
	_, ann := rig.person(s, "ann@example.com", accounts.Grant{Organization: "acme"})
	_, bob := rig.person(s, "bob@example.com", accounts.Grant{Organization: "acme", Role: accounts.OrgAdmin})
	id := s.wants(t, 200, "POST", "/v1/conversations", `{}`, ann...).text("id")
	key := s.wants(t, 200, "POST", "/account/keys", `{"name":"laptop"}`, ann...)
	for who, want := range map[string]int{"session": 200, "key": 200, "another": 404} {
		headers := map[string][]string{"session": ann, "key": bearer(key.text("value")), "another": bob}[who]
		if w := s.askHere("GET", "/v1/conversations/"+id, headers...); w.Code != want {
			t.Errorf("by %s: %d, want %d", who, w.Code, want)
		}
	}
	keyID := key.text("id")
	for path, method := range map[string]string{"/account/keys/" + keyID: "DELETE",
		"/account/keys/" + keyID + "/rotate": "POST"} {
		if w := s.askHere(method, path, bob...); w.Code != 404 {
			t.Errorf("another's %s %s: %d", method, path, w.Code)
		}
	}
	for _, path := range []string{"/account", "/account/keys", "/account/export", "/account/sessions"} {
		if w := s.askHere("GET", path, bearer(key.text("value"))...); w.Code != 403 {
			t.Errorf("%s with a key: %d %s", path, w.Code, w.Body)
		}
	}
	rotated := s.wants(t, 200, "POST", "/account/keys/"+keyID+"/rotate", `{}`, ann...).text("value")
	if w := s.askHere("GET", "/v1/models", bearer(key.text("value"))...); w.Code != 401 {
		t.Errorf("the secret was rotated out: %d", w.Code)
	}
	if w := s.askHere("GET", "/v1/organization/api_keys", bearer(rotated)...); w.Code != 403 {
		t.Errorf("an own key operates: %d", w.Code)
	}
	s.wants(t, 200, "DELETE", "/account/keys/"+keyID, "", ann...)
	if w := s.askHere("GET", "/v1/models", bearer(rotated)...); w.Code != 401 {
		t.Errorf("a deleted key: %d", w.Code)
	}
}

// TestAccountSessions lists sessions and ends them.
func TestAccountSessions(t *testing.T) {
	s, rig := startGuarded(t, &worker{}, newStoreName(t))
	_, first := rig.person(s, "ann@example.com", accounts.Grant{Organization: "acme"})
	second := s.enter(t, "/session", "ann@example.com", password)
	third := s.enter(t, "/session", "ann@example.com", password)
	signedIn := func(cookie []string) bool { return s.askHere("GET", "/account", cookie...).Code == 200 }
	o := s.wants(t, 200, "GET", "/account/sessions", "", first...)
	var other string
	current := 0
	for _, one := range o["data"].([]any) {
		entry := object(one.(map[string]any))
		if entry["current"] == true {
			current++
		} else {
			other = entry.text("id")
		}
	}
	if len(o["data"].([]any)) != 3 || current != 1 {
		t.Fatalf("listed %v", o)
	}
	s.wants(t, 200, "DELETE", "/account/sessions/"+other, "", first...)
	if !signedIn(first) || signedIn(second) == signedIn(third) {
		t.Error("not exactly one session was ended")
	}
	s.wants(t, 400, "POST", "/account/password", `{"current_password":"wrong","new_password":"another long one"}`, first...)
	s.wants(t, 200, "POST", "/account/password",
		`{"current_password":"`+password+`","new_password":"another long one"}`, first...)
	if !signedIn(first) || signedIn(second) || signedIn(third) {
		t.Error("a new password does not end the other sessions, or ends its own")
	}
	fourth := s.enter(t, "/session", "ann@example.com", "another long one")
	s.wants(t, 200, "DELETE", "/account/sessions", "", first...)
	if signedIn(first) || signedIn(fourth) {
		t.Error("signing out everywhere leaves a session")
	}
	fifth := s.enter(t, "/session", "ann@example.com", "another long one")
	s.wants(t, 200, "DELETE", "/session", "", fifth...)
	if signedIn(fifth) {
		t.Error("signing out leaves the session")
	}
}

// TestInvitationsAndRoles walks from an invitation to a session, and reaches for what a
// role does not allow.
func TestInvitationsAndRoles(t *testing.T) {
	dsn := newStoreName(t)
	s, rig := startGuarded(t, &worker{}, dsn, auditedBy(t, dsn))
	boss, _ := rig.person(s, "boss@example.com", accounts.Grant{Organization: "local", Role: accounts.ServerAdmin})
	other, _ := rig.person(s, "eve@example.com", accounts.Grant{Organization: "beta"})
	admin := s.enter(t, "/admin/session", "boss@example.com", password)
	invitation := s.wants(t, 200, "POST", adminOrganizationPrefix+"invites",
		`{"email":"ann@example.com","role":"org-admin","organization":"acme"}`, admin...)
	_, token, found := strings.Cut(invitation.text("path"), "#invitation=")
	if !found {
		t.Fatalf("the invitation is %v", invitation)
	}
	shown := s.wants(t, 200, "POST", "/invitation", `{"token":"`+token+`"}`)
	if shown.text("email") != "ann@example.com" || shown.text("organization") != "acme" || shown.text("path") != "" {
		t.Errorf("shown %v", shown)
	}
	s.wants(t, 404, "POST", "/invitation", `{"token":"pi-guess"}`)
	accept := `{"token":"` + token + `","name":"Ann","password":"` + password + `"}`
	s.wants(t, 400, "POST", "/invitation/accept", `{"token":"`+token+`","name":"Ann","password":"short"}`)
	w := s.sends("POST", "/invitation/accept", accept)
	pair, _, _ := strings.Cut(w.Header().Get("Set-Cookie"), "; ")
	if w.Code != 200 || pair == "" {
		t.Fatalf("accepted with %d %s", w.Code, w.Body)
	}
	ann := []string{"Cookie", pair}
	s.wants(t, 404, "POST", "/invitation/accept", accept)

	if o := s.wants(t, 200, "GET", usersPath, "", ann...); len(o["data"].([]any)) != 1 {
		t.Errorf("an admin of acme lists %v", o)
	}
	for path, body := range map[string]string{
		usersPath + "/" + other.ID: `{"disabled":true}`, usersPath + "/" + other.ID + "/reset": `{}`,
		usersPath + "/" + boss.ID: `{"role":"member"}`,
	} {
		s.wants(t, 404, "POST", path, body, ann...)
	}
	self := s.wants(t, 200, "GET", "/account", "", ann...).text("id")
	for body, path := range map[string]string{
		`{"email":"x@example.com","role":"server-admin"}`: invitesPath,
		`{"email":"x@example.com","organization":"beta"}`: invitesPath,
		`{"email":"x@example.com","tier":"enterprise"}`:   invitesPath,
		`{"role":"server-admin"}`:                         usersPath + "/" + self,
		`{"models":["` + modelID + `"]}`:                  usersPath + "/" + self,
	} {
		s.wants(t, 403, "POST", path, body, ann...)
	}
	s.wants(t, 409, "POST", usersPath+"/"+self, `{"disabled":true}`, ann...)
	s.wants(t, 400, "POST", invitesPath, `{"email":"x"}`, ann...)
	s.wants(t, 409, "POST", invitesPath, `{"email":"eve@example.com"}`, ann...)
	eve := s.enter(t, "/session", "eve@example.com", password)
	for _, path := range []string{usersPath, invitesPath} {
		s.wants(t, 403, "GET", path, "", eve...)
	}
	s.wants(t, 409, "POST", adminOrganizationPrefix+"users/"+boss.ID, `{"role":"member"}`, admin...)
	s.wants(t, 200, "POST", adminOrganizationPrefix+"users/"+other.ID, `{"disabled":true}`, admin...)
	if w := s.askHere("GET", "/account", eve...); w.Code != 401 {
		t.Errorf("a disabled account: %d", w.Code)
	}
	log := s.wants(t, 200, "GET", adminOrganizationPrefix+"audit_logs?limit=100", "", admin...)
	text := fmt.Sprint(log)
	for _, want := range []string{"invite.sent", "user.updated", boss.ID} {
		if !strings.Contains(text, want) {
			t.Errorf("the audit log has not %s", want)
		}
	}
	if strings.Contains(text, token) {
		t.Error("the audit log has the token")
	}
}

// TestKeysOfDisabledAccounts has an account's API keys end with it, and its models hold
// for them.
func TestKeysOfDisabledAccounts(t *testing.T) {
	s, rig := startGuarded(t, &worker{}, newStoreName(t))
	u, cookie := rig.person(s, "ann@example.com", accounts.Grant{Organization: "acme"})
	secret := s.wants(t, 200, "POST", "/account/keys", `{"name":"a"}`, cookie...).text("value")
	models := func(headers []string) (int, bool) {
		w := s.askHere("GET", "/v1/models", headers...)
		return w.Code, strings.Contains(w.Body.String(), modelID)
	}
	for _, headers := range [][]string{cookie, bearer(secret)} {
		if status, sees := models(headers); status != 200 || !sees {
			t.Errorf("at first: %d %v", status, sees)
		}
	}
	change := func(c accounts.UserChange) {
		must(rig.store.Accounts().Change(t.Context(), u.ID, c))(t)
		must(0, rig.ring.Refresh(t.Context()))(t)
	}
	change(accounts.UserChange{Models: &[]string{"other"}})
	for _, headers := range [][]string{cookie, bearer(secret)} {
		if status, sees := models(headers); status != 200 || sees {
			t.Errorf("with other models: %d %v", status, sees)
		}
	}
	yes := true
	change(accounts.UserChange{Disabled: &yes})
	for _, headers := range [][]string{cookie, bearer(secret)} {
		if status, _ := models(headers); status != 401 {
			t.Errorf("disabled: %d", status)
		}
	}
}

// TestOwnDataIsExportedAndDeleted downloads what an account has stored, and deletes it.
func TestOwnDataIsExportedAndDeleted(t *testing.T) {
	s, rig := startGuarded(t, &worker{}, newStoreName(t))
	rig.person(s, "boss@example.com", accounts.Grant{Organization: "acme", Role: accounts.ServerAdmin})
	u, ann := rig.person(s, "ann@example.com", accounts.Grant{Organization: "acme"})
	_, bob := rig.person(s, "bob@example.com", accounts.Grant{Organization: "acme"})
	mine := s.wants(t, 200, "POST", "/v1/conversations",
		`{"items":[{"type":"message","role":"user","content":"my secret garden"}]}`, ann...).text("id")
	his := s.wants(t, 200, "POST", "/v1/conversations", `{}`, bob...).text("id")
	secret := s.wants(t, 200, "POST", "/account/keys", `{"name":"a"}`, ann...).text("value")

	w := s.askHere("GET", "/account/export", ann...)
	archive, err := zip.NewReader(bytes.NewReader(w.Body.Bytes()), int64(w.Body.Len()))
	if err != nil || w.Header().Get("Content-Type") != "application/zip" {
		t.Fatalf("exported %d %v: %v", w.Code, w.Header(), err)
	}
	texts := map[string]string{}
	for _, f := range archive.File {
		texts[f.Name] = string(must(io.ReadAll(must(f.Open())(t)))(t))
	}
	if !strings.Contains(texts["account.json"], "ann@example.com") ||
		!strings.Contains(texts["conversations/"+mine+".json"], "my secret garden") || len(texts) != 2 ||
		strings.Contains(fmt.Sprint(texts), secret) {
		t.Errorf("exported %v", texts)
	}

	s.wants(t, 400, "DELETE", "/account", `{"current_password":"`+password+`"}`, ann...)
	s.wants(t, 400, "DELETE", "/account", `{"email":"ann@example.com","current_password":"wrong"}`, ann...)
	s.wants(t, 200, "DELETE", "/account", `{"email":"ann@example.com","current_password":"`+password+`"}`, ann...)
	for _, headers := range [][]string{ann, bearer(secret)} {
		if w := s.askHere("GET", "/v1/models", headers...); w.Code != 401 {
			t.Errorf("after the deletion: %d", w.Code)
		}
	}
	if w := s.sends("POST", "/session", `{"email":"ann@example.com","password":"`+password+`"}`); w.Code != 401 {
		t.Errorf("sign-in after the deletion: %d", w.Code)
	}
	again, _ := rig.person(s, "ann@example.com", accounts.Grant{Organization: "acme"})
	if again.ID == u.ID {
		t.Error("a new account has the id of the deleted one")
	}
	ghost, _ := rig.key(tenant.NewKey{Organization: "acme", User: "bystander"})
	if w := s.askHere("GET", "/v1/conversations/"+mine, bearer(ghost)...); w.Code != 404 {
		t.Errorf("the conversation: %d", w.Code)
	}
	s.wants(t, 200, "GET", "/v1/conversations/"+his, "", bob...)
	boss := s.enter(t, "/session", "boss@example.com", password)
	s.wants(t, 409, "DELETE", "/account", `{"email":"boss@example.com","current_password":"`+password+`"}`, boss...)
	s.wants(t, 200, "GET", "/account", "", boss...)
}
