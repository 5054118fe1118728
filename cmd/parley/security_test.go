package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"parley/cli/remote"
	"parley/internal/supervise"
)

// The attacks of the audit against the real program: strangers come through a real
// nginx with a plain proxy_pass, which adds no header, through a TCP forwarder, and as
// other users of the machine. `make security` runs them.

// strangers have a client that shows no credential.
var strangers = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 30 * time.Second}

// An outsider asks a server by one way that leads to it.
type outsider struct{ way, url string }

// outsiders returns the ways that lead from other machines to a server that listens on
// a loopback address.
func outsiders(t *testing.T, s *server) []outsider {
	t.Helper()
	upstream := strings.TrimPrefix(s.url, "http://")
	ways := []outsider{
		{"TCP forwarder", startForwarder(t, upstream)},
		{"another user of the machine", s.url},
	}
	if program, err := exec.LookPath("nginx"); err == nil {
		ways = append(ways, outsider{"nginx", startNginx(t, program, upstream)})
	} else {
		t.Log("nginx is not installed, so attacks through nginx are not tested: run make security, which installs it")
	}
	return ways
}

// startNginx starts nginx as people set it up: proxy_pass and nothing else. It is one
// process, of which nothing is left when it is killed.
func startNginx(t *testing.T, program, upstream string) (url string) {
	t.Helper()
	address, err := supervise.FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	config := fmt.Sprintf(`daemon off; master_process off; pid %[1]s/pid; error_log %[1]s/error.log;
events {}
http {
	access_log off;
	client_body_temp_path %[1]s/body; proxy_temp_path %[1]s/proxy; fastcgi_temp_path %[1]s/f; uwsgi_temp_path %[1]s/u; scgi_temp_path %[1]s/s;
	server { listen %[2]s; location / { proxy_pass http://%[3]s; } }
}
`, dir, address, upstream)
	if err := os.WriteFile(filepath.Join(dir, "nginx.conf"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), program, "-p", dir, "-e", filepath.Join(dir, "error.log"), "-c",
		filepath.Join(dir, "nginx.conf"))
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	until(t, "nginx answers", func() bool {
		c, err := net.Dial("tcp", address)
		if err == nil {
			c.Close()
		}
		return err == nil
	})
	return "http://" + address
}

// startForwarder carries connections to an address, as socat, ssh -R and kubectl
// port-forward do.
func startForwarder(t *testing.T, upstream string) (url string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			from, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() { forward(from, upstream) })
		}
	})
	t.Cleanup(func() { l.Close(); all.Wait() })
	return "http://" + l.Addr().String()
}

func forward(from net.Conn, upstream string) {
	defer from.Close()
	to, err := net.Dial("tcp", upstream)
	if err != nil {
		return
	}
	defer to.Close()
	var both sync.WaitGroup
	both.Go(func() { _, _ = io.Copy(to, from); to.Close() })
	both.Go(func() { _, _ = io.Copy(from, to); from.Close() })
	both.Wait()
}

// ask sends a request as a stranger and returns what came back.
func (o outsider) ask(t *testing.T, method, path, body string, headers ...string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, o.url+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(headers); i += 2 {
		if r.Header.Set(headers[i], headers[i+1]); headers[i] == "Host" {
			r.Host = headers[i+1]
		}
	}
	response, err := strangers.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, 1<<20))
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(text)
}

const helloChat = `{"model":"polly-mini","max_tokens":4,"messages":[{"role":"user","content":"Hello!"}]}`

// TestSecurityWithoutKeys: behind whatever careless way, a stranger can neither read what
// the owner has stored, nor make the first key, nor operate.
func TestSecurityWithoutKeys(t *testing.T) {
	data := t.TempDir()
	s := startServerIn(t, data, "--model", "polly-mini", "--worker", nowhere, "--fleet-operate-token",
		"operate-token-0123456789")
	owner := func(method, path, body string) string {
		t.Helper()
		c, err := remote.New(s.url)
		if err != nil {
			t.Fatal(err)
		}
		response, err := c.Send(t.Context(), method, path, []byte(body))
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		text, _ := io.ReadAll(response.Body)
		return string(text)
	}
	owner("POST", "/v1/conversations", `{"items":[{"role":"user","content":"my secret plan"}]}`)
	if list := owner("GET", "/v1/conversations?q=secret", ""); !strings.Contains(list, "conv_") {
		t.Fatalf("the owner does not see what is stored: %s", list)
	}
	for _, o := range outsiders(t, s) {
		for _, c := range []struct{ method, path, body string }{
			{"GET", "/v1/conversations", ""}, {"GET", "/v1/conversations?q=secret", ""}, {"GET", "/v1/files", ""},
			{"GET", "/v1/batches", ""},
			{"GET", "/v1/organization/usage/completions?start_time=0", ""}, {"GET", "/v1/queue", ""},
			{"POST", "/v1/organization/admin_api_keys", `{"name":"evil"}`},
			{"POST", "/v1/organization/api_keys", `{"name":"evil"}`},
			{"POST", "/admin/api/organization/admin_api_keys", `{"name":"evil"}`},
			{"GET", "/metrics", ""}, {"GET", "/admin/api/now", ""}, {"GET", "/admin/api/requests", ""},
			{"GET", "/debug/pprof/cmdline", ""},
			{"GET", "/fleet/workers", ""}, {"GET", "/fleet/findings", ""}, {"POST", "/fleet/workers/x/drain", ""},
			{"POST", "/v1/responses", `{"model":"polly-mini","input":"Hi","store":true}`},
			{"POST", "/session", `{"key":"local-ABCDEFGHIJKLMNOPQRSTUVWXYZ"}`},
		} {
			for _, headers := range [][]string{nil, {"Host", "localhost"}, {"Authorization", "Bearer sk-anything"},
				{"X-Forwarded-For", "127.0.0.1"}} {
				if status, text := o.ask(t, c.method, c.path, c.body, headers...); status != 401 && status != 403 ||
					strings.Contains(text, "secret plan") {
					t.Errorf("%s: %s %s with %q: %d %.200s", o.way, c.method, c.path, headers, status, text)
				}
			}
		}
	}
	if list, err := invoke(t, "keys", "list", "--json", "--data", data); err != nil || strings.Contains(list, "evil") {
		t.Errorf("the keys are %s, %v", list, err)
	}
}

// TestSecurityFirstUse: on the machine itself the first use is as easy as ever.
func TestSecurityFirstUse(t *testing.T) {
	s := startServerIn(t, t.TempDir(), "--model", "polly-mini")
	here := outsider{"curl", s.url}
	for path, body := range map[string]string{
		"/v1/chat/completions": helloChat,
		"/v1/messages":         helloChat,
		"/v1/completions":      `{"model":"polly-mini","prompt":"x","max_tokens":2}`,
		"/v1/embeddings":       `{"model":"polly-mini","input":"x"}`,
		"/v1/moderations":      `{"input":"x"}`,
		"/v1/responses":        `{"model":"polly-mini","input":"Hi","max_output_tokens":4}`,
	} {
		for _, headers := range [][]string{nil, {"Authorization", "Bearer any"}} {
			if status, text := here.ask(t, "POST", path, body, headers...); status != 200 {
				t.Errorf("%s with %q: %d %.200s", path, headers, status, text)
			}
		}
	}
	for _, path := range []string{"/", "/v1/models", "/healthz"} {
		if status, _ := here.ask(t, "GET", path, ""); status != 200 {
			t.Errorf("%s: %d", path, status)
		}
	}
	for _, args := range [][]string{{"top", "--once"}, {"ps"}, {"models"}} {
		if out, err := invoke(t, append(args, "--url", s.url)...); err != nil {
			t.Errorf("parley %s: %v %s", args[0], err, out)
		}
	}
}

// TestSecurityWithKeys: once a key exists, an address gives no right.
func TestSecurityWithKeys(t *testing.T) {
	data := t.TempDir()
	admin := makeKey(t, "me", "--admin", "--data", data)
	const joinToken, operateToken = "join-token-0123456789", "operate-token-0123456789"
	s := startServerIn(t, data, "--model", "polly-mini", "--worker", nowhere, "--fleet-join-token", joinToken,
		"--fleet-operate-token", operateToken)
	for _, o := range outsiders(t, s) {
		for _, path := range []string{"/metrics", "/admin/api/now", "/admin/api/requests", "/debug/pprof/",
			"/debug/pprof/cmdline", "/fleet/workers", "/fleet/findings", "/v1/models"} {
			if status, text := o.ask(t, "GET", path, ""); status != 401 {
				t.Errorf("%s: %s: %d %.200s", o.way, path, status, text)
			}
		}
		if status, text := o.ask(t, "GET", "/debug/pprof/cmdline", "", "Authorization",
			"Bearer "+admin); status != 404 || strings.Contains(text, operateToken) {
			t.Errorf("%s: the command line: %d %.200s", o.way, status, text)
		}
		if status, text := o.ask(t, "POST", "/fleet/workers/x/drain", "", "Origin", "https://evil.example",
			"Content-Type", "text/plain"); status != 403 && status != 401 {
			t.Errorf("%s: a foreign page drains a worker: %d %.200s", o.way, status, text)
		}
		if status, text := o.ask(t, "GET", "/debug/pprof/profile?seconds=1", "", "Sec-Fetch-Site", "cross-site",
			"Authorization", "Bearer "+admin); status != 403 {
			t.Errorf("%s: a foreign page runs a profile: %d %.200s", o.way, status, text)
		}
		for secret, want := range map[string]int{admin: 200, operateToken: 200, operateToken + "x": 401,
			joinToken: 401} {
			if status, text := o.ask(t, "GET", "/fleet/workers", "", "Authorization",
				"Bearer "+secret); status != want {
				t.Errorf("%s: the fleet with a credential: %d, want %d: %.200s", o.way, status, want, text)
			}
		}
		if _, text := o.ask(t, "GET", "/", ""); strings.Contains(text, "polly-mini") {
			t.Errorf("%s: GET / names models: %s", o.way, text)
		}
	}
}

// TestSecurityLocalToken looks at the file with the token: no other user can read it, it
// goes with its server, each server has its own, and the JSON log does not have it.
func TestSecurityLocalToken(t *testing.T) {
	one, two := startServerIn(t, t.TempDir(), "--model", "polly-mini"), startServerIn(t, t.TempDir(), "--model",
		"polly-mini", "--log-format", "json")
	first, second := remote.LocalTokenOf(one.url), remote.LocalTokenOf(two.url)
	if len(first) < 32 || first == second ||
		remote.LocalTokenOf(strings.Replace(one.url, "127.0.0.1", "localhost", 1)) != first {
		t.Errorf("the tokens are %q and %q", first, second)
	}
	port := one.url[strings.LastIndex(one.url, ":")+1:]
	file := filepath.Join(remote.TokenDirs()[0], remote.TokenName("127.0.0.1", port))
	info, err := os.Stat(file)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("%v: %v", info, err)
	}
	if dir, err := os.Stat(filepath.Dir(file)); err != nil || dir.Mode().Perm() != 0o700 {
		t.Errorf("%v: %v", dir, err)
	}
	owner := outsider{"owner", one.url}
	for secret, want := range map[string]int{first: 200, second: 401} {
		if status, _ := owner.ask(t, "GET", "/v1/conversations", "", "Authorization",
			"Bearer "+secret); status != want {
			t.Errorf("a token: %d, want %d", status, want)
		}
	}
	if said := one.endAndRead(t); !strings.Contains(said, "  "+one.url+"/?token="+first+"\n") {
		t.Errorf("it says\n%s", said)
	}
	if said := two.endAndRead(t); strings.Contains(said, second) || !strings.Contains(said, "token_file") {
		t.Errorf("the JSON log is\n%s", said)
	}
	until(t, "the file is gone", func() bool { _, err := os.Stat(file); return os.IsNotExist(err) })
}

// TestSecurityPlainHTTP: keys that cross a network in clear text are warned of.
func TestSecurityPlainHTTP(t *testing.T) {
	data := t.TempDir()
	makeKey(t, "me", "--admin", "--data", data)
	for warns, args := range map[bool][]string{true: nil, false: {"--trusted-proxies", "10.0.0.0/8"}} {
		s := startServerIn(t, data, append([]string{"--model", "polly-mini", "--addr", "0.0.0.0:0"}, args...)...)
		if said := s.endAndRead(t); strings.Contains(said, "clear text") != warns {
			t.Errorf("with %q: %s", args, said)
		}
	}
}
