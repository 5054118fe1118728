package tlsfile

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"log/slog"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"parley/internal/testkit"
)

// TestCertificateIsReadAgain replaces the certificate of a server that runs, with a
// broken one in between.
func TestCertificateIsReadAgain(t *testing.T) {
	ca, dir := testkit.NewCA(t, "ca"), t.TempDir()
	if _, err := LoadCertificate(dir+"/cert.pem", dir+"/key.pem", slog.Default()); err == nil {
		t.Error("files that do not exist are accepted")
	}
	certFile, keyFile := ca.Issue(dir, 1, time.Now().Add(time.Hour))
	var log bytes.Buffer
	c, err := LoadCertificate(certFile, keyFile, slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	number := func() int64 {
		t.Helper()
		now = now.Add(2 * checkEvery)
		leaf, err := x509.ParseCertificate(c.current(now).Certificate[0])
		if err != nil {
			t.Fatal(err)
		}
		return leaf.SerialNumber.Int64()
	}
	if n := number(); n != 1 {
		t.Errorf("certificate %d", n)
	}
	if err := os.WriteFile(certFile, bytes.Repeat([]byte("x"), 5000), 0o600); err != nil {
		t.Fatal(err)
	}
	if n := number(); n != 1 || !strings.Contains(log.String(), "keeping the previous one") {
		t.Errorf("certificate %d after a broken one: %s", n, log.String())
	}
	ca.Issue(dir, 2, time.Now().Add(time.Hour))
	if n := number(); n != 2 {
		t.Errorf("certificate %d after a new one", n)
	}
}

// shake has a client and a server shake hands, and returns how many certificates of the
// client the server has verified.
func shake(t *testing.T, client, server *tls.Config) (verified int, err error) {
	t.Helper()
	l, err := tls.Listen("tcp", "127.0.0.1:0", server)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	chains := make(chan int, 1)
	go func() {
		defer close(chains)
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		if conn.(*tls.Conn).Handshake() == nil {
			chains <- len(conn.(*tls.Conn).ConnectionState().VerifiedChains)
			_, _ = conn.Write([]byte("x"))
		}
	}()
	c, err := tls.DialWithDialer(&net.Dialer{Timeout: 10 * time.Second}, "tcp", l.Addr().String(), client)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(10 * time.Second))
	if _, err = c.Read(make([]byte, 1)); err != nil { // with TLS 1.3 a refusal shows when something is read
		return 0, err
	}
	return <-chains, nil
}

// TestTrust has servers and clients of one authority, of another one and with expired
// certificates meet, and replaces the authority that is trusted.
func TestTrust(t *testing.T) {
	one, two := testkit.NewCA(t, "one"), testkit.NewCA(t, "two")
	load := func(ca *testkit.CA, until time.Duration) *Certificate {
		certFile, keyFile := ca.Issue(t.TempDir(), 1, time.Now().Add(until))
		c, err := LoadCertificate(certFile, keyFile, slog.Default())
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	trust := func(ca *testkit.CA) *Authorities {
		a, err := LoadAuthorities(ca.File, slog.Default())
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	good, other, expired := load(one, time.Hour), load(two, time.Hour), load(one, -time.Hour)
	for _, c := range []struct {
		name     string
		server   *tls.Config
		client   *tls.Config
		verified int
		refused  string
	}{
		{"plain", good.Server(nil), Client(trust(one), nil)(), 0, ""},
		{"not trusted by the system", good.Server(nil), Client(nil, nil)(), 0, "unknown authority"},
		{"other authority", good.Server(nil), Client(trust(two), nil)(), 0, "unknown authority"},
		{"expired server", expired.Server(nil), Client(trust(one), nil)(), 0, "expired"},
		{"client without one", good.Server(trust(one)), Client(trust(one), nil)(), 0, ""},
		{"mutual", good.Server(trust(one)), Client(trust(one), good)(), 1, ""},
		{"client of another authority", good.Server(trust(one)), Client(trust(one), other)(), 0, ""},
		{"expired client", good.Server(trust(one)), Client(trust(one), expired)(), 0, "tls:"},
	} {
		verified, err := shake(t, c.client, c.server)
		if c.refused == "" && err != nil ||
			c.refused != "" && (err == nil || !strings.Contains(err.Error(), c.refused)) || verified != c.verified {
			t.Errorf("%s: %d certificates, %v; want %d, %q", c.name, verified, err, c.verified, c.refused)
		}
	}
	roots := trust(one)
	text, err := os.ReadFile(two.File)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(one.File, append(text, '\n'), 0o600); err != nil {
		t.Fatal(err)
	}
	roots.checked = time.Time{} // a while ago
	if _, err := shake(t, Client(roots, nil)(), other.Server(nil)); err != nil {
		t.Errorf("after the authority was replaced: %v", err)
	}
	if _, err := LoadAuthorities(dirFile(t), slog.Default()); err == nil {
		t.Error("a file without certificates is accepted")
	}
}

func dirFile(t *testing.T) string {
	t.Helper()
	name := t.TempDir() + "/empty.pem"
	if err := os.WriteFile(name, []byte("nothing"), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}
