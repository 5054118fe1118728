package kube

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"parley/internal/testkit"
)

func newServer(t *testing.T) (*testkit.Kube, *Cluster) {
	s, h := testkit.NewKube(t)
	return s, &Cluster{API: h.URL, Namespace: "llm", Token: "secret", HTTP: h.Client()}
}

const (
	deploymentScale = "/apis/apps/v1/namespaces/llm/deployments/w/scale"
	groupScale      = "/apis/leaderworkerset.x-k8s.io/v1/namespaces/llm/leaderworkersets/w/scale"
)

func TestParseTarget(t *testing.T) {
	for text, want := range map[string]string{"deployment/w": "deployment/w", "Deploy/w": "deployment/w",
		"sts/w": "statefulset/w", "lws/w": "leaderworkerset/w", "leaderworkersets/w": "leaderworkerset/w"} {
		if got, err := ParseTarget(text); err != nil || got.String() != want {
			t.Errorf("%s is %v, %v, want %s", text, got, err, want)
		}
	}
	for _, text := range []string{"", "w", "deployment/", "job/w", "deployment/a/b"} {
		if got, err := ParseTarget(text); err == nil {
			t.Errorf("%q is %v", text, got)
		}
	}
}

// TestSetReplicas changes each kind, also where its status changes meanwhile, and refuses
// where another one has changed the replicas.
func TestSetReplicas(t *testing.T) {
	s, c := newServer(t)
	for at, kind := range map[string]string{deploymentScale: "deployment", groupScale: "leaderworkerset"} {
		target := Target{kind, "w"}
		s.Put(at, testkit.Replicas(2))
		seen, err := c.Scale(t.Context(), target)
		if err != nil || seen.Wanted != 2 || seen.Present != 2 {
			t.Fatalf("%v has %+v, %v", target, seen, err)
		}
		left := 3
		s.Before = func(r *http.Request) (int, string) {
			if r.Method == http.MethodPut && left > 0 { // a controller writes the status first
				left--
				s.Put(at, testkit.Replicas(2))
			}
			return 0, ""
		}
		if err := c.SetReplicas(t.Context(), target, seen, 5); err != nil {
			t.Fatal(err)
		}
		if now, err := c.Scale(t.Context(), target); err != nil || now.Wanted != 5 || left != 0 {
			t.Errorf("%v has %d, %v", target, now.Wanted, err)
		}
		err = c.SetReplicas(t.Context(), target, seen, 1)
		if err == nil || !strings.Contains(err.Error(), "another one set 5") {
			t.Errorf("a change of what another one changed gives %v", err)
		}
		s.Before = nil
	}
}

// TestConflictsEnd gives up where every change conflicts.
func TestConflictsEnd(t *testing.T) {
	s, c := newServer(t)
	s.Put(deploymentScale, testkit.Replicas(2))
	seen, err := c.Scale(t.Context(), Target{"deployment", "w"})
	if err != nil {
		t.Fatal(err)
	}
	s.Before = func(r *http.Request) (int, string) {
		if r.Method == http.MethodPut {
			return http.StatusConflict, "the object has been modified"
		}
		return 0, ""
	}
	err = c.SetReplicas(t.Context(), Target{"deployment", "w"}, seen, 3)
	if statusOf(err) != http.StatusConflict {
		t.Errorf("conflicts without end give %v", err)
	}
}

// TestRefusals reads what API servers answer when they refuse.
func TestRefusals(t *testing.T) {
	s, c := newServer(t)
	target := Target{"deployment", "w"}
	s.Put(deploymentScale, testkit.Replicas(2))
	for _, want := range []struct {
		status        int
		message, text string
	}{
		{http.StatusForbidden, "no", `add to its role in namespace llm the rule {apiGroups: ["apps"], resources: ` +
			`[deployments/scale], verbs: [get]}`},
		{http.StatusUnauthorized, "who?", "its token or certificate is not valid"},
		{http.StatusServiceUnavailable, "etcd is away", "answered 503: etcd is away"},
		{http.StatusTooManyRequests, "", "answered 429"},
	} {
		s.Before = func(*http.Request) (int, string) { return want.status, want.message }
		if _, err := c.Scale(t.Context(), target); err == nil || !strings.Contains(err.Error(), want.text) {
			t.Errorf("%d gives %v, want %q", want.status, err, want.text)
		}
	}
	s.Before = nil
	_, err := c.Scale(t.Context(), Target{"leaderworkerset", "w"})
	if err == nil || !strings.Contains(err.Error(), "LeaderWorkerSet API is installed") {
		t.Errorf("a missing group gives %v", err)
	}
	c.TokenFile = filepath.Join(t.TempDir(), "token")
	if _, err := c.Scale(t.Context(), target); !os.IsNotExist(err) && !strings.Contains(err.Error(), "no such file") {
		t.Errorf("a missing token gives %v", err)
	}
	if err := os.WriteFile(c.TokenFile, []byte("fresh\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var shown string
	s.Before = func(r *http.Request) (int, string) { shown = r.Header.Get("Authorization"); return 0, "" }
	if _, err := c.Scale(t.Context(), target); err != nil || shown != "Bearer fresh" {
		t.Errorf("it shows %q, %v", shown, err)
	}
}

// TestEndFirst marks a pod, and takes that back.
func TestEndFirst(t *testing.T) {
	s, c := newServer(t)
	s.Put("/api/v1/namespaces/llm/pods/w-1", map[string]any{})
	for first, want := range map[bool]string{true: `"-1000"`, false: "null"} {
		if err := c.EndFirst(t.Context(), "w-1", first); err != nil {
			t.Fatal(err)
		}
		got, _ := json.Marshal(s.Objects["/api/v1/namespaces/llm/pods/w-1"]["patch"])
		if !strings.Contains(string(got), `"controller.kubernetes.io/pod-deletion-cost":`+want) {
			t.Errorf("the pod is patched by %s", got)
		}
	}
}

// TestLease lets one of two processes hold a lease at a time, through its end, its release,
// a race for it and an API server that is away.
func TestLease(t *testing.T) {
	s, cluster := newServer(t)
	begun := time.Unix(1_000_000_000, 123_456_789)
	lease := func(name string) *Lease {
		return &Lease{Cluster: cluster, Name: "scale", Identity: name, Duration: 15 * time.Second}
	}
	a, b := lease("a"), lease("b")
	hold := func(l *Lease, after time.Duration) (bool, string) {
		t.Helper()
		now := begun.Add(after)
		until, holder, err := l.Hold(t.Context(), now)
		if err != nil {
			t.Fatal(err)
		}
		return now.Before(until), holder
	}
	expect := func(l *Lease, after time.Duration, want bool, by string) {
		t.Helper()
		if held, holder := hold(l, after); held != want || holder != by {
			t.Errorf("after %v %s holds it: %v, by %q, want %v by %q", after, l.Identity, held, holder, want, by)
		}
	}
	expect(a, 0, true, "a")
	expect(b, 0, false, "a")
	spec := s.Objects["/apis/coordination.k8s.io/v1/namespaces/llm/leases/scale"]["spec"].(map[string]any)
	for _, name := range []string{"acquireTime", "renewTime"} { // as the API server reads them
		if _, err := time.Parse(microLayout, spec[name].(string)); err != nil || len(spec[name].(string)) !=
			len("2006-01-02T15:04:05.000000Z") {
			t.Errorf("%s is %v, %v", name, spec[name], err)
		}
	}
	calls := len(s.Calls)
	expect(a, 4*time.Second, true, "a")
	if len(s.Calls) != calls {
		t.Error("it was renewed before that was due")
	}
	expect(a, 6*time.Second, true, "a")
	expect(b, 16*time.Second, false, "a") // it sees the renewal now
	expect(b, 30*time.Second, false, "a")
	expect(b, 32*time.Second, true, "b") // a was silent for as long as b looked
	expect(a, 33*time.Second, false, "b")
	if err := b.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	expect(a, 34*time.Second, true, "a")

	s.Before = func(*http.Request) (int, string) { return http.StatusServiceUnavailable, "starting" }
	expect(a, 40*time.Second, true, "a") // what is left of it
	if until, _, err := a.Hold(t.Context(), begun.Add(50*time.Second)); err == nil || !until.IsZero() {
		t.Errorf("without an API server it is held until %v, %v", until, err)
	}
	s.Before = nil
	expect(a, 51*time.Second, true, "a")
	expect(b, 52*time.Second, false, "a")

	won := false
	s.Before = func(r *http.Request) (int, string) { // b takes it between a's look and a's write
		if r.Method == http.MethodPut && !won {
			won = true
			s.Before = nil
			expect(b, 90*time.Second, true, "b")
		}
		return 0, ""
	}
	if held, _ := hold(a, 90*time.Second); held || !won {
		t.Error("both hold it")
	}
	expect(a, 91*time.Second, false, "b")
	if err := a.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	expect(b, 92*time.Second, true, "b")
}

// TestLoad reads kubeconfig files.
func TestLoad(t *testing.T) {
	dir := t.TempDir()
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = json.NewEncoder(w).Encode(testkit.Replicas(len(r.Header.Get("Authorization"))))
	}))
	defer server.Close()
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	write := func(name, text string) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	write("ca.crt", string(ca))
	write("token", "file")
	config := func(cluster, user string) string {
		return write("config", `
current-context: here
contexts: [{name: here, context: {cluster: c, user: u, namespace: llm}}]
clusters: [{name: c, cluster: {server: "`+server.URL+`", `+cluster+`}}]
users: [{name: u, user: {`+user+`}}]
`)
	}
	data := "certificate-authority-data: " + base64.StdEncoding.EncodeToString(ca)
	for _, good := range []struct{ cluster, user string }{
		{"certificate-authority: ca.crt", "token: text"}, {data, "tokenFile: token"},
		{"insecure-skip-tls-verify: true", "token: text"},
	} {
		c, err := Load(config(good.cluster, good.user))
		if err != nil {
			t.Fatal(err)
		}
		s, err := c.Scale(t.Context(), Target{"deployment", "w"})
		if err != nil || s.Wanted != len("Bearer text") || c.Namespace != "llm" {
			t.Errorf("with %s and %s it has %d, %v", good.cluster, good.user, s.Wanted, err)
		}
	}
	for _, bad := range []struct{ cluster, user, text string }{
		{data, "exec: {command: aws}", "kubectl create token"},
		{data, "client-certificate: ca.crt", "go together"},
		{"certificate-authority-data: '%'", "token: x", "not base64"},
		{"certificate-authority: nowhere", "token: x", "no such file"},
		{"certificate-authority: token", "token: x", "contains no certificate"},
	} {
		_, err := Load(config(bad.cluster, bad.user))
		if err == nil || !strings.Contains(err.Error(), bad.text) {
			t.Errorf("%s and %s give %v, want %q", bad.cluster, bad.user, err, bad.text)
		}
	}
	for _, text := range []string{"[", "current-context: here", "current-context: a\ncontexts: [{name: a}]"} {
		if _, err := Load(write("config", text)); err == nil {
			t.Errorf("%q is taken", text)
		}
	}
}

// TestNoServer names what cannot be reached.
func TestNoServer(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	c := &Cluster{API: "http://127.0.0.1:1", Namespace: "llm", HTTP: http.DefaultClient}
	if _, err := c.Scale(ctx, Target{"statefulset", "w"}); err == nil ||
		!strings.Contains(err.Error(), "statefulset/w") {
		t.Errorf("without an API server: %v", err)
	}
}
