package hijack

import (
	"net/http"
	"time"
)

// IdleMax is how long a connection is kept on which nothing happens.
const IdleMax = 180 * time.Second

// NewServer returns an HTTP server for handler with the timeouts that streams
// need. Idle connections stay open for three minutes, longer than clients and
// proxies keep theirs: a server that closes first loses the request that is
// just being sent. There is no write timeout, as an answer may take long; the
// gateway bounds each single write instead.
func NewServer(addr string, handler http.Handler) *http.Server {
	return &http.Server{
		Addr:              addr,
		Handler:           handler,
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       IdleMax,
		MaxHeaderBytes:    64 << 10,
	}
}
