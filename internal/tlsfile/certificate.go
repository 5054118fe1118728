// Package tlsfile reads certificates, keys and certificate authorities from PEM files
// that may be replaced while the program runs: new connections then use the new ones.
// Files that cannot be used, such as while they are being replaced, leave the old ones
// in place.
package tlsfile

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"net"
	"os"
	"slices"
	"sync"
	"time"
)

// checkEvery is how often files are looked at, at most.
const checkEvery = time.Second

// A fileState distinguishes versions of a file.
type fileState struct {
	size     int64
	modified time.Time
}

// reloader is what was parsed from files, and is again when they change.
type reloader[T any] struct {
	files []string
	parse func() (T, error)
	log   *slog.Logger

	mu      sync.Mutex
	value   T
	read    []fileState
	checked time.Time
}

// load reads the files. The lock is held, or no other goroutine knows r.
func (r *reloader[T]) load(now time.Time) error {
	r.checked = now
	state, err := r.state()
	if err != nil {
		return err
	}
	value, err := r.parse()
	if err != nil {
		return err
	}
	r.value, r.read = value, state
	return nil
}

func (r *reloader[T]) state() (state []fileState, err error) {
	for _, name := range r.files {
		info, err := os.Stat(name)
		if err != nil {
			return nil, fmt.Errorf("TLS: %w", err)
		}
		state = append(state, fileState{info.Size(), info.ModTime()})
	}
	return state, nil
}

// current returns the value, parsed again if its files have changed.
func (r *reloader[T]) current(now time.Time) T {
	r.mu.Lock()
	defer r.mu.Unlock()
	if now.Sub(r.checked) < checkEvery {
		return r.value
	}
	r.checked = now
	if state, err := r.state(); err == nil && slices.Equal(state, r.read) {
		return r.value
	}
	if err := r.load(now); err != nil {
		r.log.Error("certificate reload failed; keeping the previous one", "error", err)
	} else {
		r.log.Info("certificate reloaded", "files", r.files)
	}
	return r.value
}

// A Certificate is a TLS certificate with its key.
type Certificate struct{ reloader[*tls.Certificate] }

// LoadCertificate reads the files, or says why they cannot be used.
func LoadCertificate(certFile, keyFile string, log *slog.Logger) (*Certificate, error) {
	c := &Certificate{}
	c.files, c.log = []string{certFile, keyFile}, log
	c.parse = func() (*tls.Certificate, error) {
		pair, err := tls.LoadX509KeyPair(certFile, keyFile)
		if err != nil {
			return nil,
				fmt.Errorf(
					"the TLS certificate %s with the key %s cannot be used: %w: give two PEM files that belong "+
						"together", certFile, keyFile, err)
		}
		return &pair, nil
	}
	return c, c.load(time.Now())
}

// Authorities are certificate authorities that are trusted.
type Authorities struct{ reloader[*x509.CertPool] }

// LoadAuthorities reads a file of certificates, or says why it cannot be used.
func LoadAuthorities(file string, log *slog.Logger) (*Authorities, error) {
	a := &Authorities{}
	a.files, a.log = []string{file}, log
	a.parse = func() (*x509.CertPool, error) {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("%s holds no certificate: give a PEM file with the certificates of authorities",
				file)
		}
		return pool, nil
	}
	return a, a.load(time.Now())
}

// Server returns how a server speaks TLS. With clients, certificates of clients are
// verified if they are shown; whether a request needs one is for its handler to say.
func (c *Certificate) Server(clients *Authorities) *tls.Config {
	config := &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}}
	config.GetCertificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return c.current(time.Now()), nil }
	if clients == nil {
		return config
	}
	asking := config.Clone()
	asking.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		now := config.Clone()
		now.ClientAuth, now.ClientCAs = tls.VerifyClientCertIfGiven, clients.current(time.Now())
		return now, nil
	}
	return asking
}

// Listen returns l with TLS in front of it; see [Certificate.Server].
func (c *Certificate) Listen(l net.Listener, clients *Authorities) net.Listener {
	return tls.NewListener(l, c.Server(clients))
}

// Client returns how a client speaks TLS with its next connection: with servers that
// roots have signed, or those that the system trusts if roots is nil, and with a
// certificate of its own unless own is nil.
func Client(roots *Authorities, own *Certificate) func() *tls.Config {
	return func() *tls.Config {
		config := &tls.Config{MinVersion: tls.VersionTLS12}
		if roots != nil {
			config.RootCAs = roots.current(time.Now())
		}
		if own != nil {
			config.Certificates = []tls.Certificate{*own.current(time.Now())}
		}
		return config
	}
}
