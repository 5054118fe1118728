package exchange

import (
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"parley"
	"parley/internal/local"
)

// clientAddr returns the address of the client, for logs, the audit log and limits;
// the zero value if it is unknown. It is the peer of the connection, or what trusted
// proxies say of it. It never gives a right.
func (x *Exchange) clientAddr() netip.Addr { return ClientAddr(x.Request, x.Server.TrustedProxies) }

// ClientAddr walks back from the peer over proxies that are trusted, and returns the
// first address that is not: everything before that one may be invented by the client.
func ClientAddr(r *http.Request, trusted []netip.Prefix) netip.Addr {
	at := ParseAddr(r.RemoteAddr)
	if len(trusted) == 0 || !isTrusted(at, trusted) {
		return at
	}
	for _, hop := range slices.Backward(forwardedFor(r.Header)) {
		before := ParseAddr(hop)
		if !before.IsValid() {
			return at
		}
		if at = before; !isTrusted(at, trusted) {
			return at
		}
	}
	return at
}

func isTrusted(a netip.Addr, trusted []netip.Prefix) bool {
	return slices.ContainsFunc(trusted, func(p netip.Prefix) bool { return p.Contains(a) })
}

// forwardedFor lists the clients that proxies name, in the order in which they were added.
func forwardedFor(h http.Header) []string { return forwarded(h, "X-Forwarded-For", "for") }

// forwarded lists what proxies say, in the order in which they said it: in a header of its own, or as a parameter
// of the standard Forwarded where that is missing.
func forwarded(h http.Header, header, parameter string) (hops []string) {
	if lines := h.Values(header); len(lines) > 0 {
		return strings.Split(strings.Join(lines, ","), ",")
	}
	for element := range strings.SplitSeq(strings.Join(h.Values("Forwarded"), ","), ",") {
		hop := ""
		for pair := range strings.SplitSeq(element, ";") {
			if name, value, _ := strings.Cut(strings.TrimSpace(pair), "="); strings.EqualFold(name, parameter) {
				hop = strings.Trim(value, `"`)
			}
		}
		hops = append(hops, hop)
	}
	return hops
}

// IsCrossOrigin reports whether a web page of another origin sent the request, unless
// allowed, which may be nil, admits that origin.
func (x *Exchange) IsCrossOrigin(allowed func(origin string) bool) bool {
	return local.IsCrossOrigin(x.Request, publicHost(x.Request, x.Server.TrustedProxies), allowed)
}

// publicHost returns the name by which the client reached the server: the Host header,
// or what a trusted proxy, which may have rewritten that, says it was. Of several names
// the last one counts, which the nearest proxy has written.
func publicHost(r *http.Request, trusted []netip.Prefix) string {
	names := forwarded(r.Header, "X-Forwarded-Host", "host")
	name := strings.TrimSpace(names[len(names)-1])
	if name == "" || !isTrusted(ParseAddr(r.RemoteAddr), trusted) {
		return r.Host
	}
	return name
}

// IsSecure reports whether the client reached the server by TLS: its own, or that of a trusted proxy, of which the
// nearest one counts. A browser also says in Origin by which scheme its page came.
func (x *Exchange) IsSecure() bool {
	r := x.Request
	if r.TLS != nil || strings.HasPrefix(r.Header.Get("Origin"), "https://") {
		return true
	}
	schemes := forwarded(r.Header, "X-Forwarded-Proto", "proto")
	return strings.EqualFold(strings.TrimSpace(schemes[len(schemes)-1]), "https") &&
		isTrusted(ParseAddr(r.RemoteAddr), x.Server.TrustedProxies)
}

// PublicOrigin is the origin of the server's own pages: what a browser says, which was compared with the name of the
// server, or what is known of how the client reached it.
func (x *Exchange) PublicOrigin() string {
	if o, err := url.Parse(x.Request.Header.Get("Origin")); err == nil && o.Host != "" {
		return o.Scheme + "://" + o.Host
	}
	scheme := "http"
	if x.IsSecure() {
		scheme = "https"
	}
	return scheme + "://" + publicHost(x.Request, x.Server.TrustedProxies)
}

// ParseAddr reads an IP address with or without a port.
func ParseAddr(text string) netip.Addr {
	text = strings.TrimSpace(text)
	if withPort, err := netip.ParseAddrPort(text); err == nil {
		return withPort.Addr().Unmap().WithZone("")
	}
	a, err := netip.ParseAddr(strings.Trim(text, "[]"))
	if err != nil {
		return netip.Addr{}
	}
	return a.Unmap().WithZone("")
}

// ParseProxies reads a list of networks such as "10.0.0.0/8, 192.0.2.7".
func ParseProxies(text string) (networks []netip.Prefix, err error) {
	for item := range strings.SplitSeq(text, ",") {
		item = strings.TrimSpace(item)
		if a := ParseAddr(item); a.IsValid() && !strings.Contains(item, "/") {
			networks = append(networks, netip.PrefixFrom(a, a.BitLen()))
			continue
		}
		network, err := netip.ParsePrefix(item)
		if err != nil {
			return nil, parley.Invalid("", "%q is not a network such as 10.0.0.0/8", item)
		}
		networks = append(networks, network.Masked())
	}
	return networks, nil
}

// Remote returns the client's address for logs; empty if addresses are not recorded.
func (x *Exchange) Remote() string {
	if x.Server.NoAddresses {
		return ""
	}
	if a := x.clientAddr(); a.IsValid() {
		return a.String()
	}
	return ""
}
