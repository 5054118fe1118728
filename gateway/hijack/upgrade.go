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

// How many bytes the buffers of such a connection have. What is read through one is heads of frames, and
// most frames of an answer fit into the other.
const (
	upgradeReadBuffer  = 128
	upgradeWriteBuffer = 512
)

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
	return conn, bufio.NewReadWriter(bufio.NewReaderSize(conn, upgradeReadBuffer),
		bufio.NewWriterSize(conn, upgradeWriteBuffer)), nil
}
