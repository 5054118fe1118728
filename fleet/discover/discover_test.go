package discover

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"parley/internal/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A board is what a source has told last.
type board struct {
	mu    sync.Mutex
	names []string
	told  int
}

func (b *board) tell(places []Address) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.names, b.told = nil, b.told+1
	for _, p := range places {
		b.names = append(b.names, p.Name)
	}
}

func (b *board) is(t *testing.T, want ...string) {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	if !slices.Equal(b.names, want) {
		t.Errorf("the source told %q, want %q", b.names, want)
	}
}

// follow runs a source for as long as the test.
func follow(t *testing.T, s Source) *board {
	b := &board{}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); s(ctx, b.tell) }()
	t.Cleanup(func() { cancel(); <-done })
	return b
}

func TestStatic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := Static([]Address{{URL: "http://b:1"}, {Name: "a", URL: "https://x"}})
		if err != nil {
			t.Fatal(err)
		}
		b := follow(t, s)
		synctest.Wait()
		b.is(t, "a", "b:1")
	})
	for _, bad := range [][]Address{{{URL: "b:1"}}, {{URL: "ftp://b"}}, {{}}, {{URL: "http://b"}, {URL: "http://b"}}} {
		if _, err := Static(bad); err == nil {
			t.Errorf("%+v is taken", bad)
		}
	}
}

// TestFile changes a file, also to nonsense, and takes it away.
func TestFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "workers.yaml")
		write := func(text string) {
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
			synctest.Wait()
		}
		b := follow(t, File(path, time.Second, nil))
		synctest.Wait()
		if b.told != 0 {
			t.Error("something was told of a file that is not there")
		}
		write("- http://a:1\n- name: b\n  url: http://b:1\n  kind: vllm\n")
		b.is(t, "a:1", "b")
		for _, bad := range []string{"", "- http://a:1\n- nonsense", "{", "- url: [1]", "- http://a:1\n- http://a:1",
			"- url: http://c:1\n  model: theirs\n"} {
			write(bad)
			b.is(t, "a:1", "b")
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * time.Second)
		b.is(t, "a:1", "b")
		write(`["http://c:1"]`)
		b.is(t, "c:1")
		told := b.told
		write(`[ "http://c:1" ]`)
		if b.told != told {
			t.Error("the same was told again")
		}
		write("[]")
		b.is(t)
	})
}

// TestDNS has a name server that changes its mind, fails, and forgets the name.
func TestDNS(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var addresses []netip.Addr
		var fault error
		set := func(err error, list ...string) {
			mu.Lock()
			addresses, fault = nil, err
			for _, a := range list {
				addresses = append(addresses, netip.MustParseAddr(a))
			}
			mu.Unlock()
			time.Sleep(time.Second)
			synctest.Wait()
		}
		s, err := DNS("http://workers:8000", time.Second,
			Resolver{IP: func(_ context.Context, network, host string) ([]netip.Addr, error) {
				mu.Lock()
				defer mu.Unlock()
				if network != "ip" || host != "workers" {
					t.Errorf("%s %s was looked up", network, host)
				}
				return addresses, fault
			}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		set(nil, "10.0.0.2", "10.0.0.1", "fd00::1", "::ffff:10.0.0.3")
		b := follow(t, s)
		synctest.Wait()
		b.is(t, "10.0.0.1:8000", "10.0.0.2:8000", "10.0.0.3:8000", "[fd00::1]:8000")
		told := b.told
		set(nil, "fd00::1", "10.0.0.3", "10.0.0.1", "10.0.0.2")
		if b.told != told {
			t.Error("another order is no change")
		}
		set(errors.New("the server is down"))
		b.is(t, "10.0.0.1:8000", "10.0.0.2:8000", "10.0.0.3:8000", "[fd00::1]:8000")
		set(nil, "10.0.0.9")
		b.is(t, "10.0.0.9:8000")
		set(&net.DNSError{IsNotFound: true})
		b.is(t, "10.0.0.9:8000")
		time.Sleep(3 * time.Second)
		synctest.Wait()
		b.is(t)
	})
}

func TestServiceRecords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := DNS("https://_http._tcp.workers", time.Second,
			Resolver{SRV: func(context.Context, string, string, string) (string, []*net.SRV, error) {
				return "", []*net.SRV{{Target: "b.example.", Port: 2}, {Target: "a.example.", Port: 1}}, nil
			}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		b := follow(t, s)
		synctest.Wait()
		b.is(t, "a.example:1", "b.example:2")
	})
	for _, bad := range []string{"", "workers:8000", "ftp://x", "http://"} {
		if _, err := DNS(bad, time.Second, SystemResolver(), nil); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}

// A cluster is an API server with one service. It numbers changes, forgets old
// ones, and can be made to end watches, to repeat events and to fail.
type cluster struct {
	mu      sync.Mutex
	version int
	slices  map[string]string // JSON without the version, by name
	log     []string          // events, of version base on
	base    int
	changed chan struct{}
	failing bool
	cut     chan struct{} // closed to end watches
	lists   int
	watches int
	pages   bool
	gone    bool // watches are answered with an event of 410, not with its status
}

func newCluster() *cluster {
	return &cluster{version: 100, base: 101, slices: map[string]string{}, changed: make(chan struct{}),
		cut: make(chan struct{})}
}

// endpoints is a slice with so many ready addresses, and one of each other kind.
func endpoints(name string, version int, addresses ...string) string {
	var list []string
	for _, a := range addresses {
		list = append(list, fmt.Sprintf(
			`{"addresses":[%q],"conditions":{"ready":true},"targetRef":{"name":"pod-%s"},"zone":"z1"}`, a, a))
	}
	list = append(list, `{"addresses":["9.9.9.9"],"conditions":{"ready":false}}`,
		`{"addresses":["9.9.9.8"],"conditions":{"ready":true,"terminating":true}}`)
	return fmt.Sprintf(
		`{"metadata":{"name":%q,"resourceVersion":"%d"},"endpoints":[%s],"ports":[{"name":"metrics","port":9},{"name":"http","port":8000}]}`, name, version, strings.Join(list, ","))
}

// set changes a slice; without addresses it is deleted.
func (c *cluster) set(name string, addresses ...string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.version++
	kind := "MODIFIED"
	if c.slices[name] == "" {
		kind = "ADDED"
	}
	object := endpoints(name, c.version, addresses...)
	c.slices[name] = object
	if len(addresses) == 0 {
		kind = "DELETED"
		delete(c.slices, name)
	}
	c.log = append(c.log, fmt.Sprintf(`{"type":%q,"object":%s}`, kind, object))
	close(c.changed)
	c.changed = make(chan struct{})
}

// forget drops the log, so that who watches from before must list again.
func (c *cluster) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.version++
	c.base, c.log = c.version+1, nil
}

func (c *cluster) cutWatches() {
	c.mu.Lock()
	defer c.mu.Unlock()
	close(c.cut)
	c.cut = make(chan struct{})
}

func (c *cluster) setFailing(failing bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.failing = failing
}

func (c *cluster) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	if r.URL.Path != "/apis/discovery.k8s.io/v1/namespaces/prod/endpointslices" ||
		q.Get("labelSelector") != "kubernetes.io/service-name=llm" || r.Header.Get("Authorization") != "Bearer secret" {
		http.Error(w, "forbidden", http.StatusForbidden)
		return
	}
	c.mu.Lock()
	failing := c.failing
	c.mu.Unlock()
	switch {
	case failing:
		http.Error(w, "etcd is away", http.StatusServiceUnavailable)
	case q.Get("watch") != "":
		c.watch(w, r)
	default:
		c.list(w, q.Get("continue"))
	}
}

func (c *cluster) list(w http.ResponseWriter, next string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lists++
	var names []string
	for name := range c.slices {
		names = append(names, name)
	}
	slices.Sort(names)
	rest := ""
	if c.pages && len(names) > 1 { // one page for the first, one for the others
		if next == "" {
			names, rest = names[:1], "more"
		} else {
			names = names[1:]
		}
	}
	var items []json.RawMessage
	for _, n := range names {
		items = append(items, json.RawMessage(c.slices[n]))
	}
	_ = json.NewEncoder(w).Encode(
		map[string]any{"metadata": map[string]string{"resourceVersion": fmt.Sprint(c.version), "continue": rest},
			"items": items})
}

func (c *cluster) watch(w http.ResponseWriter, r *http.Request) {
	var from int
	fmt.Sscan(r.URL.Query().Get("resourceVersion"), &from)
	c.mu.Lock()
	c.watches++
	cut, expired := c.cut, from+1 < c.base
	c.mu.Unlock()
	if expired && !c.gone {
		http.Error(w, "too old", http.StatusGone)
		return
	}
	if expired {
		fmt.Fprintln(w, `{"type":"ERROR","object":{"kind":"Status","code":410,"message":"too old resource version"}}`)
		return
	}
	for at := from + 1; ; {
		c.mu.Lock()
		changed := c.changed
		for ; at >= c.base && at-c.base < len(c.log); at++ {
			fmt.Fprintln(w, c.log[at-c.base])
			if at%2 == 0 {
				fmt.Fprintln(w, c.log[at-c.base]) // repeated
			}
		}
		fmt.Fprintf(w, `{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"%d"}}}`+"\n", at-1)
		c.mu.Unlock()
		w.(http.Flusher).Flush()
		select {
		case <-changed:
		case <-cut:
			return
		case <-r.Context().Done():
			return
		}
	}
}

// TestKubernetes follows a service through all that API servers do.
func TestKubernetes(t *testing.T) {
	for _, gone := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			api := newCluster()
			api.gone, api.pages = gone, true
			listener, client := testkit.Listen()
			server := &http.Server{Handler: api}
			go server.Serve(listener)
			defer client.CloseIdleConnections()
			defer server.Close()
			secret := filepath.Join(t.TempDir(), "token")
			if err := os.WriteFile(secret, []byte("secret\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			s, err := Kubernetes{Service: "llm", Namespace: "prod", API: "http://api", TokenFile: secret, Port: "http",
				Client: client}.Source()
			if err != nil {
				t.Fatal(err)
			}
			settle := func() { time.Sleep(2 * time.Second); synctest.Wait() }
			api.set("x", "10.0.0.1", "10.0.0.2")
			api.set("y", "10.0.0.3")
			ctx, cancel := context.WithCancel(t.Context())
			b, done := &board{}, make(chan struct{})
			go func() { defer close(done); s(ctx, b.tell) }()
			defer func() { cancel(); <-done }()
			settle()
			b.is(t, "pod-10.0.0.1", "pod-10.0.0.2", "pod-10.0.0.3")
			api.set("x", "10.0.0.2")
			api.set("z", "10.0.0.4", "10.0.0.3") // the same endpoint in two slices, as while one is moved
			settle()
			b.is(t, "pod-10.0.0.2", "pod-10.0.0.3", "pod-10.0.0.4")
			api.set("y")
			settle()
			b.is(t, "pod-10.0.0.2", "pod-10.0.0.3", "pod-10.0.0.4")

			lists := api.lists
			api.cutWatches() // reconnects from where it was
			api.set("z", "10.0.0.5")
			settle()
			b.is(t, "pod-10.0.0.2", "pod-10.0.0.5")
			if api.lists != lists {
				t.Error("a watch that ended was not gone on with")
			}

			api.set("x", "10.0.0.6")
			api.forget() // 410: lists again
			api.cutWatches()
			settle()
			b.is(t, "pod-10.0.0.5", "pod-10.0.0.6")
			if api.lists == lists {
				t.Error("after 410 nothing was listed")
			}

			api.setFailing(true)
			api.cutWatches()
			api.set("x", "10.0.0.7")
			settle()
			b.is(t, "pod-10.0.0.5", "pod-10.0.0.6")
			api.setFailing(false)
			time.Sleep(time.Minute)
			synctest.Wait()
			b.is(t, "pod-10.0.0.5", "pod-10.0.0.7")
		})
	}
}

func TestKubernetesIsChecked(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	for _, k := range []Kubernetes{{}, {Service: "x"}, {Service: "x", API: "http://a"},
		{Service: "x", Namespace: "n", API: "http://a", CAFile: "/nowhere"}} {
		if _, err := k.Source(); err == nil {
			t.Errorf("%+v is taken", k)
		}
	}
}

// FuzzPlaces reads lists of workers.
func FuzzPlaces(f *testing.F) {
	f.Add([]byte("- http://a:1\n- name: b\n  url: http://b\n"))
	f.Add([]byte(`[{"url":"http://x","labels":{"a":"b"}}]`))
	f.Fuzz(func(t *testing.T, data []byte) {
		places, err := ParseAddresses(data)
		if err != nil {
			return
		}
		for _, p := range places {
			if p.Name == "" || p.complete() != nil {
				t.Errorf("%+v is no place", p)
			}
		}
	})
}

// FuzzWatch reads events of an API server.
func FuzzWatch(f *testing.F) {
	f.Add([]byte(`{"type":"ADDED","object":` + endpoints("a", 1, "10.0.0.1") + `}`))
	f.Add([]byte(`{"type":"ERROR","object":{"code":410}}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		w := &serviceState{slices: map[string]slice{}}
		_ = w.apply(line) // any error will do
		k := Kubernetes{Scheme: "http"}
		_, _ = complete(k.places(w.slices))
	})
}
