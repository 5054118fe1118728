package kvwire

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"time"
)

// connectMax is how long connecting to another worker may take.
const connectMax = 2 * time.Second

// NewTransport returns how a [Client] connects to other workers. secure returns how the
// next connection to an https URL speaks TLS; nil means with servers that the system trusts.
func NewTransport(secure func() *tls.Config) *http.Transport {
	dialer := &net.Dialer{Timeout: connectMax}
	transport := &http.Transport{
		DialContext:         dialer.DialContext,
		DisableCompression:  true,
		MaxIdleConnsPerHost: Fetches * StreamsMax,
		IdleConnTimeout:     time.Minute,
		ReadBufferSize:      ioBytes,
	}
	if secure != nil {
		transport.DialTLSContext = func(ctx context.Context, network, address string) (net.Conn, error) {
			return (&tls.Dialer{NetDialer: dialer, Config: secure()}).DialContext(ctx, network, address)
		}
	}
	return transport
}
