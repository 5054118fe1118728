package gateway

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"os"
	"sync"
	"time"
)

// certificateCheckEvery is how often the files are looked at, at most.
const certificateCheckEvery = time.Second

// A Certificate is a TLS certificate in two files that may be replaced while the
// server runs: new connections then have the new one. Files that cannot be used,
// such as while they are being replaced, leave the old one in place.
type Certificate struct {
	certFile, keyFile string
	log               *slog.Logger

	mu      sync.Mutex
	pair    *tls.Certificate
	read    [2]fileState
	checked time.Time
}

// A fileState tells two versions of a file apart.
type fileState struct {
	size     int64
	modified time.Time
}

// LoadCertificate reads the files, or says why they cannot be used.
func LoadCertificate(certFile, keyFile string, log *slog.Logger) (*Certificate, error) {
	c := &Certificate{certFile: certFile, keyFile: keyFile, log: log}
	return c, c.load(time.Now())
}

// Config returns how a server speaks TLS with the certificate.
func (c *Certificate) Config() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"},
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return c.current(time.Now()), nil }}
}

// load reads both files. The lock is held, or nobody else knows c.
func (c *Certificate) load(now time.Time) error {
	c.checked = now
	state, err := c.state()
	if err != nil {
		return fmt.Errorf("TLS certificate: %w", err)
	}
	pair, err := tls.LoadX509KeyPair(c.certFile, c.keyFile)
	if err != nil {
		return fmt.Errorf("the TLS certificate %s with the key %s cannot be used: %w: give two PEM files that belong together with --tls-cert and --tls-key", c.certFile, c.keyFile, err)
	}
	c.pair, c.read = &pair, state
	return nil
}

func (c *Certificate) state() (state [2]fileState, err error) {
	for i, name := range []string{c.certFile, c.keyFile} {
		info, err := os.Stat(name)
		if err != nil {
			return state, err
		}
		state[i] = fileState{info.Size(), info.ModTime()}
	}
	return state, nil
}

// current returns the certificate, read again if its files have changed.
func (c *Certificate) current(now time.Time) *tls.Certificate {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now.Sub(c.checked) < certificateCheckEvery {
		return c.pair
	}
	c.checked = now
	if state, err := c.state(); err == nil && state == c.read {
		return c.pair
	}
	if err := c.load(now); err != nil {
		c.log.Error("the TLS certificate was changed and cannot be read, so the one before is used on", "error", err)
	} else {
		c.log.Info("the TLS certificate was read again", "file", c.certFile)
	}
	return c.pair
}

// Listen returns l with TLS in front of it.
func (c *Certificate) Listen(l net.Listener) net.Listener { return tls.NewListener(l, c.Config()) }
