package kvwire

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"parley"
	"parley/internal/testkit"
)

var testFormat = Format{
	Version:     Version,
	Weights:     "w",
	Arithmetic:  "cpu ref",
	KVType:      "f32",
	BlockTokens: 16,
	BlockBytes:  100,
}

// A shelf holds blocks in memory.
type shelf struct {
	format Format
	names  []parley.BlockHash
	blocks [][]byte
	mu     sync.Mutex // guards reads
	held   int        // leading blocks that can be read
	reads  int
	stuck  bool // reads wait until they are cancelled
	batch  int  // most blocks of a read; 0 for no bound
	evicts int  // bytes of a block from which on it cannot be read; 0 for none
}

func newShelf(blocks int) *shelf { return newShelfOf(testFormat, blocks) }

func newShelfOf(format Format, blocks int) *shelf {
	s := &shelf{format: format, held: blocks}
	rng := rand.New(rand.NewPCG(1, 2))
	for range blocks {
		var name parley.BlockHash
		block := make([]byte, format.BlockBytes)
		for i := range name {
			name[i] = byte(rng.Uint32())
		}
		for i := range block {
			block[i] = byte(rng.Uint32())
		}
		s.names, s.blocks = append(s.names, name), append(s.blocks, block)
	}
	return s
}

func (s *shelf) read(ctx context.Context, names []parley.BlockHash, first int, room []byte) (n int, err error) {
	s.mu.Lock()
	s.reads++
	s.mu.Unlock()
	if s.stuck {
		<-ctx.Done()
		return 0, ctx.Err()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.batch > 0 {
		names = names[:min(s.batch, len(names))]
	}
	for _, name := range names {
		at := slices.Index(s.names, name)
		if at < 0 || at >= s.held || s.evicts > 0 && first >= s.evicts {
			break
		}
		n += copy(room[n:], s.blocks[at][first:])
		first = 0
	}
	return n, nil
}

// A rig is a server and a client on a network of pipes.
type rig struct {
	*shelf
	server Server
	client Client
	format Format     // of the server
	mu     sync.Mutex // guards sent
	sent   []Delivery
	body   func(io.Reader) io.Reader // what becomes of a stream on its way; nil for nothing
	stream int                       // that body is for, -1 for all
	taken  []byte
	put    func(ctx context.Context, blocks ...[]byte) error // nil for one that takes all
	follow func(request string) (<-chan struct{}, bool)
	asks   string // the request that computes the blocks
	// connections is how many the server has accepted.
	connections atomic.Int32
}

// run is called in a bubble, and returns when all goroutines of the rig have ended.
func (g *rig) run(t *testing.T, during func()) {
	t.Helper()
	l, client := testkit.Listen()
	if g.format == (Format{}) {
		g.format = g.shelf.format
	}
	front := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		sent, err := g.server.Serve(w, r, Holder{Format: g.format, Read: g.read, Follow: g.follow})
		g.mu.Lock()
		g.sent = append(g.sent, sent)
		g.mu.Unlock()
		switch parley.CodeOf(err) {
		case parley.Conflict:
			w.WriteHeader(http.StatusConflict)
		case parley.Overloaded:
			w.WriteHeader(http.StatusTooManyRequests)
		case parley.InvalidRequest:
			w.WriteHeader(http.StatusBadRequest)
		}
	})}
	front.ConnState = func(_ net.Conn, now http.ConnState) {
		if now == http.StateNew {
			g.connections.Add(1)
		}
	}
	go func() { _ = front.Serve(l) }()
	g.client.HTTP = &http.Client{Transport: &tamper{client.Transport, g}}
	during()
	client.CloseIdleConnections()
	front.Close()
	synctest.Wait()
	if n, m := g.server.InFlight(), g.client.InFlight(); n != 0 || m != 0 {
		t.Errorf("%d and %d bytes are still held", n, m)
	}
}

// fetch fetches all blocks.
func (g *rig) fetch(ctx context.Context) (int, error) {
	g.taken = nil
	put := g.put
	if put == nil {
		put = func(_ context.Context, blocks ...[]byte) error {
			g.taken = append(g.taken, slices.Concat(blocks...)...)
			return nil
		}
	}
	return g.client.Run(ctx, &Fetch{URL: "http://peer", Format: g.shelf.format, Names: g.names, Put: put,
		Request: g.asks})
}

// delivered returns what was sent in all streams of a fetch, and the first one's reason.
func (g *rig) delivered() (sum Delivery) {
	for _, d := range g.sent {
		sum.Blocks, sum.Bytes = sum.Blocks+d.Blocks, sum.Bytes+d.Bytes
		if d.Stream == 0 {
			sum.Miss = d.Miss
		}
	}
	return sum
}

// whole reports whether the first blocks were taken as they are, and no other.
func (g *rig) whole(blocks int) bool {
	return bytes.Equal(g.taken, slices.Concat(g.blocks[:blocks]...))
}

// A tamper changes answers on their way.
type tamper struct {
	http.RoundTripper
	rig *rig
}

func (p *tamper) RoundTrip(r *http.Request) (*http.Response, error) {
	var ask Ask
	if copied, err := r.GetBody(); err == nil {
		_ = json.NewDecoder(copied).Decode(&ask)
	}
	resp, err := p.RoundTripper.RoundTrip(r)
	tampered := p.rig.body != nil && (p.rig.stream < 0 || ask.Stream == p.rig.stream)
	if err == nil && tampered && resp.StatusCode == http.StatusOK {
		body := resp.Body
		resp.Body = struct {
			io.Reader
			io.Closer
		}{p.rig.body(body), body}
	}
	return resp, err
}

func reason(err error) string {
	if miss, ok := errors.AsType[*MissError](err); ok {
		return miss.Reason
	}
	return ""
}

func TestBlocksCome(t *testing.T) {
	for _, blocks := range []int{1, 2, 7, 300} {
		for _, batch := range []int{0, 1, 5} {
			synctest.Test(t, func(t *testing.T) {
				g := &rig{shelf: newShelf(blocks)}
				g.batch = batch
				g.run(t, func() {
					n, err := g.fetch(t.Context())
					if n != blocks || err != nil || !g.whole(blocks) {
						t.Errorf("%d of %d blocks came: %v", n, blocks, err)
					}
				})
				if want := (Delivery{Blocks: blocks, Bytes: int64(blocks * 100)}); g.sent[0] != want {
					t.Errorf("%+v was sent, want %+v", g.sent[0], want)
				}
			})
		}
	}
}

// TestLargeBlocksComeInPieces has blocks of more than a frame, in batches of any size, and one that is
// evicted after its first piece.
func TestLargeBlocksComeInPieces(t *testing.T) {
	for _, size := range []int{pieceBytes + 1, 4 * pieceBytes, 3*pieceBytes - 7, bufferBytes + pieceBytes + 5} {
		for _, evicts := range []int{0, pieceBytes} {
			synctest.Test(t, func(t *testing.T) {
				const blocks = 5
				format := testFormat
				format.BlockBytes = size
				g := &rig{shelf: newShelfOf(format, blocks), client: Client{Config: Config{Streams: 2}}}
				g.evicts = evicts
				want, miss := blocks, ""
				if evicts > 0 {
					want, miss = 0, "gone"
				}
				largest := 0
				g.put = func(_ context.Context, pieces ...[]byte) error {
					for _, p := range pieces {
						largest = max(largest, len(p))
					}
					g.taken = append(g.taken, slices.Concat(pieces...)...)
					return nil
				}
				g.run(t, func() {
					n, err := g.fetch(t.Context())
					if n != want || reason(err) != miss {
						t.Errorf("%d of %d blocks of %d bytes came: %v", n, want, size, err)
					}
					if all := slices.Concat(g.blocks...); !bytes.HasPrefix(all, g.taken) || miss == "" &&
						len(g.taken) < len(all) || largest != pieceBytes {
						t.Errorf("%d bytes came in pieces of %d", len(g.taken), largest)
					}
				})
				if whole := g.delivered(); whole.Blocks != want || whole.Miss != miss {
					t.Errorf("%+v was sent", whole)
				}
			})
		}
	}
}

// TestDifferencesAreMisses asks a worker that differs in one thing: no block is read.
func TestDifferencesAreMisses(t *testing.T) {
	for what, change := range map[string]func(*Format){
		"version of the protocol": func(f *Format) { f.Version++ },
		"weights":                 func(f *Format) { f.Weights += "x" },
		"arithmetic":              func(f *Format) { f.Arithmetic += "x" },
		"KV type":                 func(f *Format) { f.KVType += "x" },
		"tokens in a block":       func(f *Format) { f.BlockTokens++ },
		"bytes of a block":        func(f *Format) { f.BlockBytes++ },
	} {
		synctest.Test(t, func(t *testing.T) {
			g := &rig{shelf: newShelf(3), format: testFormat}
			change(&g.format)
			if g.format.Digest() == testFormat.Digest() {
				t.Errorf("%s: the digests are equal", what)
			}
			g.run(t, func() {
				if n, err := g.fetch(t.Context()); n != 0 || reason(err) != "incompatible" {
					t.Errorf("%s: %d blocks, %v", what, n, err)
				}
			})
			if got := g.format.Difference(&testFormat); got != what || g.reads != 0 {
				t.Errorf("%q, want %q; %d reads", got, what, g.reads)
			}
		})
	}
}

func TestBlocksThatAreGone(t *testing.T) {
	for held := range 5 {
		synctest.Test(t, func(t *testing.T) {
			g := &rig{shelf: newShelf(5)}
			g.held, g.batch = held, 2
			g.run(t, func() {
				if n, err := g.fetch(t.Context()); n != held || reason(err) != "gone" || !g.whole(held) {
					t.Errorf("%d of %d blocks, %v", n, held, err)
				}
			})
		})
	}
}

// TestDamagedStreams flips a bit of each byte of a stream, and cuts it off there: what was
// taken is a beginning of what was sent, and never anything else.
func TestDamagedStreams(t *testing.T) {
	const blocks = 3
	length := blocks*(blockHead+testFormat.BlockBytes) + 2
	for at := range length {
		for _, cut := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				g := &rig{shelf: newShelf(blocks)}
				g.body = func(from io.Reader) io.Reader {
					if cut {
						return io.LimitReader(from, int64(at))
					}
					all, _ := io.ReadAll(from)
					all[at] ^= 0x10
					return bytes.NewReader(all)
				}
				g.run(t, func() {
					n, err := g.fetch(t.Context())
					if want := at / (blockHead + testFormat.BlockBytes); n != want || err == nil || !g.whole(n) {
						t.Errorf("byte %d, cut %t: %d blocks, want %d; %v", at, cut, n, want, err)
					}
					if got := reason(err); cut && got != "cut off" || !cut && got != "damaged" {
						t.Errorf("byte %d, cut %t: %q", at, cut, got)
					}
				})
			})
		}
	}
}

func TestSlowPeer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &rig{shelf: newShelf(3)}
		g.stuck = true
		g.run(t, func() {
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
			defer cancel()
			began := time.Now()
			n, err := g.fetch(ctx)
			if took := time.Since(began); n != 0 || reason(err) != "too slow" || took != 3*time.Second {
				t.Errorf("%d blocks after %v, %v", n, took, err)
			}
		})
	})
}

// TestPeersThatLeave cancels the taking side after each block, closes the giving side's
// connections, and has the taking side run out of room.
func TestPeersThatLeave(t *testing.T) {
	full := errors.New("full")
	for after := range 4 {
		for _, way := range []string{"cancelled", "no room", "cut off"} {
			synctest.Test(t, func(t *testing.T) {
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
				if way == "cut off" {
					g.body = func(from io.Reader) io.Reader {
						return io.LimitReader(from, int64(after*(blockHead+testFormat.BlockBytes)+20))
					}
					left = 100
				}
				g.run(t, func() {
					if _, err := g.fetch(ctx); reason(err) != way {
						t.Errorf("%s after %d blocks: %v", way, after, err)
					}
					if !g.whole(len(g.taken) / testFormat.BlockBytes) {
						t.Errorf("%s after %d blocks: others were taken than were sent", way, after)
					}
				})
				cancel()
			})
		}
	}
}

// TestStalledReceiver has the taking side stop reading: the giving side gives up.
func TestStalledReceiver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &rig{shelf: newShelf(40)}
		stalled := make(chan struct{})
		g.body = func(from io.Reader) io.Reader {
			return readerFunc(func(b []byte) (int, error) { <-stalled; return from.Read(b) })
		}
		g.run(t, func() {
			go func() {
				time.Sleep(2 * stallMax)
				g.mu.Lock()
				defer g.mu.Unlock()
				if len(g.sent) != 1 || g.sent[0].Miss != "left" || g.server.InFlight() != 0 {
					t.Errorf("the server still waits: %+v", g.sent)
				}
				close(stalled)
			}()
			if n, err := g.fetch(t.Context()); n == 40 || err == nil {
				t.Errorf("%d blocks, %v", n, err)
			}
		})
	})
}

// A flip changes a byte.
type flip struct {
	io.Reader
	left int
}

func (f *flip) Read(b []byte) (int, error) {
	n, err := f.Reader.Read(b)
	if f.left >= 0 && f.left < n {
		b[f.left] ^= 0x10
	}
	f.left -= n
	return n, err
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(b []byte) (int, error) { return f(b) }

// TestFetchesAreBounded opens more fetches than there may be, on either side: one more
// waits, until its deadline or until another one has ended, and holds nothing meanwhile.
func TestFetchesAreBounded(t *testing.T) {
	for _, side := range []string{"server", "client"} {
		synctest.Test(t, func(t *testing.T) {
			g := &rig{shelf: newShelf(3)}
			g.stuck = true
			g.run(t, func() {
				ctx, cancel := context.WithCancel(t.Context())
				ended := make(chan error, Fetches)
				clients := [2]*Client{&g.client, {HTTP: g.client.HTTP}}
				for i := range Fetches {
					c := clients[0]
					if side == "server" {
						c = clients[i%2]
					}
					go func() {
						_, err := c.Run(ctx, &Fetch{URL: "http://peer", Format: testFormat, Names: g.names})
						ended <- err
					}()
				}
				synctest.Wait()
				bounded, end := context.WithTimeout(ctx, time.Second)
				defer end()
				late := map[string]string{"server": "too slow", "client": "busy"}[side]
				if _, err := g.fetch(bounded); reason(err) != late {
					t.Errorf("%s: %v, want %s", side, err, late)
				}
				most := int64(2 * len(g.names) * testFormat.BlockBytes * Fetches)
				if n := g.server.InFlight(); n != most {
					t.Errorf("%s: %d bytes are held, want %d", side, n, most)
				}
				next := make(chan error, 1)
				go func() {
					blocks, err := g.fetch(t.Context())
					if err == nil && (blocks != len(g.names) || !g.whole(blocks)) {
						err = errors.New("not all blocks came")
					}
					next <- err
				}()
				synctest.Wait()
				g.stuck = false
				cancel()
				if err := <-next; err != nil {
					t.Errorf("%s: one that waited: %v", side, err)
				}
				for range Fetches {
					if err := <-ended; reason(err) != "cancelled" {
						t.Errorf("%s: %v", side, err)
					}
				}
			})
		})
	}
}

// TestTheQueueOfAGate is entered in order, left at any time, and bounded.
func TestTheQueueOfAGate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g gate
		for range Fetches {
			if err := g.enter(t.Context(), 1); err != nil {
				t.Fatal(err)
			}
		}
		var order []int
		stop := make([]context.CancelFunc, Waits)
		for i := range Waits {
			ctx, cancel := context.WithCancel(t.Context())
			stop[i] = cancel
			go func() {
				if g.enter(ctx, 1) == nil {
					order = append(order, i) // one at a time: each is followed by a Wait
				}
			}()
			synctest.Wait()
		}
		if err := g.enter(t.Context(), 1); !errors.Is(err, errBusy) {
			t.Errorf("%v, want %v", err, errBusy)
		}
		var want []int
		for i := range Waits {
			if i%3 == 0 {
				stop[i]()
				synctest.Wait()
			} else {
				want = append(want, i)
			}
		}
		for range want {
			g.leave(1)
			synctest.Wait()
		}
		if !slices.Equal(order, want) || g.bytes() != Fetches {
			t.Errorf("%v entered and hold %d", order, g.bytes())
		}
		for i := range Fetches {
			g.leave(1)
			if err := g.enter(t.Context(), 1); err != nil { // there is room at once
				t.Error(i, err)
			}
		}
		for range Fetches {
			g.leave(1)
		}
		if g.running != 0 || g.bytes() != 0 {
			t.Errorf("%d run and hold %d", g.running, g.bytes())
		}
		for _, cancel := range stop {
			cancel()
		}
	})
}

func TestTickets(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	key := sha256.Sum256([]byte("secret"))
	ticket := Sign("secret", "one", now.Add(time.Minute))
	if !Valid(ticket, key, "one", now) {
		t.Error("a good ticket is refused")
	}
	for what, bad := range map[string]bool{
		"another process": Valid(ticket, key, "two", now),
		"another key":     Valid(ticket, sha256.Sum256([]byte("other")), "one", now),
		"too late":        Valid(ticket, key, "one", now.Add(time.Minute)),
		"changed":         Valid("9"+ticket, key, "one", now),
		"the key itself":  Valid("secret", key, "one", now),
		"empty":           Valid("", key, "one", now),
		"no key":          Sign("", "one", now) != "",
	} {
		if bad {
			t.Errorf("%s: the ticket is good", what)
		}
	}
}

// onOtherProcessors runs tests once more: with processors to read ahead where there are too few here, and the other
// way round.
func onOtherProcessors(t *testing.T, tests ...func(*testing.T)) {
	processors := 8
	if readsAhead() {
		processors = 2
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(processors))
	for _, test := range tests {
		t.Run(fmt.Sprint(processors), test)
	}
}

// TestBlocksGatherForABusyEngine has an engine that takes blocks between passes only: it gets all that have come.
func TestBlocksGatherForABusyEngine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &rig{shelf: newShelf(40)}
		most := 0
		g.put = func(_ context.Context, pieces ...[]byte) error {
			most = max(most, len(pieces))
			time.Sleep(2 * slowPut)
			g.taken = append(g.taken, slices.Concat(pieces...)...)
			return nil
		}
		g.run(t, func() {
			if n, err := g.fetch(t.Context()); n != 40 || err != nil || !g.whole(40) || most < 10 {
				t.Errorf("%d blocks came, at most %d at once: %v", n, most, err)
			}
		})
	})
}

func TestOnOtherProcessors(t *testing.T) {
	onOtherProcessors(t, TestBlocksCome, TestLargeBlocksComeInPieces, TestBlocksThatAreGone, TestDamagedStreams,
		TestSlowPeer, TestPeersThatLeave, TestStalledReceiver, TestBlocksComeAsTheyAreComputed,
		TestBlocksGatherForABusyEngine)
}

// takeAll takes blocks that come in one stream.
func takeAll(ctx context.Context, cancel context.CancelFunc, from *source, f *Fetch) (int, error) {
	m := newMerge(f.Format.BlockBytes, len(f.Names), 1, 2*f.Format.BlockBytes)
	r := receiver{*from, m.streams[0], f.Names, cursor{block: f.Format.BlockBytes}}
	m.begin(func() error { return r.next(ctx) }, true)
	return m.take(ctx, cancel, f.Put)
}

// FuzzStream reads frames from any bytes: blocks that are taken have the sum that was sent.
func FuzzStream(f *testing.F) {
	s := newShelf(2)
	var whole bytes.Buffer
	for i := range s.names {
		_ = writeBlock(&whole, kindBlock, sumOf(&s.names[i], 0, s.blocks[i]), s.blocks[i])
	}
	_ = writeEnd(&whole, endWhole)
	f.Add(whole.Bytes())
	f.Add([]byte{kindEnd, endGone})
	f.Add([]byte{kindBlock})
	f.Fuzz(func(t *testing.T, data []byte) {
		from := bytes.NewReader(data)
		var taken []byte
		ask := &Fetch{Format: testFormat, Names: s.names, Put: func(_ context.Context, blocks ...[]byte) error {
			taken = append(taken, slices.Concat(blocks...)...)
			return nil
		}}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		_, err := takeAll(ctx, cancel, &source{Reader: from}, ask)
		blocks := len(taken) / testFormat.BlockBytes
		if len(taken)%testFormat.BlockBytes != 0 || err == nil && blocks != len(s.names) {
			t.Fatalf("%d bytes were taken: %v", len(taken), err)
		}
		var again bytes.Buffer
		for i := range blocks {
			block := taken[i*testFormat.BlockBytes:][:testFormat.BlockBytes]
			_ = writeBlock(&again, kindBlock, sumOf(&s.names[i], 0, block), block)
		}
		if !bytes.HasPrefix(data, again.Bytes()) {
			t.Fatal("a block was taken that was not sent so")
		}
	})
}
