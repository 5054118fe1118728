// Package local decides whether an HTTP request that carries no credential may be
// answered: only if it comes from this machine, names this machine as its Host, was
// not forwarded by a proxy and was not sent by a web page of another origin.
//
// A loopback address alone proves little: every web page that is open on the machine
// can send requests there, and can have a name of its own resolve to 127.0.0.1 (DNS
// rebinding) to read the answers as well. The gateway and the workers share this
// check while they have no keys. It is a defence for first use on one's own machine,
// never a substitute for a key: a TCP forwarder or a proxy that adds no header passes.
package local

import (
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
)

// A Denial says why a request is not a local one.
type Denial uint8

// The reasons for which a request is refused, in the order in which they are checked.
const (
	// None: the request is local.
	None Denial = iota
	// Remote: the peer is another machine.
	Remote
	// Forwarded: a header shows that a proxy passed the request on.
	Forwarded
	// Host: the Host header does not name this machine.
	Host
	// Origin: a web page of another origin sent the request.
	Origin
)

// Check returns why r is not local, or [None]. The function allowed says which foreign
// origins may send requests all the same; nil allows none. Browsers send no Origin with
// some GET requests; then Sec-Fetch-Site shows where the page came from.
func Check(r *http.Request, allowed func(origin string) bool) Denial {
	switch {
	case !IsLoopback(r.RemoteAddr):
		return Remote
	case IsForwarded(r.Header):
		return Forwarded
	case !IsName(r.Host):
		return Host
	case IsCrossOrigin(r, r.Host, allowed):
		return Origin
	}
	return None
}

// IsCrossOrigin reports whether a web page of another origin than host sent r, unless
// allowed, which may be nil, admits that origin. Browsers do not let pages set
// Sec-Fetch-Site, so it decides where it is there. Over plain HTTP to another machine
// browsers leave it out, and Origin decides: then host must be the name that the
// browser used, which a proxy may have rewritten in the Host header.
func IsCrossOrigin(r *http.Request, host string, allowed func(origin string) bool) bool {
	origin := r.Header.Get("Origin")
	switch r.Header.Get("Sec-Fetch-Site") {
	case "same-origin", "none":
		return false
	case "":
		if origin == "" || SameOrigin(origin, host) {
			return false
		}
	}
	return origin == "" || allowed == nil || !allowed(origin)
}

// SameOrigin reports whether the host and port of an Origin header are those of host.
func SameOrigin(origin, host string) bool {
	u, err := url.Parse(origin)
	return err == nil && u.Host != "" && strings.EqualFold(u.Host, host)
}

// IsLoopback reports whether an IP address, with or without a port, is a loopback
// address.
func IsLoopback(address string) bool {
	if host, _, err := net.SplitHostPort(address); err == nil {
		address = host
	}
	ip, err := netip.ParseAddr(strings.Trim(address, "[]"))
	return err == nil && ip.Unmap().IsLoopback()
}

// IsName reports whether a Host header is a loopback address, localhost or a name
// below it. Resolvers answer these themselves, so that no stranger can have such a name
// point at this machine.
func IsName(host string) bool {
	name := host
	if bare, _, err := net.SplitHostPort(host); err == nil {
		name = bare
	}
	name = strings.ToLower(strings.TrimSuffix(name, "."))
	return IsLoopback(host) || name == "localhost" || strings.HasSuffix(name, ".localhost")
}

// IsForwarded reports whether a header shows that a proxy passed the request on. The
// absence of such headers proves nothing: nginx adds none unless it is told to.
func IsForwarded(h http.Header) bool {
	for name := range h {
		switch {
		case name == "Forwarded", name == "Via", name == "X-Real-Ip",
			strings.HasPrefix(name, "X-Forwarded-"), strings.HasPrefix(name, "X-Original-"),
			strings.HasSuffix(name, "-Client-Ip"), strings.HasSuffix(name, "-Connecting-Ip"):
			return true
		}
	}
	return false
}
