package discover

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"parley/internal/testkit"
)

const joinToken = "a-token-of-24-characters"

// A registrarTest sends registrations to a registrar as peers do.
type registrarTest struct {
	t *testing.T
	*Registrar
	log *bytes.Buffer
}

func newDeskTest(t *testing.T, admissions ...Admission) *registrarTest {
	t.Helper()
	log := &bytes.Buffer{}
	d, err := NewRegistrar(joinToken, admissions, 10*time.Second, slog.New(slog.NewTextHandler(log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	return &registrarTest{t, d, log}
}

// call sends a registration from a peer, and returns the status and the credential.
func (d *registrarTest) call(method, peer, token, body string) (int, string) {
	d.t.Helper()
	w := httptest.NewRecorder()
	r := httptest.NewRequest(method, "/fleet/register", strings.NewReader(body))
	r.RemoteAddr = peer + ":40000"
	r.Header.Set("Authorization", "Bearer "+token)
	d.ServeHTTP(w, r)
	synctest.Wait()
	var got registration
	_ = json.Unmarshal(w.Body.Bytes(), &got)
	return w.Code, got.Credential
}

// enter joins and confirms, as a worker does, and returns its credential.
func (d *registrarTest) enter(peer, body string) string {
	d.t.Helper()
	status, credential := d.call("POST", peer, joinToken, body)
	if status != 200 || len(credential) < TokenMin {
		d.t.Fatalf("%s: %d, credential %q", body, status, credential)
	}
	if status, again := d.call("POST", peer, credential, body); status != 200 || again != "" {
		d.t.Fatalf("%s is not confirmed: %d, credential %q", body, status, again)
	}
	return credential
}

// TestRegistering lets workers come with the right token and a wrong one, stay, leave,
// and be forgotten.
func TestRegistering(t *testing.T) {
	if _, err := NewRegistrar("short", []Admission{{Pool: "a"}}, 0, nil); err == nil {
		t.Error("a short token is taken")
	}
	synctest.Test(t, func(t *testing.T) {
		d := newDeskTest(t, Admission{Pool: "default"}, Admission{Pool: "fast"})
		b, fast := follow(t, d.Source("default")), follow(t, d.Source("fast"))
		for _, row := range []struct {
			method, token, body string
			want                int
		}{
			{"POST", "wrong", `{"url":"http://evil:1"}`, 401},
			{"POST", "", `{"url":"http://evil:1"}`, 401},
			{"POST", joinToken, `{"url":"evil"}`, 400},
			{"POST", joinToken, `{"url":"http://b:1","pool":"nowhere"}`, 400},
			{"POST", joinToken, `{`, 400},
			{"GET", joinToken, `{}`, 405},
		} {
			if got, _ := d.call(row.method, "10.0.0.1", row.token, row.body); got != row.want {
				t.Errorf("%s %s: %d, want %d", row.method, row.body, got, row.want)
			}
		}
		d.call("POST", "10.0.0.9", joinToken, `{"url":"http://unconfirmed:1"}`)
		b.is(t)
		mine := d.enter("10.0.0.1", `{"url":"http://a:1"}`)
		d.enter("10.0.0.2", `{"name":"f","url":"http://f:1","pool":"fast"}`)
		b.is(t, "a:1")
		fast.is(t, "f")
		time.Sleep(6 * time.Second)
		if status, _ := d.call("POST", "10.0.0.1", mine, `{"url":"http://a:1"}`); status != 200 {
			t.Errorf("it may not stay: %d", status)
		}
		time.Sleep(6 * time.Second)
		synctest.Wait()
		b.is(t, "a:1")
		fast.is(t)
		if status, _ := d.call("DELETE", "10.0.0.1", mine, `{"name":"a:1"}`); status != 200 {
			t.Errorf("it may not leave: %d", status)
		}
		b.is(t)
		if text := d.log.String(); !strings.Contains(text, "url=http://a:1") ||
			!strings.Contains(text, "peer=10.0.0.1") || strings.Contains(text, mine) {
			t.Errorf("the log has no URL or peer, or a credential: %s", text)
		}
	})
}

// TestNamesCannotBeTaken has a host with the join token try to replace, remove or speak
// for a worker that another host has registered.
func TestNamesCannotBeTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDeskTest(t, Admission{Pool: "default"})
		b := follow(t, d.Source("default"))
		const good, evil = `{"name":"w","url":"http://10.0.0.1:8000"}`, `{"name":"w","url":"http://10.0.0.66:8000"}`
		mine := d.enter("10.0.0.1", good)
		theirs := d.enter("10.0.0.66", `{"name":"other","url":"http://10.0.0.66:8000"}`)
		for name, c := range map[string]struct {
			method, token, body string
			want                int
		}{
			"another URL":            {"POST", joinToken, evil, 409},
			"another host, same URL": {"POST", joinToken, good, 409},
			"leaves with the token":  {"DELETE", joinToken, `{"name":"w"}`, 403},
			"leaves as another":      {"DELETE", theirs, `{"name":"w"}`, 403},
			"stays as another":       {"POST", theirs, good, 403},
			"moves to another URL":   {"POST", theirs, `{"name":"other","url":"http://10.0.0.1:8000"}`, 403},
			"moves to another pool": {"POST", theirs, `{"name":"other","url":"http://10.0.0.66:8000","pool":"x"}`,
				400},
			"credential of the other": {"POST", mine, evil, 403},
		} {
			if got, _ := d.call(c.method, "10.0.0.66", c.token, c.body); got != c.want {
				t.Errorf("%s: %d, want %d", name, got, c.want)
			}
		}
		b.is(t, "other", "w")
		again := d.enter("10.0.0.1", good) // it was started anew
		if status, _ := d.call("POST", "10.0.0.1", mine, good); status != 401 {
			t.Errorf("the old credential is answered with %d", status)
		}
		time.Sleep(11 * time.Second)
		b.is(t)
		if status, _ := d.call("POST", "10.0.0.1", again, good); status != 401 {
			t.Errorf("the credential of a forgotten worker is answered with %d", status)
		}
		d.enter("10.0.0.66", evil) // the name is free
	})
}

// TestAdmissions bounds which networks and kinds may join.
func TestAdmissions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDeskTest(t, Admission{Pool: "default"}, Admission{
			Pool:     "wide",
			Networks: []netip.Prefix{netip.MustParsePrefix("198.51.100.0/24"), netip.MustParsePrefix("2001:db8::/32")},
			Kinds:    []string{"vllm"},
		})
		for _, c := range []struct {
			peer, body string
			want       int
		}{
			{"10.0.0.1", `{"url":"http://10.0.0.1:8000"}`, 200},
			{"127.0.0.1", `{"url":"http://worker:8000"}`, 200},
			{"10.0.0.1", `{"url":"http://192.0.2.66:8000"}`, 403},
			{"192.0.2.66", `{"url":"http://10.0.0.2:8000"}`, 403},
			{"10.0.0.1", `{"url":"http://169.254.169.254"}`, 403},
			{"10.0.0.1", `{"url":"http://[::ffff:192.0.2.66]:8000"}`, 403},
			{"10.0.0.1", `{"url":"http://10.0.0.3:8000","kind":"openai"}`, 403},
			{"10.0.0.1", `{"url":"http://10.0.0.3:8000","kind":"vllm"}`, 403},
			{"198.51.100.7", `{"url":"http://198.51.100.7:8000","kind":"vllm","pool":"wide"}`, 200},
			{"[2001:db8::7]", `{"url":"http://[2001:db8::7]:8000","kind":"vllm","pool":"wide"}`, 200},
			{"198.51.100.7", `{"url":"http://198.51.100.7:8000","pool":"wide"}`, 403},
			{"10.0.0.1", `{"url":"http://198.51.100.7:8000","kind":"vllm","pool":"wide"}`, 403},
		} {
			if got, _ := d.call("POST", c.peer, joinToken, c.body); got != c.want {
				t.Errorf("%s from %s: %d, want %d", c.body, c.peer, got, c.want)
			}
		}
	})
}

// TestAnnouncing has a worker register itself, with the right token and a wrong one, and
// again at a gateway that was started anew.
func TestAnnouncing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDeskTest(t, Admission{Pool: "default"})
		second := newDeskTest(t, Admission{Pool: "default"})
		listener, client := testkit.Listen()
		var at atomic.Pointer[registrarTest]
		at.Store(d)
		server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			r.RemoteAddr = "10.0.0.1:40000"
			at.Load().ServeHTTP(w, r)
		})}
		go server.Serve(listener)
		defer client.CloseIdleConnections()
		defer server.Close()
		b := follow(t, d.Source("default"))
		var workers sync.WaitGroup
		ctx, leave := context.WithCancel(t.Context())
		accepted := make(chan string, 10)
		for name, shown := range map[string]string{"good": joinToken, "evil": "wrong"} {
			workers.Go(func() {
				said := Registration{Address: Address{Name: name, URL: "http://" + name + ":1"}}
				Announcer{Gateway: "http://gateway", Token: shown, Said: said, Client: client, Accept: func(c string) {
					accepted <- name + c
				}}.Run(ctx)
			})
		}
		time.Sleep(5 * RegisterFor)
		synctest.Wait()
		b.is(t, "good")
		if places, _, _ := d.present("default"); len(accepted) != 1 || <-accepted != "good"+places[0].Credential {
			t.Error("the worker was not given the credential that it will be called with, once")
		}
		at.Store(second)
		time.Sleep(RegisterFor)
		synctest.Wait()
		b.is(t)
		if places, _, _ := second.present("default"); len(places) != 1 || len(accepted) != 1 {
			t.Errorf("at a new gateway there are %v", places)
		}
		leave()
		workers.Wait()
		if places, _, _ := second.present("default"); len(places) != 0 {
			t.Errorf("after it left there are %v", places)
		}
	})
}

// TestAnnouncerStaysWithItsGateway sends a token to the gateway and to no place that it
// is redirected to.
func TestAnnouncerStaysWithItsGateway(t *testing.T) {
	var stolen string
	thief := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		stolen += r.Header.Get("Authorization") + "!"
	}))
	defer thief.Close()
	gateway := httptest.NewServer(http.RedirectHandler(thief.URL, http.StatusTemporaryRedirect))
	defer gateway.Close()
	ctx, cancel := context.WithCancel(t.Context())
	tried := &bytes.Buffer{}
	Announcer{
		Gateway: gateway.URL, Token: joinToken, Said: Registration{Address: Address{URL: "http://w:1"}},
		Log: slog.New(slog.NewTextHandler(writer(func(p []byte) { tried.Write(p); cancel() }), nil)),
	}.Run(ctx)
	if stolen != "" || !strings.Contains(tried.String(), "307") {
		t.Errorf("%q was sent elsewhere; the log says %s", stolen, tried)
	}
}

type writer func(p []byte)

func (w writer) Write(p []byte) (int, error) { w(p); return len(p), nil }
