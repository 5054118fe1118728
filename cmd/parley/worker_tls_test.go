package main

import (
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"parley"
	"parley/internal/testkit"
	"parley/internal/tlsfile"
	"parley/worker"
	"parley/worker/workertest"
)

// A tlsTest has two authorities and the files that they have signed.
type tlsTest struct {
	*testing.T
	ca, other *testkit.CA
}

// client returns how a client trusts one authority, with a certificate of another; nil
// for none.
func (t *tlsTest) client(trusted, signer *testkit.CA, until time.Duration) func() *tls.Config {
	t.Helper()
	roots, err := tlsfile.LoadAuthorities(trusted.File, slog.Default())
	if err != nil {
		t.Fatal(err)
	}
	var own *tlsfile.Certificate
	if signer != nil {
		certFile, keyFile := signer.Issue(t.TempDir(), 9, time.Now().Add(until))
		if own, err = tlsfile.LoadCertificate(certFile, keyFile, slog.Default()); err != nil {
			t.Fatal(err)
		}
	}
	return tlsfile.Client(roots, own)
}

var secureLine = regexp.MustCompile(`Parley worker for \S+ on (https://\S+)`)

// startSecure starts a worker that speaks TLS, and returns its URL.
func (t *tlsTest) startSecure(certFile, keyFile string, args ...string) string {
	t.Helper()
	exe, err := exec.LookPath("parley")
	if err != nil {
		t.Fatal(err)
	}
	c := &crew{t: t.T, exe: exe}
	h := &hand{addr: "127.0.0.1:0", data: t.TempDir()}
	if h.log, err = os.Create(filepath.Join(h.data, "log")); err != nil {
		t.Fatal(err)
	}
	c.start(h, append([]string{"--tls-cert", certFile, "--tls-key", keyFile}, args...)...)
	var url string
	until(t.T, "the worker starts", func() bool {
		text, _ := os.ReadFile(h.log.Name())
		if m := secureLine.FindSubmatch(text); m != nil {
			url = string(m[1])
		}
		return url != ""
	})
	return url
}

// TestWorkerOverTLS has clients of the right authority, of another one, without and with
// expired certificates talk to a worker over all its wires: HTTP, the native one and the
// stream of events.
func TestWorkerOverTLS(t *testing.T) {
	x := &tlsTest{t, testkit.NewCA(t, "ca"), testkit.NewCA(t, "other")}
	dir := t.TempDir()
	certFile, keyFile := x.ca.Issue(dir, 1, time.Now().Add(time.Hour))
	url := x.startSecure(certFile, keyFile, "--client-ca", x.ca.File)
	for _, c := range []struct {
		name   string
		tls    func() *tls.Config
		answer string // of a refusal; empty if all is well
	}{
		{"mutual", x.client(x.ca, x.ca, time.Hour), ""},
		{"no client certificate", x.client(x.ca, nil, 0), "--worker-client-cert"},
		{"client certificate of another authority", x.client(x.ca, x.other, time.Hour), "--worker-client-cert"},
		{"expired client certificate", x.client(x.ca, x.ca, -time.Hour), "tls:"},
		{"another authority trusted", x.client(x.other, x.ca, time.Hour), "unknown authority"},
		{"the system's authorities", nil, "unknown authority"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, err := worker.Dial(worker.Config{URL: url, Kind: worker.Parley, TLS: c.tls})
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			if c.answer == "" {
				if _, err := r.Probe(t.Context()); err != nil {
					t.Error(err)
				}
				workertest.Ask(t, r, storyRequest(4))
				if _, _, err := r.Snapshot(t.Context()); err != nil {
					t.Error(err)
				}
				return
			}
			_, probe := r.Probe(t.Context())
			_, _, snapshot := r.Snapshot(t.Context())
			var native error
			for _, err := range r.Generate(t.Context(), storyRequest(1)) {
				native = err
			}
			for what, err := range map[string]error{"about": probe, "snapshot": snapshot, "native": native} {
				if err == nil || !strings.Contains(err.Error(), c.answer) {
					t.Errorf("%s: %v, want %q", what, err, c.answer)
				}
			}
		})
	}
	// The certificate is replaced: the next connection sees the new one, and health is
	// open to load balancers.
	x.ca.Issue(dir, 2, time.Now().Add(time.Hour))
	secure := x.client(x.ca, nil, 0)
	until(t, "the new certificate is used", func() bool {
		client := http.Client{Transport: &http.Transport{TLSClientConfig: secure(), DisableKeepAlives: true}}
		resp, err := client.Get(url + "/health")
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		return resp.StatusCode == http.StatusOK && resp.TLS.PeerCertificates[0].SerialNumber.Int64() == 2
	})
}

func TestExpiredWorker(t *testing.T) {
	x := &tlsTest{t, testkit.NewCA(t, "ca"), nil}
	certFile, keyFile := x.ca.Issue(t.TempDir(), 1, time.Now().Add(-time.Minute))
	r, err := worker.Dial(worker.Config{URL: x.startSecure(certFile, keyFile), Kind: worker.Parley,
		TLS: x.client(x.ca, nil, 0)})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if _, err := r.Probe(t.Context()); parley.CodeOf(err) != parley.Unavailable ||
		!strings.Contains(err.Error(), "expired") {
		t.Errorf("a worker whose certificate has expired: %v", err)
	}
}

// TestFleetOverTLS has a worker register at an https gateway, which calls it back over
// TLS with a certificate of its own. A gateway that trusts another authority gets no
// worker.
func TestFleetOverTLS(t *testing.T) {
	x := &tlsTest{t, testkit.NewCA(t, "ca"), testkit.NewCA(t, "other")}
	certFile, keyFile := x.ca.Issue(t.TempDir(), 1, time.Now().Add(time.Hour))
	url := x.startSecure(certFile, keyFile, "--client-ca", x.ca.File)
	const token = "0123456789abcdef"
	path := filepath.Join(t.TempDir(), "parley.yaml")
	pools := fmt.Sprintf(
		"model: polly-mini\nfleet_join_token: %s\nfleet_operate_token: fedcba9876543210\npools: [{name: own, "+
			"purpose: any, workers: [{register: true}, {url: %q}]}]\n", token, url)
	if err := os.WriteFile(path, []byte(pools), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PARLEY_FLEET_OPERATE_TOKEN", "fedcba9876543210")
	front := startServer(t, "--config", path, "--log-level", "warn", "--tls-cert", certFile, "--tls-key", keyFile,
		"--worker-ca", x.ca.File, "--worker-client-cert", certFile, "--worker-client-key", keyFile)
	go func() {
		for range front.lines {
		}
	}()
	x.startSecure(certFile, keyFile, "--client-ca", x.ca.File, "--register", front.url, "--gateway-ca", x.ca.File,
		"--fleet-join-token", token)
	client := http.Client{Transport: &http.Transport{TLSClientConfig: x.client(x.ca, nil, 0)(),
		DisableKeepAlives: true}}
	ask := func(path string) string {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, front.url+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Authorization", "Bearer fedcba9876543210")
		resp, err := client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		text, _ := io.ReadAll(resp.Body)
		return string(text)
	}
	until(t, "both workers are up and their events are followed", func() bool {
		text := ask("/fleet/workers")
		return strings.Count(text, `"state":"up"`) == 2 && strings.Count(text, `"index":"exact"`) == 2
	})
}
