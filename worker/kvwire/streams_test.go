package kvwire

import (
	"context"
	"errors"
	"io"
	"net/http"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// newStreamsRig has fetches come in as many streams as may be.
func newStreamsRig(shelf *shelf) *rig {
	return &rig{shelf: shelf, client: Client{Config: Config{Streams: StreamsMax, StreamFrom: 1}}}
}

// TestBlocksComeInStreams fetches blocks of all sizes: each stream has its part of them, and a fetch holds no more
// memory than in one stream.
func TestBlocksComeInStreams(t *testing.T) {
	for _, size := range []int{100, pieceBytes, pieceBytes + 1, bufferBytes + 5} {
		for _, blocks := range []int{1, 2, 3, 4, 5, 7, 11} {
			synctest.Test(t, func(t *testing.T) {
				format := testFormat
				format.BlockBytes = size
				g := newStreamsRig(newShelfOf(format, blocks))
				var held int64
				g.put = func(_ context.Context, pieces ...[]byte) error {
					held = max(held, g.client.InFlight(), g.server.InFlight())
					g.taken = append(g.taken, slices.Concat(pieces...)...)
					return nil
				}
				g.run(t, func() {
					if n, err := g.fetch(t.Context()); n != blocks || err != nil || !g.whole(blocks) {
						t.Errorf("%d of %d blocks of %d bytes came: %v", n, blocks, size, err)
					}
				})
				if most := int64(2 * bufferSize(size, blocks)); held != most {
					t.Errorf("%d blocks of %d bytes: %d bytes were held, want %d", blocks, size, held, most)
				}
				if len(g.sent) != StreamsMax {
					t.Errorf("%d streams, want %d", len(g.sent), StreamsMax)
				}
				for _, d := range g.sent {
					if want := (blocks - d.Stream + StreamsMax - 1) / StreamsMax; d.Blocks != want || d.Miss != "" {
						t.Errorf("%d blocks: %+v, want %d", blocks, d, want)
					}
				}
			})
		}
	}
}

// TestConnectionsAreUsedAgain fetches one prompt after another: the streams of the second come on the connections of
// the first.
func TestConnectionsAreUsedAgain(t *testing.T) {
	for _, streams := range []int{1, StreamsMax} {
		synctest.Test(t, func(t *testing.T) {
			g := newStreamsRig(newShelf(9))
			g.client.Streams = streams
			g.run(t, func() {
				for range 3 {
					if n, err := g.fetch(t.Context()); n != 9 || err != nil {
						t.Errorf("%d of 9 blocks came: %v", n, err)
					}
					synctest.Wait()
				}
			})
			if n := int(g.connections.Load()); n != streams {
				t.Errorf("%d connections for three fetches in %d streams", n, streams)
			}
		})
	}
}

// TestStreamsOfBlocksThatAreGone ends where the first missing block should be, in whichever stream that is.
func TestStreamsOfBlocksThatAreGone(t *testing.T) {
	for held := range 9 {
		synctest.Test(t, func(t *testing.T) {
			g := newStreamsRig(newShelf(9))
			g.held = held
			g.run(t, func() {
				if n, err := g.fetch(t.Context()); n != held || reason(err) != "gone" || !g.whole(held) {
					t.Errorf("%d of %d blocks, %v", n, held, err)
				}
			})
		})
	}
}

// TestOneStreamFails flips a bit of each byte of one stream, and cuts it off there: what comes in the others does not
// stand in for it.
func TestOneStreamFails(t *testing.T) {
	const blocks = 7
	frame := blockHead + testFormat.BlockBytes
	for stream := range StreamsMax {
		part := (blocks - stream + StreamsMax - 1) / StreamsMax
		for at := 0; at < part*frame+2; at += 3 {
			for _, cut := range []bool{false, true} {
				synctest.Test(t, func(t *testing.T) {
					g := newStreamsRig(newShelf(blocks))
					g.stream = stream
					g.body = func(from io.Reader) io.Reader {
						if cut {
							return io.LimitReader(from, int64(at))
						}
						return &flip{from, at}
					}
					g.run(t, func() {
						n, err := g.fetch(t.Context())
						if want := min(blocks, at/frame*StreamsMax+stream); n != want || err == nil || !g.whole(n) {
							t.Errorf("byte %d of stream %d, cut %t: %d blocks, want %d; %v", at, stream, cut, n,
								want, err)
						}
					})
				})
			}
		}
	}
}

// TestStreamsOfPeersThatLeave cancels a fetch after each block, and has the taking side run out of room.
func TestStreamsOfPeersThatLeave(t *testing.T) {
	for after := range 9 {
		for _, way := range []string{"cancelled", "no room"} {
			synctest.Test(t, func(t *testing.T) {
				g := newStreamsRig(newShelf(9))
				g.batch = 1
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				g.put = func(ctx context.Context, blocks ...[]byte) error {
					for _, block := range blocks {
						if len(g.taken) == after*len(block) && way == "no room" {
							return errors.New("full")
						} else if len(g.taken) == after*len(block) {
							cancel()
							return ctx.Err()
						}
						g.taken = append(g.taken, block...)
					}
					return nil
				}
				g.run(t, func() {
					if _, err := g.fetch(ctx); reason(err) != way {
						t.Errorf("%s after %d blocks: %v", way, after, err)
					}
					if !g.whole(after) {
						t.Errorf("%s after %d blocks: others were taken than were sent", way, after)
					}
				})
			})
		}
	}
}

// TestAStalledStream has the taking side stop reading one stream: the giving side gives the fetch up.
func TestAStalledStream(t *testing.T) {
	for stream := range StreamsMax {
		synctest.Test(t, func(t *testing.T) {
			g := newStreamsRig(newShelf(40))
			stalled := make(chan struct{})
			g.stream = stream
			g.body = func(from io.Reader) io.Reader {
				return readerFunc(func(b []byte) (int, error) { <-stalled; return from.Read(b) })
			}
			g.run(t, func() {
				time.AfterFunc(2*stallMax+time.Second, func() {
					if n := g.server.InFlight(); n != 0 {
						t.Errorf("stream %d: the server still holds %d bytes", stream, n)
					}
					close(stalled)
				})
				if n, err := g.fetch(t.Context()); err == nil || !g.whole(n) {
					t.Errorf("stream %d: %d blocks, %v", stream, n, err)
				}
			})
		})
	}
}

// TestStreamsAddUp fetches over a network that bounds the speed of each connection: four streams take a quarter of the
// time of one.
func TestStreamsAddUp(t *testing.T) {
	var took [2]time.Duration
	for i, streams := range []int{1, StreamsMax} {
		synctest.Test(t, func(t *testing.T) {
			g := newStreamsRig(newShelf(400))
			g.client.Streams, g.stream = streams, -1
			g.body = func(from io.Reader) io.Reader {
				return readerFunc(func(b []byte) (int, error) {
					n, err := from.Read(b)
					time.Sleep(time.Duration(n) * time.Millisecond / 10)
					return n, err
				})
			}
			g.run(t, func() {
				began := time.Now()
				if n, err := g.fetch(t.Context()); n != 400 || err != nil || !g.whole(400) {
					t.Errorf("%d blocks, %v", n, err)
				}
				took[i] = time.Since(began)
			})
		})
	}
	if ratio := float64(took[0]) / float64(took[1]); ratio < 0.95*StreamsMax {
		t.Errorf("one stream takes %v, %d take %v: %.2f times as fast", took[0], StreamsMax, took[1], ratio)
	}
}

// TestStreamsComeAsTheyAreComputed fetches blocks of a request that computes them one after the other.
func TestStreamsComeAsTheyAreComputed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newStreamsRig(newShelf(9))
		g.held, g.asks = 0, "r"
		computed := &prefill{shelf: g.shelf, changed: make(chan struct{})}
		g.follow = computed.follow
		g.run(t, func() {
			computed.set(0, true)
			go func() {
				for held := range 10 {
					time.Sleep(time.Second)
					computed.set(held, held < 9)
				}
			}()
			if n, err := g.fetch(t.Context()); n != 9 || err != nil || !g.whole(9) {
				t.Errorf("%d blocks, %v", n, err)
			}
		})
	})
}

// TestPeersWithoutStreams fetch from, and are given blocks by, a worker that does not know of streams.
func TestPeersWithoutStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newStreamsRig(newShelf(9))
		g.client.StreamFrom = 1 << 40 // asks as one that does not know of them
		g.run(t, func() {
			if n, err := g.fetch(t.Context()); n != 9 || err != nil || len(g.sent) != 1 {
				t.Errorf("%d blocks in %d streams, %v", n, len(g.sent), err)
			}
		})
	})
	for header, want := range map[string]int{"": 1, "0": 1, "x": 1, "-1": 1, "5": 1, "4": 4, "2": 2} {
		resp := &http.Response{Header: http.Header{headerStreams: {header}}}
		if n := streamsGranted(resp, StreamsMax); n != want {
			t.Errorf("%q grants %d streams, want %d", header, n, want)
		}
	}
}

// TestStreamsThatDoNotBelong asks for streams of no fetch, for one twice, for too many, and for those after a
// fetch has waited long enough.
func TestStreamsThatDoNotBelong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newStreamsRig(newShelf(9))
		g.run(t, func() {
			open := func(ask Ask) (*http.Response, int) {
				ask.Format, ask.Names = g.shelf.format, packNames(g.names)
				resp, err := g.client.open(t.Context(), &Fetch{URL: "http://peer"}, &ask)
				if answer, ok := errors.AsType[*statusError](err); ok {
					return nil, answer.status
				} else if err != nil {
					t.Fatal(err)
				}
				return resp, http.StatusOK
			}
			refused := func(what string, ask Ask) {
				if _, status := open(ask); status != http.StatusBadRequest {
					t.Errorf("%s: status %d", what, status)
				}
			}
			refused("no such fetch", Ask{Fetch: "a", Streams: 2, Stream: 1})
			many, _ := open(Ask{Fetch: "a", Streams: StreamsMax + 1})
			if n := streamsGranted(many, StreamsMax+1); n != 1 {
				t.Errorf("%d streams, want 1", n)
			}
			many.Body.Close()
			first, _ := open(Ask{Fetch: "a", Streams: 3})
			again, _ := open(Ask{Fetch: "a", Streams: 3})
			if a, b := streamsGranted(first, 3), streamsGranted(again, 3); a != 3 || b != 1 {
				t.Errorf("%d and %d streams, want 3 and 1", a, b)
			}
			again.Body.Close()
			other, _ := open(Ask{Fetch: "a", Streams: 3, Stream: 1})
			_, _ = io.Copy(io.Discard, other.Body)
			other.Body.Close()
			for what, stream := range map[string]int{"twice": 1, "too high": 3, "negative": -1} {
				refused(what, Ask{Fetch: "a", Streams: 3, Stream: stream})
			}
			refused("another number of streams", Ask{Fetch: "a", Streams: 4, Stream: 2})
			began := time.Now()
			if _, err := io.Copy(io.Discard, first.Body); err != nil || time.Since(began) != stallMax {
				t.Errorf("the fetch waited %v for its other stream, want %v; %v", time.Since(began), stallMax, err)
			}
			first.Body.Close()
			refused("too late", Ask{Fetch: "a", Streams: 3, Stream: 2})
		})
	})
}

// TestNumberOfStreams depends on bytes and processors, and is bounded.
func TestNumberOfStreams(t *testing.T) {
	for _, test := range []struct {
		cfg   Config
		bytes int64
		want  int
	}{
		{Config{Streams: 4}, 0, 1},
		{Config{Streams: 4}, 2*streamFrom - 1, 1},
		{Config{Streams: 4}, 2 * streamFrom, 2},
		{Config{Streams: 4}, 100 * streamFrom, 4},
		{Config{Streams: 9}, 100 * streamFrom, StreamsMax},
		{Config{Streams: 1}, 100 * streamFrom, 1},
		{Config{}, 100 * streamFrom, max(1, min(runtime.GOMAXPROCS(0)/2, StreamsMax))},
	} {
		if n := test.cfg.streamsOf(test.bytes); n != test.want {
			t.Errorf("%d bytes, at most %d: %d streams, want %d", test.bytes, test.cfg.Streams, n, test.want)
		}
	}
}
