package hijack

import (
	"crypto/tls"
	"errors"
	"net"
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// A hangupWatcher sees clients hang up while their streams are open. For one stream a
// goroutine could wait for that, reading what never comes; for thousands their stacks
// would be a good part of all the memory that streams take. The zero value is ready.
type hangupWatcher struct {
	mu sync.Mutex
	// queue is the system's list of connections to tell of; nil before the first and
	// once closed. waits are their streams, by the number that the system was given.
	queue  *os.File
	closed bool
	waits  map[uint64]*DetachedStream
	last   uint64
}

// socketOf returns the system's side of a connection, encrypted or not; nil if it has
// none.
func socketOf(conn net.Conn) syscall.RawConn {
	if secure, ok := conn.(*tls.Conn); ok {
		conn = secure.NetConn()
	}
	if plain, ok := conn.(syscall.Conn); ok {
		if raw, err := plain.SyscallConn(); err == nil {
			return raw
		}
	}
	return nil
}

var errHungUp = errors.New("it has hung up")

// hangupsAtOnce is how many hang-ups one system call returns at most.
const hangupsAtOnce = 128

// watch ends a stream when its client hangs up, until unwatch. It
// reports false if it cannot, as with connections that are not the system's.
func (d *hangupWatcher) watch(s *DetachedStream) bool {
	socket := socketOf(s.conn)
	if socket == nil {
		return false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.begin() {
		return false
	}
	d.last++
	s.number = d.last
	event := unix.EpollEvent{Events: unix.EPOLLRDHUP | unix.EPOLLONESHOT, Fd: int32(uint32(s.number)),
		Pad: int32(s.number >> 32)}
	if d.control(socket, unix.EPOLL_CTL_ADD, &event) != nil {
		return false
	}
	d.waits[s.number] = s
	return true
}

// unwatch lets go of a stream.
func (d *hangupWatcher) unwatch(s *DetachedStream) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.waits, s.number)
	if d.queue != nil {
		_ = d.control(socketOf(s.conn), unix.EPOLL_CTL_DEL, nil) // one that is closed is gone from the list
	}
}

// begin makes the list with its first connection. The lock is held.
func (d *hangupWatcher) begin() bool {
	if d.queue != nil || d.closed {
		return d.queue != nil
	}
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return false
	}
	if err := unix.SetNonblock(fd, true); err != nil { // so that it is waited for as for any socket
		_ = unix.Close(fd)
		return false
	}
	d.queue, d.waits = os.NewFile(uintptr(fd), "hang-ups"), map[uint64]*DetachedStream{}
	go d.listen(d.queue)
	return true
}

// control changes the list. The lock is held.
func (d *hangupWatcher) control(socket syscall.RawConn, change int, event *unix.EpollEvent) (err error) {
	queue, err := d.queue.SyscallConn()
	if err != nil {
		return err
	}
	var fault error
	err = queue.Control(func(list uintptr) {
		fault = socket.Control(func(fd uintptr) { err = unix.EpollCtl(int(list), change, int(fd), event) })
	})
	return errors.Join(err, fault)
}

// listen ends streams whose clients hang up, until the list is closed.
func (d *hangupWatcher) listen(queue *os.File) {
	raw, err := queue.SyscallConn()
	if err != nil {
		return
	}
	events := make([]unix.EpollEvent, hangupsAtOnce)
	_ = raw.Read(func(list uintptr) (over bool) {
		for {
			n, err := unix.EpollWait(int(list), events, 0)
			switch {
			case errors.Is(err, unix.EINTR):
			case err != nil:
				return true
			case n == 0:
				return false // until there is more
			default:
				d.end(events[:n])
			}
		}
	})
}

// end ends the streams of events.
func (d *hangupWatcher) end(events []unix.EpollEvent) {
	for i := range events {
		number := uint64(uint32(events[i].Fd)) | uint64(uint32(events[i].Pad))<<32
		d.mu.Lock()
		s := d.waits[number]
		d.mu.Unlock()
		if s != nil {
			s.cancel(ClientGone(errHungUp))
		}
	}
}

// watched returns how many streams are watched now, and how many ever were.
func (d *hangupWatcher) watched() (now int, ever uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.waits), d.last
}

// close ends listening. Nothing is watched after it.
func (d *hangupWatcher) close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed = true; d.queue != nil {
		_ = d.queue.Close()
		d.queue = nil
	}
}
