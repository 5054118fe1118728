package kvwire

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A sharedRig is a server and a client of real sockets, which share memory.
type sharedRig struct {
	*rig
	at    string
	asked *Fetch
	sent  chan Delivery
}

// startShared serves a shelf. When the test ends, no file and no memory may be left.
func startShared(t *testing.T, g *rig) *sharedRig {
	t.Helper()
	return startSharedWith(t, g, (*httptest.Server).Start)
}

func startSharedWith(t *testing.T, g *rig, start func(*httptest.Server)) *sharedRig {
	t.Helper()
	s := &sharedRig{rig: g, sent: make(chan Delivery, 1000)}
	files := openFiles(t)
	front := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		sent, err := g.server.Serve(w, r, Holder{Format: g.shelf.format, Read: g.read, Follow: g.follow})
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
		}
		s.sent <- sent
	}))
	start(front)
	s.at = front.URL
	secure := func() *tls.Config {
		roots := x509.NewCertPool()
		roots.AddCert(front.Certificate())
		return &tls.Config{RootCAs: roots}
	}
	g.client = Client{HTTP: &http.Client{Transport: &tamper{NewTransport(secure), g}}, Config: Config{ShareFrom: 1}}
	t.Cleanup(func() {
		g.client.HTTP.Transport.(*tamper).RoundTripper.(*http.Transport).CloseIdleConnections()
		front.Close()
		if n, m := g.server.InFlight(), g.client.InFlight(); n != 0 || m != 0 {
			t.Errorf("%d and %d bytes are still held", n, m)
		}
		for deadline := time.Now().Add(time.Minute); openFiles(t) > files; time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) { // connections close on goroutines of their own
				t.Fatalf("%d files are open, %d before", openFiles(t), files)
			}
		}
		maps, err := os.ReadFile("/proc/self/maps")
		if err != nil || bytes.Contains(maps, []byte("memfd:parley-blocks")) {
			t.Errorf("shared memory is still mapped: %v", err)
		}
	})
	return s
}

// openFiles counts sockets and memory that are open.
func openFiles(t *testing.T) (n int) {
	t.Helper()
	all, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range all {
		to, _ := os.Readlink("/proc/self/fd/" + f.Name())
		if strings.Contains(to, "parley-blocks") || strings.HasPrefix(to, "socket:") {
			n++
		}
	}
	return n
}

// fetch fetches all blocks.
func (s *sharedRig) fetch(ctx context.Context) (int, error) {
	put := s.put
	if put == nil {
		put = func(_ context.Context, blocks ...[]byte) error {
			s.taken = append(s.taken, slices.Concat(blocks...)...)
			return nil
		}
	}
	s.taken = nil
	s.asked = &Fetch{URL: s.at, Format: s.shelf.format, Names: s.names, Put: put, Request: s.asks}
	return s.client.Run(ctx, s.asked)
}

// TestBlocksComeThroughSharedMemory has small blocks, large ones in pieces, and more than the memory holds.
func TestBlocksComeThroughSharedMemory(t *testing.T) {
	for _, test := range []struct{ size, blocks, batch int }{
		{100, 1, 0}, {100, 300, 7}, {100 << 10, 200, 0}, {pieceBytes, 40, 0}, {pieceBytes + 1, 9, 1},
		{3*pieceBytes - 7, 9, 0}, {bufferBytes + pieceBytes + 5, 3, 0},
	} {
		format := testFormat
		format.BlockBytes = test.size
		s := startShared(t, &rig{shelf: newShelfOf(format, test.blocks)})
		s.batch = test.batch
		n, err := s.fetch(t.Context())
		if n != test.blocks || err != nil || !s.whole(n) || !s.asked.Shared {
			t.Errorf("%+v: %d blocks came, shared %t: %v", test, n, s.asked.Shared, err)
		}
		want := Delivery{Blocks: n, Bytes: int64(n * test.size), Shared: true}
		if sent := <-s.sent; sent != want {
			t.Errorf("%+v: %+v was sent, want %+v", test, sent, want)
		}
	}
}

// TestBlocksComeOverTLS has small and large blocks come over TLS, and through shared memory that is arranged over
// it.
func TestBlocksComeOverTLS(t *testing.T) {
	for _, size := range []int{100, 3*pieceBytes - 7} {
		for _, share := range []int64{0, 1} {
			format := testFormat
			format.BlockBytes = size
			s := startSharedWith(t, &rig{shelf: newShelfOf(format, 9)}, (*httptest.Server).StartTLS)
			s.client.ShareFrom = share
			n, err := s.fetch(t.Context())
			if n != 9 || err != nil || !s.whole(n) || s.asked.Shared != (share > 0) {
				t.Errorf("blocks of %d bytes: %d came, shared %t: %v", size, n, s.asked.Shared, err)
			}
		}
	}
}

// TestSmallFetchesShareNothing have fewer bytes than sharing takes.
func TestSmallFetchesShareNothing(t *testing.T) {
	s := startShared(t, &rig{shelf: newShelf(3)})
	for from, want := range map[int64]bool{0: false, 301: false, 300: true} {
		s.client.ShareFrom = from
		if n, err := s.fetch(t.Context()); n != 3 || err != nil || s.asked.Shared != want {
			t.Errorf("from %d bytes on: %d blocks, shared %t, %v", from, n, s.asked.Shared, err)
		}
	}
}

// TestSharedBlocksComeAsTheyAreComputed has each block come before the next one is there.
func TestSharedBlocksComeAsTheyAreComputed(t *testing.T) {
	const blocks = 9
	g := &rig{shelf: newShelf(blocks), asks: "r1"}
	g.held = 0
	changed := make(chan struct{})
	next := func() { // one more block
		g.shelf.mu.Lock()
		defer g.shelf.mu.Unlock()
		g.held++
		close(changed)
		changed = make(chan struct{})
	}
	g.follow = func(string) (<-chan struct{}, bool) {
		g.shelf.mu.Lock()
		defer g.shelf.mu.Unlock()
		return changed, g.held < blocks
	}
	g.put = func(_ context.Context, some ...[]byte) error {
		g.taken = append(g.taken, slices.Concat(some...)...)
		if len(some) != 1 {
			t.Errorf("%d blocks came at once", len(some))
		}
		if len(g.taken) < blocks*testFormat.BlockBytes {
			next()
		}
		return nil
	}
	s := startShared(t, g)
	go next()
	if n, err := s.fetch(t.Context()); n != blocks || err != nil || !s.whole(n) || !s.asked.Shared {
		t.Errorf("%d blocks came: %v", n, err)
	}
}

// TestDamagedSharedStreams is [TestDamagedStreams] for frames whose payload is in shared memory.
func TestDamagedSharedStreams(t *testing.T) {
	const blocks = 5
	s := startShared(t, &rig{shelf: newShelf(blocks)})
	s.batch = 2
	for at := range blocks*blockHead + 2 {
		for _, cut := range []bool{false, true} {
			s.body = func(from io.Reader) io.Reader {
				if cut {
					return io.LimitReader(from, int64(at))
				}
				return &flip{from, at}
			}
			n, err := s.fetch(t.Context())
			if want := at / blockHead; n != want || !s.whole(n) {
				t.Errorf("byte %d, cut %t: %d blocks, want %d; %v", at, cut, n, want, err)
			}
			if got := reason(err); cut && got != "cut off" || !cut && got != "damaged" {
				t.Errorf("byte %d, cut %t: %q", at, cut, got)
			}
		}
	}
}

// TestPeersThatLeaveSharedMemory ends fetches on either side at every step.
func TestPeersThatLeaveSharedMemory(t *testing.T) {
	full := errors.New("full")
	for after := range 4 {
		for _, way := range []string{"cancelled", "no room", "cut off", "too slow"} {
			g := &rig{shelf: newShelf(5)}
			g.batch = 1
			ctx, cancel := context.WithCancel(t.Context())
			left := after
			g.put = func(ctx context.Context, blocks ...[]byte) error {
				for _, block := range blocks {
					if left == 0 && way == "no room" {
						return full
					}
					if left == 0 && way == "cancelled" {
						cancel()
						return ctx.Err()
					}
					g.taken = append(g.taken, block...)
					left--
				}
				return nil
			}
			if way == "cut off" || way == "too slow" {
				left = 100
			}
			s := startShared(t, g)
			switch way {
			case "cut off":
				g.body = func(from io.Reader) io.Reader { return io.LimitReader(from, int64(after*blockHead+2)) }
			case "too slow":
				bounded, end := context.WithTimeout(ctx, 20*time.Millisecond)
				defer end()
				ctx = bounded
				g.body = func(from io.Reader) io.Reader {
					return io.MultiReader(io.LimitReader(from, int64(after*blockHead+2)),
						readerFunc(func([]byte) (int, error) { <-ctx.Done(); return 0, ctx.Err() }))
				}
			}
			if _, err := s.fetch(ctx); reason(err) != way {
				t.Errorf("%s after %d blocks: %v", way, after, err)
			}
			if !s.whole(len(s.taken) / testFormat.BlockBytes) {
				t.Errorf("%s after %d blocks: others were taken than were sent", way, after)
			}
			cancel()
		}
	}
}

// A hostile taking side offers what hand sends over its socket.
func hostile(t *testing.T, hand func(conn *net.UnixConn)) *Rendezvous {
	t.Helper()
	o := newOffer(2 * testFormat.BlockBytes)
	o.listener.Close()
	o.accepted.Wait()
	l, err := net.ListenUnix("unix", socketAddr(o.Socket))
	if err != nil {
		t.Fatal(err)
	}
	var accepted sync.WaitGroup
	accepted.Go(func() {
		conn, err := l.AcceptUnix()
		if err != nil {
			return
		}
		defer conn.Close()
		_, _ = io.ReadFull(conn, make([]byte, len(o.Secret)))
		hand(conn)
		_, _ = conn.Read(make([]byte, 1)) // until the other side has left
	})
	t.Cleanup(func() { l.Close(); accepted.Wait() })
	return &o.Rendezvous
}

// TestUnsafeMemoryIsRefused offers memory whose size can change, of another size, large pages, ordinary files
// and nothing.
func TestUnsafeMemoryIsRefused(t *testing.T) {
	const size = 200
	memory := func(flags, seal int, bytes int64) int {
		fd, err := unix.MemfdCreate("parley-blocks-test", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING|flags)
		if err != nil {
			return -1
		}
		_ = unix.Ftruncate(fd, bytes)
		_, _ = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seal)
		return fd
	}
	for name, test := range map[string]struct {
		files func() []int
		says  string
	}{
		"no seals": {func() []int { return []int{memory(0, 0, size)} }, "its size can change"},
		"may shrink": {func() []int { return []int{memory(0, unix.F_SEAL_GROW|unix.F_SEAL_SEAL, size)} },
			"its size can change"},
		"too small": {func() []int { return []int{memory(0, seals, size-1)} }, "it has 199 bytes, not 200"},
		"too large": {func() []int { return []int{memory(0, seals, size+1)} }, "it has 201 bytes, not 200"},
		"large pages": {func() []int { return []int{memory(unix.MFD_HUGETLB, seals, 2<<20)} },
			"it is a file of the kind"},
		"two files": {func() []int { return []int{memory(0, seals, size), memory(0, seals, size)} },
			"2 files came"},
		"no file": {func() []int { return nil }, "no file came"},
		"a device": {func() []int {
			fd, _ := unix.Open("/dev/null", unix.O_RDWR|unix.O_CLOEXEC, 0)
			return []int{fd}
		}, "it "},
	} {
		fds := test.files()
		if slices.Contains(fds, -1) {
			t.Logf("%s: this system has none", name)
			continue
		}
		m := hostile(t, func(conn *net.UnixConn) {
			var rights []byte
			if len(fds) > 0 {
				rights = unix.UnixRights(fds...)
			}
			_, _, _ = conn.WriteMsgUnix([]byte{0}, rights, nil)
		})
		w, err := m.meet(t.Context(), size)
		if w != nil || !errors.Is(err, errUnsafe) || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: %v, want %q", name, err, test.says)
		}
		for _, fd := range fds {
			unix.Close(fd)
		}
	}
}

// TestUnsafeMemoryIsAMiss has a server refuse a fetch whose memory is unsafe, and give blocks over TCP to one whose
// socket it does not find.
func TestUnsafeMemoryIsAMiss(t *testing.T) {
	s := startShared(t, &rig{shelf: newShelf(3)})
	unsafe := hostile(t, func(conn *net.UnixConn) { _, _ = conn.Write([]byte{0}) })
	gone := hostile(t, func(*net.UnixConn) {})
	gone.Socket = gone.Secret
	for _, test := range []struct {
		at     *Rendezvous
		status int
		miss   string
	}{
		{unsafe, http.StatusBadRequest, "malformed"},
		{&Rendezvous{Socket: "/tmp/.X11-unix/X0", Secret: unsafe.Secret}, http.StatusBadRequest, "malformed"},
		{&Rendezvous{Socket: unsafe.Socket}, http.StatusBadRequest, "malformed"},
		{gone, http.StatusOK, ""},
	} {
		resp, err := s.client.open(t.Context(), &Fetch{URL: s.at},
			&Ask{Format: testFormat, Names: packNames(s.names), Shared: test.at})
		status := http.StatusOK
		if answer, ok := errors.AsType[*statusError](err); ok {
			status = answer.status
		} else if err != nil {
			t.Fatal(err)
		}
		if sent := <-s.sent; status != test.status || sent.Miss != test.miss || sent.Shared {
			t.Errorf("%+v: status %d, %+v", test, status, sent)
		}
		if resp != nil {
			resp.Body.Close()
		}
	}
}

// TestStrangersAreNotGivenMemory connect to the socket without the secret. The other side gets it after them.
func TestStrangersAreNotGivenMemory(t *testing.T) {
	o := newOffer(1 << 10)
	defer o.close()
	for _, shown := range []string{"", "x", strings.Repeat("A", len(o.Secret))} {
		conn, err := net.DialUnix("unix", nil, socketAddr(o.Socket))
		if err != nil {
			t.Fatal(err)
		}
		_, _ = conn.Write([]byte(shown))
		_ = conn.CloseWrite()
		if n, m, _, _, err := conn.ReadMsgUnix(make([]byte, 9), make([]byte, 99)); err == nil && (n > 0 || m > 0) {
			t.Errorf("%q: %d bytes and %d of rights came", shown, n, m)
		}
		conn.Close()
	}
	if o.reader() != nil {
		t.Error("a stranger was given the memory")
	}
	w, err := o.meet(t.Context(), o.bytes)
	if err != nil || w == nil {
		t.Fatal(err)
	}
	copy(w.buffers[0], "written")
	got := make([]byte, 7)
	if err := o.reader().read(got, false); err != nil || string(got) != "written" {
		t.Errorf("%q, %v", got, err)
	}
	w.close()
}

// FuzzSharedStream reads frames whose payloads are in shared memory: nothing is read beyond its buffers, and what
// is taken is what is there.
func FuzzSharedStream(f *testing.F) {
	s := newShelf(4)
	memory := slices.Concat(s.blocks...)
	var whole bytes.Buffer
	for i := range s.names {
		_ = writeBlock(&whole, []byte{kindShared, kindLast}[i%2], sumOf(&s.names[i], 0, s.blocks[i]), nil)
	}
	_ = writeEnd(&whole, endWhole)
	f.Add(whole.Bytes())
	f.Add(bytes.ReplaceAll(whole.Bytes(), []byte{kindLast}, []byte{kindShared}))
	f.Add([]byte{kindLast, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, data []byte) {
		var taken []byte
		ask := &Fetch{Format: testFormat, Names: s.names, Put: func(_ context.Context, blocks ...[]byte) error {
			taken = append(taken, slices.Concat(blocks...)...)
			return nil
		}}
		from := &source{
			Reader: readerFunc(bytes.NewReader(data).Read),
			shared: &sharedReader{buffers: divide(memory), freed: io.Discard},
		}
		inBand := bytes.IndexByte(data, kindBlock) >= 0
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		n, err := takeAll(ctx, cancel, from, ask)
		if len(taken) != n*testFormat.BlockBytes || err == nil && n != len(s.names) {
			t.Fatalf("%d blocks, %d bytes: %v", n, len(taken), err)
		}
		if !inBand && !bytes.HasPrefix(memory, taken) {
			t.Fatal("a block was taken that is not there")
		}
	})
}

func TestSharedOnOtherProcessors(t *testing.T) {
	onOtherProcessors(t, TestBlocksComeThroughSharedMemory, TestSharedBlocksComeAsTheyAreComputed,
		TestDamagedSharedStreams, TestPeersThatLeaveSharedMemory)
}
