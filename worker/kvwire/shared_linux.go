package kvwire

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// seals keep shared memory as large as it is. Reading or writing beyond its end would kill the process.
const seals = unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_SEAL

func socketAddr(name string) *net.UnixAddr {
	return &net.UnixAddr{Name: "@parley-blocks-" + name, Net: "unix"}
}

// Place names what processes must have in common to share memory: the host and the network namespace, in which the
// socket has its name. It is empty if that is not known.
func Place() string {
	host, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	network, err := os.Readlink("/proc/self/ns/net")
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(append(host, network...))
	return base64.RawURLEncoding.EncodeToString(sum[:secretBytes])
}

// An offer is memory that the giving side of a fetch may write to, if it is on the same host.
type offer struct {
	Rendezvous
	listener *net.UnixListener
	bytes    int
	accepted sync.WaitGroup

	mu     sync.Mutex // guards what follows
	conn   *net.UnixConn
	memory []byte // mapped for reading
}

// newOffer offers shared memory of a size; nil if that is not possible.
func newOffer(bytes int) *offer {
	random := make([]byte, 2*secretBytes)
	_, _ = rand.Read(random) // never fails
	text := base64.RawURLEncoding.EncodeToString
	at := Rendezvous{Socket: text(random[:secretBytes]), Secret: text(random[secretBytes:])}
	o := &offer{Rendezvous: at, bytes: bytes}
	l, err := net.ListenUnix("unix", socketAddr(o.Socket))
	if err != nil {
		return nil
	}
	o.listener = l
	o.accepted.Go(o.accept)
	return o
}

// accept hands the memory to the first process that shows the secret.
func (o *offer) accept() {
	for {
		conn, err := o.listener.AcceptUnix()
		if err != nil {
			return
		}
		shown := make([]byte, len(o.Secret))
		_ = conn.SetDeadline(time.Now().Add(meetMax))
		if _, err := io.ReadFull(conn, shown); err == nil && subtle.ConstantTimeCompare(shown, []byte(o.Secret)) == 1 {
			err = o.hand(conn)
			if err == nil {
				return
			}
		}
		conn.Close()
	}
}

// hand gives the memory to the other side.
func (o *offer) hand(conn *net.UnixConn) error {
	fd, err := unix.MemfdCreate("parley-blocks", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := unix.Ftruncate(fd, int64(o.bytes)); err != nil {
		return err
	}
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals); err != nil {
		return err
	}
	memory, err := unix.Mmap(fd, 0, o.bytes, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return err
	}
	o.mu.Lock()
	o.conn, o.memory = conn, memory
	o.mu.Unlock()
	if _, _, err := conn.WriteMsgUnix([]byte{0}, unix.UnixRights(fd), nil); err != nil {
		o.mu.Lock()
		o.conn, o.memory = nil, nil
		o.mu.Unlock()
		return errors.Join(err, unix.Munmap(memory))
	}
	return conn.SetDeadline(time.Time{})
}

// reader reads from the memory, nil if the other side did not take it.
func (o *offer) reader() *sharedReader {
	if o == nil {
		return nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.memory == nil {
		return nil
	}
	return &sharedReader{buffers: divide(o.memory), freed: o.conn}
}

// meeting returns where the memory is offered; nil if it is not.
func (o *offer) meeting() *Rendezvous {
	if o == nil {
		return nil
	}
	return &o.Rendezvous
}

// close takes the offer back. No reader is used any more.
func (o *offer) close() {
	if o == nil {
		return
	}
	o.listener.Close()
	o.accepted.Wait()
	if o.conn != nil {
		o.conn.Close()
		_ = unix.Munmap(o.memory)
	}
}

// A sharedWriter is the memory that the taking side offered.
type sharedWriter struct {
	buffers [sharedBuffers][]byte
	memory  []byte
	conn    *net.UnixConn
	forget  func() bool // that the end of the fetch closes conn
}

// meet takes memory of a size that the other side offers; nil if that is not on this host. The error is
// errUnsafe if the memory is not what it must be.
func (m *Rendezvous) meet(ctx context.Context, bytes int) (*sharedWriter, error) {
	if m == nil {
		return nil, nil
	}
	if !m.valid() {
		return nil, fmt.Errorf("%w: %q is not the name of a socket for it", errUnsafe, m.Socket)
	}
	conn, err := net.DialUnix("unix", nil, socketAddr(m.Socket))
	if err != nil {
		return nil, nil
	}
	forget := context.AfterFunc(ctx, func() { conn.Close() })
	fd, err := m.receive(conn)
	if err == nil {
		defer unix.Close(fd)
		var memory []byte
		if memory, err = mapShared(fd, bytes); err == nil {
			return &sharedWriter{buffers: divide(memory), memory: memory, conn: conn, forget: forget}, nil
		}
	}
	forget()
	conn.Close()
	if !errors.Is(err, errUnsafe) {
		err = nil
	}
	return nil, err
}

// receive returns a file that the other side sends.
func (m *Rendezvous) receive(conn *net.UnixConn) (fd int, err error) {
	if err := conn.SetDeadline(time.Now().Add(meetMax)); err != nil {
		return -1, err
	}
	if _, err := conn.Write([]byte(m.Secret)); err != nil {
		return -1, err
	}
	var data [1]byte
	rights := make([]byte, unix.CmsgSpace(4))
	_, n, _, _, err := conn.ReadMsgUnix(data[:], rights)
	if err != nil {
		return -1, err
	}
	messages, err := unix.ParseSocketControlMessage(rights[:n])
	if err != nil || len(messages) != 1 {
		return -1, fmt.Errorf("%w: no file came with it", errUnsafe)
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil || len(fds) != 1 {
		for _, fd := range fds {
			unix.Close(fd)
		}
		return -1, fmt.Errorf("%w: %d files came with it", errUnsafe, len(fds))
	}
	return fds[0], nil
}

// mapShared maps memory for writing, if no access to it can fail.
func mapShared(fd, bytes int) ([]byte, error) {
	var kind unix.Statfs_t
	if err := unix.Fstatfs(fd, &kind); err != nil || kind.Type != unix.TMPFS_MAGIC { // large pages may run out
		return nil, fmt.Errorf("%w: it is a file of the kind %#x", errUnsafe, kind.Type)
	}
	var stat unix.Stat_t
	if err := unix.Fstat(fd, &stat); err != nil || stat.Size != int64(bytes) {
		return nil, fmt.Errorf("%w: it has %d bytes, not %d", errUnsafe, stat.Size, bytes)
	}
	if got, err := unix.FcntlInt(uintptr(fd), unix.F_GET_SEALS, 0); err != nil || got&seals != seals {
		return nil, fmt.Errorf("%w: its size can change, its seals are %#x", errUnsafe, got)
	}
	memory, err := unix.Mmap(fd, 0, bytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errUnsafe, err)
	}
	return memory, nil
}

// awaitRead waits until the other side has read a buffer.
func (w *sharedWriter) awaitRead() error {
	if err := w.conn.SetReadDeadline(time.Now().Add(stallMax)); err != nil {
		return err
	}
	var read [1]byte
	_, err := io.ReadFull(w.conn, read[:])
	return err
}

// close gives the memory back. Nothing is written to it any more.
func (w *sharedWriter) close() {
	if w == nil {
		return
	}
	w.forget()
	w.conn.Close()
	_ = unix.Munmap(w.memory)
}

// rooms returns where blocks are read to: the memory, or nothing yet if there is none.
func (w *sharedWriter) rooms() (rooms [sharedBuffers][]byte) {
	if w != nil {
		rooms = w.buffers
	}
	return rooms
}
