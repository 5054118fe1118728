package serve

import (
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"text/tabwriter"

	"parley/cli"
	"parley/cli/settings"
	"parley/worker/host"
)

// printPlans prints where memory will go before any is taken.
func printPlans(out io.Writer, plans []*host.Plan, available int64) {
	if n, ok := out.(*notices); ok {
		n.plans(plans, available)
		return
	}
	fmt.Fprintf(out, "Memory plan (%s available)\n", host.Size(available))
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "model\tweights\tKV pool\tactivations\ttotal\tcontext\t")
	for _, p := range plans {
		fmt.Fprintf(w, "%s\t%s\t%s for %d tokens in %s%s\t%s\t%s\t%d\t\n", p.Name,
			weightsOf(p), host.Size(p.KVBytes), p.KVTokens, p.KVType, behindPool(p),
			host.Size(p.ActivationBytes), host.Size(p.Bytes()), p.ContextTokens)
		if d := p.Draft; d != nil {
			fmt.Fprintf(w, "its draft %s\t%s\t%s\t%s\tincluded\t\t\n", d.Name, host.Size(d.WeightBytes),
				host.Size(d.KVBytes), host.Size(d.ActivationBytes))
		}
	}
	w.Flush()
	for _, p := range plans {
		if notice := p.ContextNotice(); notice != "" {
			fmt.Fprintln(out, "Note: "+notice+".")
		}
	}
}

// weightsOf describes the memory of the weights.
func weightsOf(p *host.Plan) string {
	if p.Weights != "" {
		return host.Size(p.WeightBytes) + " in " + p.Weights
	}
	return host.Size(p.WeightBytes)
}

// behindPool describes the tiers behind the pool.
func behindPool(p *host.Plan) (text string) {
	if p.KVHostBytes > 0 {
		text += ", " + host.Size(p.KVHostBytes) + " in host memory"
	}
	if p.KVDiskBytes > 0 {
		text += ", " + host.Size(p.KVDiskBytes) + " on disk"
	}
	return text
}

// greet prints the address of the server and how to use it.
func greet(out io.Writer, addr net.Addr, s *settings.Settings, b *backend, open bool, link accessLink) {
	if n, ok := out.(*notices); ok {
		n.greet(addr, s, b, open, link)
		return
	}
	url := rootURL(s, addr)
	fmt.Fprintf(out, `
Parley %s is ready on %s

  models   %s
  device   %s
  data     %s

Open it in a browser:

  chat     %s
  admin    %s
%s
Talk to it:

  curl %s/v1/chat/completions -H 'content-type: application/json'%s \
    -d '{"model":"%s","messages":[{"role":"user","content":"Hello! Who are you?"}]}'

or use any OpenAI client with the base URL %s/v1%s.
%s%sCtrl-C stops the server.
`, cli.Version, url, strings.Join(b.names(), ", "), b.computedBy(), s.Data, link.page(url, "/"),
		link.page(url, "/admin"), reachedAt(s, addr), url, keyHeader(open),
		b.served[0].ID, url, whichKey(open), openNote(s, open), demoNote(b.served))
}

func keyHeader(open bool) string {
	if open {
		return ""
	}
	return " -H \"authorization: bearer $PARLEY_API_KEY\""
}

func whichKey(open bool) string {
	if open {
		return " (any API key works)"
	}
	return " with an API key"
}

// openNote explains what it means that there are no keys.
func openNote(s *settings.Settings, open bool) string {
	if !open {
		return ""
	}
	return "There are no API keys: only programs on this machine get answers, and only the link opens stored data. " +
		"To create a key: parley keys create --admin --name me" + s.StoreFlags() + "\n"
}

// page returns the address of a page, by which a server without keys lets the person in who started it.
func (l accessLink) page(url, path string) string {
	if l.token == "" {
		return url + path
	}
	return url + path + "?token=" + l.token
}

// rootURL is the address of the server as a browser on this machine can open it. A server that listens on all
// addresses is reached at the loopback one.
func rootURL(s *settings.Settings, addr net.Addr) string {
	shown := addr.String()
	if tcp, ok := addr.(*net.TCPAddr); ok && tcp.IP.IsUnspecified() {
		shown = net.JoinHostPort("127.0.0.1", strconv.Itoa(tcp.Port))
	}
	return s.Scheme() + "://" + shown
}

// reachedAt names the addresses at which other machines reach a server that listens on all of this one's.
func reachedAt(s *settings.Settings, addr net.Addr) string {
	tcp, ok := addr.(*net.TCPAddr)
	if !ok || !tcp.IP.IsUnspecified() {
		return ""
	}
	var urls []string
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		return ""
	}
	for _, a := range addresses {
		if n, ok := a.(*net.IPNet); ok && n.IP.IsGlobalUnicast() {
			urls = append(urls, s.Scheme()+"://"+net.JoinHostPort(n.IP.String(), strconv.Itoa(tcp.Port)))
		}
	}
	if len(urls) == 0 {
		return ""
	}
	return "\nOther machines reach it at " + strings.Join(urls, ", ") + " or at this machine's name.\n"
}
