//go:build unix

package gateway

import (
	"net"
	"syscall"
)

// A writeNow writes to a connection without waiting for it. The library's own
// writes wait until all is written, and who has many clients cannot wait for one.
type writeNow struct {
	raw syscall.RawConn
	// some is what to write, n how much was.
	some []byte
	n    int
	once func(fd uintptr) bool
}

// newWriteNow returns nil for connections that do not write as they are told, such
// as encrypted ones.
func newWriteNow(conn net.Conn) *writeNow {
	plain, ok := conn.(*net.TCPConn)
	if !ok {
		return nil
	}
	raw, err := plain.SyscallConn()
	if err != nil {
		return nil
	}
	w := &writeNow{raw: raw}
	w.once = func(fd uintptr) bool {
		w.n, _ = sendNow(int(fd), w.some) // who writes the rest learns why it was not taken
		return true
	}
	return w
}

// write returns how much was taken.
func (w *writeNow) write(p []byte) int {
	w.some, w.n = p, 0
	_ = w.raw.Write(w.once)
	w.some = nil
	return max(w.n, 0)
}
