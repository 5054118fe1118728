package gateway

import (
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
	"testing"
	"time"

	"parley/gateway/hijack"
	"parley/internal/tlsfile"
)

// writeCertificate puts a new certificate with this number into two files.
func writeCertificate(t *testing.T, certFile, keyFile string, number int64) {
	t.Helper()
	key := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	template := &x509.Certificate{SerialNumber: big.NewInt(number), DNSNames: []string{"localhost"},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, NotAfter: time.Now().Add(time.Hour)}
	cert := must(x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key))(t)
	private := must(x509.MarshalPKCS8PrivateKey(key))(t)
	for file, block := range map[string]*pem.Block{certFile: {Type: "CERTIFICATE", Bytes: cert},
		keyFile: {Type: "PRIVATE KEY", Bytes: private}} {
		must(0, os.WriteFile(file, pem.EncodeToMemory(block), 0o600))(t)
	}
}

// TestTLS talks to a server over HTTP/2 and HTTP/1.1.
func TestTLS(t *testing.T) {
	s := start(t, &worker{})
	dir := t.TempDir()
	certFile, keyFile := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	writeCertificate(t, certFile, keyFile, 7)
	c := must(tlsfile.LoadCertificate(certFile, keyFile, slog.Default()))(t)
	l := must(net.Listen("tcp", "127.0.0.1:0"))(t)
	server := hijack.NewServer("", s.gateway)
	go server.Serve(c.Listen(l, nil))
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
