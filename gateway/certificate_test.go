package gateway

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// writeCertificate puts a new certificate with this number into two files.
func writeCertificate(t *testing.T, certFile, keyFile string, number int64) {
	t.Helper()
	key := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	template := &x509.Certificate{SerialNumber: big.NewInt(number), DNSNames: []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, NotAfter: time.Now().Add(time.Hour)}
	cert := must(x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key))(t)
	private := must(x509.MarshalPKCS8PrivateKey(key))(t)
	for file, block := range map[string]*pem.Block{certFile: {Type: "CERTIFICATE", Bytes: cert}, keyFile: {Type: "PRIVATE KEY", Bytes: private}} {
		must(0, os.WriteFile(file, pem.EncodeToMemory(block), 0o600))(t)
	}
}

// TestCertificateIsReadAgain replaces the certificate of a server that runs, with
// a broken one in between.
func TestCertificateIsReadAgain(t *testing.T) {
	dir := t.TempDir()
	certFile, keyFile := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	if _, err := LoadCertificate(certFile, keyFile, slog.Default()); err == nil {
		t.Error("files that are not there are taken")
	}
	writeCertificate(t, certFile, keyFile, 1)
	var log lockedBuffer
	c := must(LoadCertificate(certFile, keyFile, slog.New(slog.NewTextHandler(&log, nil))))(t)
	now := time.Now()
	number := func() int64 {
		t.Helper()
		now = now.Add(2 * certificateCheckEvery)
		leaf := must(x509.ParseCertificate(c.current(now).Certificate[0]))(t)
		return leaf.SerialNumber.Int64()
	}
	if n := number(); n != 1 {
		t.Errorf("certificate %d", n)
	}
	must(0, os.WriteFile(certFile, bytes.Repeat([]byte("x"), 5000), 0o600))(t)
	if n := number(); n != 1 || !strings.Contains(log.String(), "the one before is used on") {
		t.Errorf("certificate %d after a broken one: %s", n, log.String())
	}
	writeCertificate(t, certFile, keyFile, 2)
	must(0, os.Chtimes(certFile, now, now))(t)
	if n := number(); n != 2 {
		t.Errorf("certificate %d after a new one", n)
	}
}

// TestTLS talks to a server over HTTP/2 and HTTP/1.1.
func TestTLS(t *testing.T) {
	s := start(t, &worker{})
	dir := t.TempDir()
	certFile, keyFile := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	writeCertificate(t, certFile, keyFile, 7)
	c := must(LoadCertificate(certFile, keyFile, slog.Default()))(t)
	l := must(net.Listen("tcp", "127.0.0.1:0"))(t)
	server := NewServer("", s.gateway)
	go server.Serve(c.Listen(l))
	defer server.Close()
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(must(os.ReadFile(certFile))(t))
	for _, two := range []bool{true, false} {
		transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, ForceAttemptHTTP2: two}
		response := must((&http.Client{Transport: transport}).Get("https://" + l.Addr().String() + "/v1/models"))(t)
		response.Body.Close()
		transport.CloseIdleConnections()
		if want := map[bool]int{true: 2, false: 1}[two]; response.StatusCode != 200 || response.ProtoMajor != want {
			t.Errorf("%d by %s", response.StatusCode, response.Proto)
		}
	}
}
