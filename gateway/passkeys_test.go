package gateway

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"

	"parley/gateway/accounts"
)

// A device is an authenticator with one passkey. Tests have it lie.
type device struct {
	t      *testing.T
	key    *ecdsa.PrivateKey
	id     []byte
	count  uint32
	site   string
	origin string
	flags  byte
	kind   string // of the client's data, where it is not the usual one
}

func newDevice(t *testing.T) *device {
	return &device{t: t, key: must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t), id: []byte(rand.Text()),
		site: "localhost", origin: "http://localhost:8080", flags: 0b101}
}

var encode = base64.RawURLEncoding.EncodeToString

// answer answers a challenge, to register or to sign in.
func (d *device) answer(challenge, kind string) map[string]any {
	if d.kind != "" {
		kind = d.kind
	}
	client := must(json.Marshal(map[string]any{"type": kind, "challenge": encode([]byte(challenge)), "origin": d.origin,
		"crossOrigin": false}))(d.t)
	site := sha256.Sum256([]byte(d.site))
	d.count++
	data := append(site[:], d.flags)
	data = binary.BigEndian.AppendUint32(data, d.count)
	if strings.HasSuffix(kind, "create") {
		data[32] |= 1 << 6
		data = append(data, make([]byte, 16)...)
		data = binary.BigEndian.AppendUint16(data, uint16(len(d.id)))
		data = append(data, d.id...)
	}
	about := sha256.Sum256(client)
	sum := sha256.Sum256(append(bytes.Clone(data), about[:]...))
	return map[string]any{"id": encode(d.id), "client_data": encode(client), "authenticator_data": encode(data),
		"signature": encode(must(ecdsa.SignASN1(rand.Reader, d.key, sum[:]))(d.t))}
}

// asPage sends what a page at localhost sends.
func (s *server) asPage(method, path string, body any, headers ...string) *httptest.ResponseRecorder {
	text, _ := json.Marshal(body) // maps can always be written
	r := httptest.NewRequest(method, "http://localhost:8080"+path, bytes.NewReader(text))
	r.RemoteAddr = "127.0.0.1:9"
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Origin", "http://localhost:8080")
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	s.gateway.ServeHTTP(w, r)
	return w
}

func (d *device) register(s *server, cookie []string) *httptest.ResponseRecorder {
	d.t.Helper()
	w := s.asPage("POST", "/account/passkeys/challenge", map[string]string{"current_password": password}, cookie...)
	if w.Code != 200 {
		d.t.Fatalf("no challenge: %d %s", w.Code, w.Body)
	}
	answer := d.answer(parseObject(d.t, w.Body.String()).text("challenge"), "webauthn.create")
	answer["name"], answer["public_key"] = "phone", encode(must(x509.MarshalPKIXPublicKey(d.key.Public()))(d.t))
	return s.asPage("POST", "/account/passkeys", answer, cookie...)
}

func (d *device) signIn(s *server) *httptest.ResponseRecorder {
	d.t.Helper()
	w := s.asPage("POST", "/session/passkey", map[string]string{})
	if w.Code != 200 {
		d.t.Fatalf("no challenge: %d %s", w.Code, w.Body)
	}
	return s.asPage("POST", "/session", map[string]any{"passkey": d.answer(
		parseObject(d.t, w.Body.String()).text("challenge"), "webauthn.get")})
}

// TestPasskeys registers a passkey, signs in with it, renames and removes it.
func TestPasskeys(t *testing.T) {
	s, rig := startGuarded(t, &worker{}, newStoreName(t))
	u, ann := rig.person(s, "ann@example.com", accounts.Grant{Organization: "acme"})
	d := newDevice(t)
	if w := d.signIn(s); w.Code != 401 || sessionOf(w) != nil {
		t.Errorf("an unknown passkey: %d %s", w.Code, w.Body)
	}
	if w := s.asPage("POST", "/account/passkeys/challenge", map[string]string{}, ann...); w.Code != 400 {
		t.Errorf("a challenge without the password: %d %s", w.Code, w.Body)
	}
	w := d.register(s, ann)
	if w.Code != 200 {
		t.Fatalf("registered with %d %s", w.Code, w.Body)
	}
	id := parseObject(t, w.Body.String()).text("id")
	if w := d.register(s, ann); w.Code != 409 {
		t.Errorf("registered twice: %d %s", w.Code, w.Body)
	}
	w = d.signIn(s)
	session := sessionOf(w)
	if w.Code != 200 || session == nil {
		t.Fatalf("signed in with %d %s", w.Code, w.Body)
	}
	if o := s.wants(t, 200, "GET", "/account", "", session...); o.text("id") != u.ID {
		t.Errorf("signed in as %v", o)
	}
	if o := s.wants(t, 200, "GET", "/account/sessions", "", session...); !strings.Contains(fmt.Sprint(o), "passkey") {
		t.Errorf("the sessions are %v", o)
	}
	_, eve := rig.person(s, "eve@example.com", accounts.Grant{Organization: "acme"})
	s.wants(t, 404, "POST", "/account/passkeys/"+id, `{"name":"mine"}`, eve...)
	s.wants(t, 404, "DELETE", "/account/passkeys/"+id, "", eve...)
	if o := s.wants(t, 200, "POST", "/account/passkeys/"+id, `{"name":"my phone"}`, session...); !strings.Contains(
		fmt.Sprint(o), "my phone") {
		t.Errorf("renamed %v", o)
	}
	s.wants(t, 200, "DELETE", "/account/passkeys/"+id, "", session...)
	if w := d.signIn(s); w.Code != 401 {
		t.Errorf("a removed passkey: %d %s", w.Code, w.Body)
	}
}

// TestHostilePasskeys: nothing that a device, a page or a stranger makes up signs in.
func TestHostilePasskeys(t *testing.T) {
	s, rig := startGuarded(t, &worker{}, newStoreName(t))
	_, ann := rig.person(s, "ann@example.com", accounts.Grant{Organization: "acme"})
	d := newDevice(t)
	if w := d.register(s, ann); w.Code != 200 {
		t.Fatalf("registered with %d %s", w.Code, w.Body)
	}
	for name, lie := range map[string]func(*device){
		"another site":         func(d *device) { d.site = "evil.example" },
		"another origin":       func(d *device) { d.origin = "https://evil.example" },
		"another port":         func(d *device) { d.origin = "http://localhost:9999" },
		"another key":          func(d *device) { d.key = must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t) },
		"an unverified user":   func(d *device) { d.flags = 0b001 },
		"an absent user":       func(d *device) { d.flags = 0b100 },
		"a copy":               func(d *device) { d.count = 0 },
		"another credential":   func(d *device) { d.id = []byte("guess") },
		"the wrong kind":       func(d *device) { d.kind = "webauthn.create" },
		"a kind of no meaning": func(d *device) { d.kind = "payment.get" },
	} {
		liar := *d
		lie(&liar)
		if w := liar.signIn(s); w.Code != 401 || sessionOf(w) != nil {
			t.Errorf("%s: %d %s", name, w.Code, w.Body)
		}
	}
	w := s.asPage("POST", "/session/passkey", map[string]string{})
	challenge := parseObject(t, w.Body.String()).text("challenge")
	d.count = 100
	answer := map[string]any{"passkey": d.answer(challenge, "webauthn.get")}
	if w := s.asPage("POST", "/session", answer); w.Code != 200 {
		t.Fatalf("an honest one: %d %s", w.Code, w.Body)
	}
	if w := s.asPage("POST", "/session", answer); w.Code != 401 {
		t.Errorf("replayed: %d %s", w.Code, w.Body)
	}
	made := s.asPage("POST", "/account/passkeys/challenge", map[string]string{"current_password": password}, ann...)
	crossed := d.answer(parseObject(t, made.Body.String()).text("challenge"), "webauthn.get")
	if w := s.asPage("POST", "/session", map[string]any{"passkey": crossed}); w.Code != 401 {
		t.Errorf("a challenge to register: %d %s", w.Code, w.Body)
	}
	for _, broken := range []string{`{"passkey":{}}`, `{"passkey":{"id":"!"}}`, `{"passkey":{"client_data":"e30"}}`} {
		if w := s.asPage("POST", "/session", json.RawMessage(broken)); w.Code < 400 || w.Code > 401 {
			t.Errorf("%s: %d %s", broken, w.Code, w.Body)
		}
	}
	if w := s.sends("POST", "/session/passkey", `{}`, "Origin", "http://127.0.0.1:8080"); w.Code != 400 {
		t.Errorf("a page of an IP address: %d %s", w.Code, w.Body)
	}
}
