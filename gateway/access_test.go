package gateway

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"parley/gateway/admin"
	"parley/gateway/exchange"
	"parley/gateway/tenant"
)

// all returns the routes in the order of their names.
func (t *routeTable) all() []*route {
	routes := slices.Clone(t.patterns)
	for _, r := range t.plain {
		routes = append(routes, r)
	}
	slices.SortFunc(routes, func(a, b *route) int { return strings.Compare(a.name, b.name) })
	return routes
}

const operateToken = "operate-0123456789"

// withEverything configures a server that has every route there is.
func withEverything(c *Config) {
	ok := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
	done := func(string) error { return nil }
	c.Pages = ok
	c.Fleet = &admin.Fleet{
		Workers: func() []admin.Worker { return nil },
		Drain:   done,
		Resume:  done,
		Sleep:   done,
		Wake:    done,
	}
	c.FleetAPI = &FleetAPI{
		Operate:    ok,
		MayOperate: func(secret string) bool { return secret == operateToken },
		Register:   ok,
	}
}

// askHere sends a request of a browser or a program on this machine.
func (s *server) askHere(method, path string, headers ...string) *httptest.ResponseRecorder {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second) // some routes answer for ever
	defer cancel()
	r := httptest.NewRequestWithContext(ctx, method, "http://127.0.0.1:8080"+path, strings.NewReader("{}"))
	r.RemoteAddr = "127.0.0.1:9"
	r.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(headers); i += 2 {
		if r.Header.Set(headers[i], headers[i+1]); headers[i] == "Host" {
			r.Host = headers[i+1]
		}
	}
	w := httptest.NewRecorder()
	s.gateway.ServeHTTP(w, r)
	return w
}

// each calls see for every method of every route of some classes, with a path that
// matches it.
func (t *routeTable) each(see func(method, path string), classes ...access) {
	for _, r := range t.all() {
		for method := range r.methods {
			if slices.Contains(classes, r.access) && method != upgrade {
				see(method, strings.NewReplacer("{", "", "}", "").Replace(r.name))
			}
		}
	}
}

// TestEveryRouteDeclaresItsAccess compares the route table with a list that was
// reviewed: a route that is new or changes its class shows in the difference.
func TestEveryRouteDeclaresItsAccess(t *testing.T) {
	dsn := newStoreName(t)
	s, _ := startGuarded(t, &worker{}, dsn, auditedBy(t, dsn), withEverything)
	var got strings.Builder
	for _, r := range s.gateway.routes.all() {
		if r.access == undeclared {
			t.Errorf("%s declares no access class", r.name)
		}
		methods := []string{}
		for method := range r.methods {
			methods = append(methods, method)
		}
		slices.Sort(methods)
		fmt.Fprintf(&got, "%-15s %s %s\n", r.access, r.name, strings.Join(methods, ","))
	}
	want, err := os.ReadFile("testdata/routes.txt")
	if err != nil || string(want) != got.String() {
		t.Errorf("testdata/routes.txt is %v and differs from the table, which is:\n%s", err, got.String())
	}
}

// TestRoutesWithoutAccessAreRefused adds rows that lack a class or contradict one.
func TestRoutesWithoutAccessAreRefused(t *testing.T) {
	for name, rows := range map[string][]routeRow{
		"undeclared":    {{"GET", "/x", undeclared, false, nil}},
		"contradiction": {{"GET", "/x", public, false, nil}, {"POST", "/x", operator, false, nil}},
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: the table took the row", name)
				}
			}()
			var table routeTable
			for _, r := range rows {
				table.add(r)
			}
		}()
	}
}

// TestOperatorRoutesNeedAnAdminKey asks from this machine, once a key exists: the
// address gives no right.
func TestOperatorRoutesNeedAnAdminKey(t *testing.T) {
	dsn := newStoreName(t)
	s, rig := startGuarded(t, &worker{}, dsn, auditedBy(t, dsn), withEverything)
	admin, _ := rig.key(tenant.NewKey{Admin: true})
	plain, _ := rig.key(tenant.NewKey{})
	n := 0
	s.gateway.routes.each(func(method, path string) {
		n++
		for what, c := range map[string]struct {
			headers []string
			want    int
		}{
			"no key":                     {nil, 401},
			"a plain key":                {bearer(plain), 403},
			"a proxy's header":           {[]string{"X-Forwarded-For", "127.0.0.1"}, 401},
			"a page elsewhere":           {append(bearer(admin), "Origin", "https://evil.example"), 403},
			"a page elsewhere, reading":  {append(bearer(admin), "Sec-Fetch-Site", "cross-site"), 403},
			"a page of a sibling's name": {append(bearer(admin), "Sec-Fetch-Site", "same-site"), 403},
		} {
			if w := s.askHere(method, path, c.headers...); w.Code != c.want {
				t.Errorf("%s %s with %s: %d, want %d: %.150s", method, path, what, w.Code, c.want, w.Body)
			}
		}
	}, operator, fleetOperator)
	if n < 30 {
		t.Errorf("only %d operator routes were asked", n)
	}
	for path, want := range map[string]int{"/metrics": 200, "/admin/api/now": 200, "/fleet/workers": 200,
		keysPath: 200} {
		if w := s.askHere("GET", path, bearer(admin)...); w.Code != want {
			t.Errorf("%s with an admin key: %d, want %d: %.150s", path, w.Code, want, w.Body)
		}
	}
}

// TestFleetRoutesAreTheGateways asks on /fleet/ as the audit did, with and without
// keys.
func TestFleetRoutesAreTheGateways(t *testing.T) {
	s, rig := startGuarded(t, &worker{}, newStoreName(t), withEverything)
	const workers, drain, register = "/fleet/workers", "/fleet/workers/local%2Fchat%2Fpolly/drain", "/fleet/register"
	check := func(method, path string, want int, headers ...string) {
		t.Helper()
		if w := s.askHere(method, path, headers...); w.Code != want {
			t.Errorf("%s %s with %q: %d, want %d: %.150s", method, path, headers, w.Code, want, w.Body)
		}
	}
	shared := func() {
		t.Helper()
		check("GET", workers, 200, bearer(operateToken)...)
		check("GET", "/fleet/metrics", 200, bearer(operateToken)...)
		check("POST", drain, 200, bearer(operateToken)...)
		check("POST", drain, 400, append(bearer(operateToken), "Content-Type", "text/plain")...)
		check("POST", drain, 403, append(bearer(operateToken), "Origin", "https://evil.example")...)
		check("POST", register, 200)
		check("POST", register, 400, "Content-Type", "text/plain")
		check("POST", register, 403, "Origin", "https://evil.example")
		check("PUT", register, 405)
	}
	shared()
	check("POST", drain, 403, "Origin", "https://evil.example", "Content-Type", "text/plain")
	check("GET", workers, 403, "X-Forwarded-For", "192.0.2.9")
	check("GET", "/fleet/nothing", 404, bearer(operateToken)...)
	admin, _ := rig.key(tenant.NewKey{Admin: true})
	shared()
	check("GET", workers, 401, "X-Forwarded-For", "192.0.2.9")
	check("GET", workers, 401)
	check("GET", "/fleet/metrics", 401)
	check("GET", "/metrics", 401, bearer(operateToken)...)
	check("POST", drain, 401, "X-Forwarded-For", "192.0.2.9")
	check("GET", workers, 401, bearer("operate-012345678")...)
	check("GET", workers, 200, bearer(admin)...)
	check("GET", "/admin/api/now", 401, bearer(operateToken)...) // it operates the fleet alone
	if log := s.log.String(); strings.Contains(log, operateToken) {
		t.Error("the operate token is in the log")
	}
}

// TestRefusalsAreLoggedWithTheirOrigin finds the client's address behind a trusted
// proxy in the log of a request with a wrong key.
func TestRefusalsAreLoggedWithTheirOrigin(t *testing.T) {
	s, rig := startGuarded(t, &worker{}, newStoreName(t), func(c *Config) {
		c.TrustedProxies = must(exchange.ParseProxies("127.0.0.0/8"))(t)
	})
	rig.key(tenant.NewKey{Admin: true})
	s.askHere("POST", "/v1/chat/completions",
		append(bearer("sk-wrong"), "X-Forwarded-For", "203.0.113.9, 198.51.100.4")...)
	for _, part := range []string{"status=401", "remote=198.51.100.4"} {
		if !strings.Contains(s.log.String(), part) {
			t.Errorf("the log does not say %s:\n%s", part, s.log)
		}
	}
}

// TestCommandLineIsNotShown asks for the profile that prints flags, and so secrets.
func TestCommandLineIsNotShown(t *testing.T) {
	s, rig := startGuarded(t, &worker{}, newStoreName(t))
	admin, _ := rig.key(tenant.NewKey{Admin: true})
	if w := s.askHere("GET", "/debug/pprof/cmdline", bearer(admin)...); w.Code != 404 ||
		strings.Contains(w.Body.String(), os.Args[0]) {
		t.Errorf("%d: %.100s", w.Code, w.Body)
	}
	if w := s.askHere("GET", "/debug/pprof/goroutine?debug=1", bearer(admin)...); w.Code != 200 {
		t.Errorf("goroutines: %d", w.Code)
	}
}

// TestStrictTransport has answers over TLS ask for TLS from then on, except by local
// names, which other programs on the machine serve, too.
func TestStrictTransport(t *testing.T) {
	s := start(t, &worker{})
	for url, want := range map[string]string{
		"https://chat.example/healthz": "max-age=31536000",
		"https://localhost/healthz":    "",
		"http://chat.example/healthz":  "",
	} {
		w := httptest.NewRecorder()
		s.gateway.ServeHTTP(w, httptest.NewRequest("GET", url, nil))
		if got := w.Header().Get("Strict-Transport-Security"); got != want {
			t.Errorf("%s: %q, want %q", url, got, want)
		}
	}
}
