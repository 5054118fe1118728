package hijack

import (
	"bufio"
	"net"
	"net/http"
)

// An Upgrade is the response of a request whose connection is hijacked for another
// protocol, such as WebSocket. The buffers that come with the connection are small: it
// is silent most of the time, and what is larger than a buffer is read and written
// past it.
type Upgrade struct {
	http.ResponseWriter
	// Conn is the connection, once it was hijacked.
	Conn net.Conn
}

// upgradeBuffer is how many bytes the buffers of such a connection have. Most frames
// of an answer fit.
const upgradeBuffer = 512

// NewUpgrade returns w as an Upgrade.
func NewUpgrade(w http.ResponseWriter) *Upgrade { return &Upgrade{ResponseWriter: w} }

// Hijack takes the connection from the HTTP server; see [http.Hijacker].
func (u *Upgrade) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buffered, err := http.NewResponseController(u.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	if early := unread(buffered.Reader); len(early) > 0 {
		conn = &prefixedConn{Conn: conn, prefix: early}
	}
	u.Conn = conn
	return conn, bufio.NewReadWriter(bufio.NewReaderSize(conn, upgradeBuffer),
		bufio.NewWriterSize(conn, upgradeBuffer)), nil
}
