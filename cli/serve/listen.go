package serve

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"syscall"

	"parley/cli"
	"parley/cli/remote"
	"parley/cli/settings"
	"parley/gateway"
	"parley/gateway/tenant"
	"parley/internal/local"
	"parley/internal/tlsfile"
)

// mayListen refuses to serve other machines while there are no keys: any host that
// reaches the address could use the server and read stored data.
func mayListen(addr net.Addr, keys *tenant.Keyring, s *settings.Settings) error {
	if tcp, ok := addr.(*net.TCPAddr); !keys.Empty() || ok && tcp.IP.IsLoopback() {
		return nil
	}
	return fmt.Errorf(
		"%s can be reached from other machines, and there are no API keys: create one first with\n\n  parley keys "+
			"create --admin --name me%s\n\nor listen only on this machine with --addr 127.0.0.1:8080", s.Addr,
		s.StoreFlags())
}

// WorkerTLS returns how this server speaks TLS with workers; nil as the system would.
func WorkerTLS(s *settings.Settings, log *slog.Logger) (func() *tls.Config, error) {
	if (s.WorkerClientCert == "") != (s.WorkerClientKey == "") {
		return nil, fmt.Errorf("--worker-client-cert and --worker-client-key belong together: set both or neither: %w",
			cli.ErrUsage)
	}
	var own *tlsfile.Certificate
	if s.WorkerClientCert != "" {
		var err error
		if own, err = tlsfile.LoadCertificate(s.WorkerClientCert, s.WorkerClientKey, log); err != nil {
			return nil, fmt.Errorf("%w (--worker-client-cert and --worker-client-key)", err)
		}
	}
	return clientTLS(s.WorkerCA, own, log)
}

// clientTLS returns how a client speaks TLS with servers that the authorities in a file
// have signed, which may be empty.
func clientTLS(file string, own *tlsfile.Certificate, log *slog.Logger) (func() *tls.Config, error) {
	if file == "" {
		return tlsfile.Client(nil, own), nil
	}
	roots, err := tlsfile.LoadAuthorities(file, log)
	return tlsfile.Client(roots, own), err
}

// speakTLS puts TLS in front of a listener, if the settings say so.
func speakTLS(l net.Listener, s *settings.Settings, log *slog.Logger) (net.Listener, error) {
	if err := s.CheckTLS(); err != nil || s.TLSCert == "" {
		return l, err
	}
	var clients *tlsfile.Authorities
	if s.Worker.ClientCA != "" {
		var err error
		if clients, err = tlsfile.LoadAuthorities(s.Worker.ClientCA, log); err != nil {
			return l, fmt.Errorf("%w (--client-ca)", err)
		}
	}
	certificate, err := tlsfile.LoadCertificate(s.TLSCert, s.TLSKey, log)
	if err != nil {
		return l, err
	}
	return certificate.Listen(l, clients), nil
}

// makeToken gives a server without keys a token, and returns the link with it and what
// to do when the server ends.
func makeToken(addr net.Addr, open bool, config *gateway.Config,
	log *slog.Logger) (link accessLink, forget func()) {
	if !open {
		return link, func() {}
	}
	config.LocalToken = remote.NewLocalToken()
	link.token = config.LocalToken
	file, forget, err := remote.KeepToken(addr, config.LocalToken)
	if err != nil {
		log.Warn("local token not stored: commands need it in PARLEY_API_KEY", "error", err)
		return link, func() {}
	}
	link.file = file
	return link, forget
}

// An accessLink is how the person who starts a server without keys gets in.
type accessLink struct{ token, file string }

// warnPlain warns of keys, prompts and answers that cross a network in clear text.
func warnPlain(s *settings.Settings, addr net.Addr, open bool, log *slog.Logger) {
	if open || s.TLSCert != "" || len(s.Proxies) > 0 || local.IsLoopback(addr.String()) {
		return
	}
	log.Warn(
		"keys, prompts and answers cross the network in clear text: use TLS with --tls-cert and --tls-key, or a "+
			"reverse proxy named with --trusted-proxies", "addr", addr.String())
}

// listenAt takes the address and makes the directory of the data.
func listenAt(ctx context.Context, s *settings.Settings) (net.Listener, error) {
	l, err := listen(ctx, s.Addr)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(s.Data, 0o700); err != nil {
		return nil, errors.Join(fmt.Errorf("data directory: %w: choose another with --data", err), l.Close())
	}
	return l, nil
}

// listen takes the address before any model is loaded, so that a mistake in it
// shows at once.
func listen(ctx context.Context, addr string) (net.Listener, error) {
	var config net.ListenConfig
	l, err := config.Listen(ctx, "tcp", addr)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil,
			fmt.Errorf("%s is in use: stop the program that listens there, or choose another address with --addr", addr)
	}
	return l, err
}
