package discover

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// A Resolver looks names up; [net.Resolver] does.
type Resolver struct {
	IP  func(ctx context.Context, network, host string) ([]netip.Addr, error)
	SRV func(ctx context.Context, service, proto, name string) (string, []*net.SRV, error)
}

// SystemResolver asks what this machine asks.
func SystemResolver() Resolver {
	return Resolver{net.DefaultResolver.LookupNetIP, net.DefaultResolver.LookupSRV}
}

// absentMost is how many times in a row a name may be unknown before all its
// workers are taken to be gone. A service that is being replaced has none for a
// moment.
const absentMost = 3

// DNS reports the addresses of a name, such as that of a headless service. The URL's
// host is looked up and its port kept; one that begins with an underscore, such as
// _http._tcp.workers, has SRV records, which name ports, too.
func DNS(at string, every time.Duration, r Resolver, log *slog.Logger) (Source, error) {
	u, err := url.Parse(at)
	if err != nil || u.Hostname() == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil,
			errors.New(
				"expected a URL whose host is to be looked up, such as http://workers.example.com:8000, not " +
					strconv.Quote(at))
	}
	look := r.addresses
	if strings.HasPrefix(u.Hostname(), "_") {
		look = r.services
	}
	return func(ctx context.Context, tell func([]Address)) {
		absent := 0
		poll(ctx, every, orDefault(log), func(ctx context.Context) ([]Address, error) {
			bounded, cancel := context.WithTimeout(ctx, lookupMax)
			defer cancel()
			places, err := look(bounded, u)
			if unknown, ok := errors.AsType[*net.DNSError](err); ok && unknown.IsNotFound {
				if absent++; absent >= absentMost {
					return nil, nil
				}
			} else if err == nil {
				absent = 0
			}
			return places, err
		}, tell)
	}, nil
}

const lookupMax = 5 * time.Second

func (r *Resolver) addresses(ctx context.Context, u *url.URL) (places []Address, err error) {
	found, err := r.IP(ctx, "ip", u.Hostname())
	for _, ip := range found {
		host := ip.Unmap().String()
		if u.Port() != "" {
			host = net.JoinHostPort(host, u.Port())
		} else if ip.Unmap().Is6() {
			host = "[" + host + "]"
		}
		places = append(places, Address{URL: u.Scheme + "://" + host + u.Path})
	}
	return places, err
}

func (r *Resolver) services(ctx context.Context, u *url.URL) (places []Address, err error) {
	_, found, err := r.SRV(ctx, "", "", u.Hostname())
	for _, s := range found {
		host := net.JoinHostPort(strings.TrimSuffix(s.Target, "."), strconv.Itoa(int(s.Port)))
		places = append(places, Address{URL: u.Scheme + "://" + host + u.Path})
	}
	return places, err
}
