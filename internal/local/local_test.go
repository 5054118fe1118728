package local

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

func TestCheck(t *testing.T) {
	for _, c := range []struct {
		name, peer, host string
		header           [2]string
		want             Denial
	}{
		{"curl", "127.0.0.1:5", "127.0.0.1:8000", [2]string{}, None},
		{"IPv6", "[::1]:5", "[::1]:8000", [2]string{}, None},
		{"mapped IPv4", "[::ffff:127.0.0.1]:5", "localhost:8000", [2]string{}, None},
		{"name below localhost", "127.0.0.1:5", "chat.localhost.", [2]string{}, None},
		{"another machine", "192.0.2.2:5", "127.0.0.1:8000", [2]string{}, Remote},
		{"no address", "@", "127.0.0.1:8000", [2]string{}, Remote},
		{"nginx with headers", "127.0.0.1:5", "127.0.0.1:8000", [2]string{"X-Forwarded-For", "9.9.9.9"}, Forwarded},
		{"scheme alone", "127.0.0.1:5", "127.0.0.1:8000", [2]string{"X-Forwarded-Proto", "https"}, Forwarded},
		{"Cloudflare", "127.0.0.1:5", "127.0.0.1:8000", [2]string{"Cf-Connecting-Ip", "9.9.9.9"}, Forwarded},
		{"Akamai", "127.0.0.1:5", "127.0.0.1:8000", [2]string{"True-Client-Ip", "9.9.9.9"}, Forwarded},
		{"ingress", "127.0.0.1:5", "127.0.0.1:8000", [2]string{"X-Original-Forwarded-For", "9.9.9.9"}, Forwarded},
		{"rebinding", "127.0.0.1:5", "evil.com", [2]string{}, Host},
		{"rebinding by suffix", "127.0.0.1:5", "127.0.0.1.nip.io", [2]string{}, Host},
		{"unspecified address", "127.0.0.1:5", "0.0.0.0:8000", [2]string{}, Host},
		{"foreign page", "127.0.0.1:5", "127.0.0.1:8000", [2]string{"Origin", "https://evil.com"}, Origin},
		{"sandboxed page", "127.0.0.1:5", "127.0.0.1:8000", [2]string{"Origin", "null"}, Origin},
		{"page of another port", "127.0.0.1:5", "127.0.0.1:8000", [2]string{"Origin", "http://127.0.0.1:3000"}, Origin},
		{"own page", "127.0.0.1:5", "127.0.0.1:8000", [2]string{"Origin", "http://127.0.0.1:8000"}, None},
		{"allowed page", "127.0.0.1:5", "127.0.0.1:8000", [2]string{"Origin", "https://chat.example.com"}, None},
		{"image of a foreign page", "127.0.0.1:5", "127.0.0.1:8000", [2]string{"Sec-Fetch-Site", "cross-site"}, Origin},
		{"image of another port", "127.0.0.1:5", "127.0.0.1:8000", [2]string{"Sec-Fetch-Site", "same-site"}, Origin},
		{"own image", "127.0.0.1:5", "127.0.0.1:8000", [2]string{"Sec-Fetch-Site", "same-origin"}, None},
		{"address bar", "127.0.0.1:5", "127.0.0.1:8000", [2]string{"Sec-Fetch-Site", "none"}, None},
	} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.RemoteAddr, r.Host = c.peer, c.host
		if c.header[0] != "" {
			r.Header.Set(c.header[0], c.header[1])
		}
		allowed := func(origin string) bool { return origin == "https://chat.example.com" }
		if got := Check(r, allowed); got != c.want {
			t.Errorf("%s: reason %d, want %d", c.name, got, c.want)
		}
	}
}
