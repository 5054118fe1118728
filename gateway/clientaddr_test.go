package gateway

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"parley/gateway/exchange"

	"github.com/coder/websocket"
)

// TestClientAddr takes the word of trusted proxies, and of nobody before them.
func TestClientAddr(t *testing.T) {
	trusted, err := exchange.ParseProxies("127.0.0.1, 10.0.0.0/8,2001:db8::/32")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		what, peer string
		headers    []string
		want       string
	}{
		{"no proxy", "192.0.2.9:5", nil, "192.0.2.9"},
		{"a stranger who names another", "192.0.2.9:5", []string{"X-Forwarded-For", "198.51.100.1"}, "192.0.2.9"},
		{"a proxy that says nothing", "127.0.0.1:5", nil, "127.0.0.1"},
		{"one proxy", "127.0.0.1:5", []string{"X-Forwarded-For", "198.51.100.1"}, "198.51.100.1"},
		{"what the client invented before", "127.0.0.1:5", []string{"X-Forwarded-For", "127.0.0.1, 198.51.100.1"},
			"198.51.100.1"},
		{"two proxies", "127.0.0.1:5", []string{"X-Forwarded-For", "203.0.113.4, 198.51.100.1, 10.1.2.3"},
			"198.51.100.1"},
		{"two lines", "127.0.0.1:5", []string{"X-Forwarded-For", "203.0.113.4", "X-Forwarded-For", "198.51.100.1"},
			"198.51.100.1"},
		{"all trusted", "127.0.0.1:5", []string{"X-Forwarded-For", "10.0.0.1, 10.0.0.2"}, "10.0.0.1"},
		{"words", "127.0.0.1:5", []string{"X-Forwarded-For", "198.51.100.1, unknown"}, "127.0.0.1"},
		{"a port", "[::1]:5", []string{"X-Forwarded-For", "198.51.100.1"}, "::1"},
		{"mapped", "[::ffff:127.0.0.1]:5", []string{"X-Forwarded-For", "198.51.100.1:99"}, "198.51.100.1"},
		{"the standard's header", "127.0.0.1:5", []string{"Forwarded",
			`for=203.0.113.4;proto=https, for="[2001:db8:1::1]:99", For=198.51.100.1`}, "198.51.100.1"},
		{"the standard's header, IPv6", "127.0.0.1:5", []string{"Forwarded", `proto=http;for="[2001:dc8::1]:47011"`},
			"2001:dc8::1"},
		{"no address at all", "pipe", []string{"X-Forwarded-For", "198.51.100.1"}, "invalid IP"},
	} {
		r := httptest.NewRequest("GET", "/", nil)
		r.RemoteAddr = c.peer
		for i := 0; i < len(c.headers); i += 2 {
			r.Header.Add(c.headers[i], c.headers[i+1])
		}
		if got := exchange.ClientAddr(r, trusted).String(); got != c.want {
			t.Errorf("%s: %s, want %s", c.what, got, c.want)
		}
		if got := exchange.ClientAddr(r, nil); got != exchange.ParseAddr(c.peer) {
			t.Errorf("%s, and nobody is trusted: %s", c.what, got)
		}
	}
	for _, bad := range []string{"", "ten", "10.0.0.0/33", "10.0.0.0/8,"} {
		if _, err := exchange.ParseProxies(bad); err == nil {
			t.Errorf("%q is taken for a network", bad)
		}
	}
}

// TestProxiesThatRewriteHost has pages come through a proxy that puts another name into
// the Host header: the name they were loaded by is known from a trusted proxy alone.
func TestProxiesThatRewriteHost(t *testing.T) {
	const page, here = "https://chat.example", "chat.example"
	for _, c := range []struct {
		what, proxies, origin string
		forwarded             []string
		refused               bool
	}{
		{"a trusted proxy", "127.0.0.0/8", page, []string{here}, false},
		{"a proxy that is not trusted", "10.0.0.0/8", page, []string{here}, true},
		{"no proxy is trusted", "", page, []string{here}, true},
		{"a trusted proxy that says nothing", "127.0.0.0/8", page, nil, true},
		{"what came before the trusted proxy", "127.0.0.0/8", page, []string{here + ", other.example"}, true},
		{"what came before it, in a line of its own", "127.0.0.0/8", page, []string{here, "other.example"}, true},
		{"the nearest proxy's name", "127.0.0.0/8", page, []string{"other.example, " + here}, false},
		{"a page elsewhere", "127.0.0.0/8", "https://evil.example", []string{here}, true},
		{"a page of the name that no browser knows", "127.0.0.0/8", "http://upstream", []string{here}, true},
	} {
		s := start(t, &worker{}, func(config *Config) {
			if c.proxies != "" {
				config.TrustedProxies = must(exchange.ParseProxies(c.proxies))(t)
			}
		})
		front := httptest.NewServer(s.gateway)
		headers := http.Header{"Origin": {c.origin}, "X-Forwarded-Host": c.forwarded}
		conn, response, err := websocket.Dial(t.Context(), front.URL+"/v1/responses",
			&websocket.DialOptions{HTTPHeader: headers, Host: "upstream"})
		if refused := err != nil && response.StatusCode == http.StatusForbidden; refused != c.refused ||
			!refused && err != nil {
			t.Errorf("%s: the WebSocket is refused: %t, want %t (%v)", c.what, refused, c.refused, err)
		}
		if err == nil {
			conn.CloseNow()
		}
		r := must(http.NewRequestWithContext(t.Context(), "GET", front.URL+"/v1/queue", nil))(t)
		r.Host, r.Header = "upstream", headers

		response = must(http.DefaultClient.Do(r))(t)
		response.Body.Close()
		if refused := response.StatusCode == http.StatusForbidden; refused != c.refused {
			t.Errorf("%s: reading gives %d", c.what, response.StatusCode)
		}
		front.Close()
	}
}
