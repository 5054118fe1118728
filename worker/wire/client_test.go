package wire

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"io"
	"iter"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"parley"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A counting worker answers with the numbers from 0 on, and knows how many it
// has given and whether it was left.
type counting struct {
	given atomic.Int64
	left  chan error
	fail  error // instead of the end
}

func (w *counting) Models() []parley.Model { return []parley.Model{{ID: "count", ContextTokens: 100}} }

func (w *counting) Generate(ctx context.Context, r *parley.Request) iter.Seq2[parley.Delta, error] {
	return func(yield func(parley.Delta, error) bool) {
		defer func() { w.left <- ctx.Err() }()
		for i := range r.MaxTokens {
			if ctx.Err() != nil {
				yield(parley.Delta{}, parley.Errorf(parley.Cancelled, "left"))
				return
			}
			w.given.Add(1)
			d := parley.Delta{Tokens: []parley.Token{parley.Token(i)}}
			if i == r.MaxTokens-1 {
				if w.fail != nil {
					yield(parley.Delta{}, w.fail)
					return
				}
				d.Finish, d.Usage = parley.FinishLength, &parley.Usage{PromptTokens: len(r.Prompt),
					OutputTokens: r.MaxTokens}
			}
			if !yield(d, nil) {
				return
			}
		}
	}
}

// serveWire serves a worker on a real socket.
func serveWire(t *testing.T, to parley.Worker) string { return serveServer(t, &Server{To: to}) }

// serveServer serves on a real socket.
func serveServer(t *testing.T, server *Server) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := server.Serve(w, r); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
		}
	})}
	go s.Serve(l)
	t.Cleanup(func() { s.Close(); server.Close() })
	return "http://" + l.Addr().String()
}

// pipeWire connects a client with a worker without sockets, so that it can be known
// when nothing moves any more.
func pipeWire(t *testing.T, to parley.Worker, cfg ClientConfig) *Client {
	t.Helper()
	near, far := net.Pipe()
	server := &Server{To: to}
	v := &serverConn{server: server, conn: far, out: outbox{to: far}, answers: map[uint64]*serverRequest{}}
	server.enter(v)
	go func() {
		defer server.leave(v)
		v.listen(t.Context(), bufio.NewReader(far))
	}()
	t.Cleanup(server.Close)
	return linked(t, near, cfg)
}

// linked returns a client that has a connection already.
func linked(t *testing.T, conn net.Conn, cfg ClientConfig) *Client {
	t.Helper()
	c := dial(t, "http://worker", cfg)
	c.now = newLink(conn, c.cfg.Silence)
	go c.now.listen()
	return c
}

// silenceDefault is how long workers of these tests may be silent.
const silenceDefault = 5 * time.Second

// dial returns a client of the worker at a URL.
func dial(t *testing.T, url string, cfg ClientConfig) *Client {
	t.Helper()
	cfg.Worker, cfg.Window, cfg.Silence = url, cmp.Or(cfg.Window, 64), cmp.Or(cfg.Silence, silenceDefault)
	cfg.Dial = func(ctx context.Context) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", strings.TrimPrefix(url, "http://"))
	}
	cfg.Request = func(ctx context.Context, path string) (*http.Request, error) {
		return http.NewRequestWithContext(ctx, http.MethodGet, url+path, nil)
	}
	cfg.Refusal = func(r *http.Response) error { return parley.Errorf(parley.InvalidRequest, "status %s", r.Status) }
	cfg.Unreachable = func(ctx context.Context, err error) error {
		if ctx.Err() != nil {
			return parley.Errorf(parley.Cancelled, "left: %v", err)
		}
		return parley.Errorf(parley.Unavailable, "unreachable: %v", err)
	}
	c := NewClient(cfg)
	t.Cleanup(c.Close)
	return c
}

func TestAnswersCrossTheWire(t *testing.T) {
	w := &counting{left: make(chan error, 8)}
	r := dial(t, serveWire(t, w), ClientConfig{Window: 3})
	next := parley.Token(0)
	var usage *parley.Usage
	for d, err := range r.Generate(t.Context(), &parley.Request{Prompt: []parley.Token{7, 8}, MaxTokens: 1000}) {
		if err != nil {
			t.Fatal(err)
		}
		for _, got := range d.Tokens {
			if got != next {
				t.Fatalf("token %d came after %d", got, next-1)
			}
			next++
		}
		usage = d.Usage
	}
	if next != 1000 || usage == nil || usage.PromptTokens != 2 {
		t.Errorf("%d tokens, usage %+v", next, usage)
	}
}

// TestSlowReadersPauseTheWorker reads a few tokens of a long answer and then
// waits: the worker gets as far ahead as the window, and no further. What real
// sockets hold beside it is tested with real processes.
func TestSlowReadersPauseTheWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const window = 16
		w := &counting{left: make(chan error, 8)}
		r := pipeWire(t, w, ClientConfig{Window: window})
		read := 0
		for d, err := range r.Generate(t.Context(), &parley.Request{Prompt: []parley.Token{1}, MaxTokens: 1 << 20}) {
			if err != nil {
				t.Fatal(err)
			}
			if read += d.Count(); read >= 5*window {
				break
			}
			synctest.Wait()
			untold := d.Count() + window/2 // the most that is read and not told yet
			given := int(w.given.Load())
			// one is in the worker's hand
			if least, most := read+window-untold, read+window+1; given < least || given > most {
				t.Fatalf("%d tokens were computed when %d were read: want %d to %d", given, read, least, most)
			}
		}
		<-w.left
	})
}

func TestLeavingCancels(t *testing.T) {
	w := &counting{left: make(chan error, 8)}
	r := dial(t, serveWire(t, w), ClientConfig{})
	for range r.Generate(t.Context(), &parley.Request{Prompt: []parley.Token{1}, MaxTokens: 1 << 30}) {
		break
	}
	<-w.left
	ctx, cancel := context.WithCancel(t.Context())
	for _, err := range r.Generate(ctx, &parley.Request{Prompt: []parley.Token{1}, MaxTokens: 1 << 30}) {
		cancel()
		if err != nil && parley.CodeOf(err) != parley.Cancelled {
			t.Errorf("a cancelled request failed with %v", err)
		}
	}
	<-w.left
	cancel()
}

func TestErrorsCrossTheWire(t *testing.T) {
	want := &parley.Error{Code: parley.Overloaded, Message: "no room", Wait: time.Second}
	w := &counting{left: make(chan error, 8), fail: want}
	r := dial(t, serveWire(t, w), ClientConfig{})
	var got error
	for _, err := range r.Generate(t.Context(), &parley.Request{Prompt: []parley.Token{1}, MaxTokens: 3}) {
		got = err
	}
	if e, ok := errors.AsType[*parley.Error](got); !ok || *e != *want {
		t.Errorf("%v arrived, %v was sent", got, want)
	}
}

// TestBrokenConnections checks what a caller sees of a worker that dies before,
// at and after the first token.
func TestBrokenConnections(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	gone := "http://" + l.Addr().String()
	l.Close()
	r := dial(t, gone, ClientConfig{})
	for _, err := range r.Generate(t.Context(), &parley.Request{Prompt: []parley.Token{1}, MaxTokens: 3}) {
		if parley.CodeOf(err) != parley.Unavailable {
			t.Errorf("a worker that is not there: %v", err)
		}
	}
	w := &counting{left: make(chan error, 8)}
	l, err = net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &Server{To: w}
	s := &http.Server{Handler: http.HandlerFunc(func(rw http.ResponseWriter, req *http.Request) {
		_ = server.Serve(rw, req)
	})}
	go s.Serve(l)
	r = dial(t, "http://"+l.Addr().String(), ClientConfig{})
	n := 0
	for _, err := range r.Generate(t.Context(), &parley.Request{Prompt: []parley.Token{1}, MaxTokens: 1 << 30}) {
		if n++; n == 3 {
			s.Close()
			go server.Close()
		}
		if err != nil && parley.CodeOf(err) != parley.Unavailable {
			t.Errorf("a worker that died: %v", err)
		}
	}
	<-w.left
	if n < 3 {
		t.Errorf("%d deltas came", n)
	}
}

// TestSilentWorkersAreGivenUp has a worker that accepts a connection and says
// nothing, as a stopped process does.
func TestSilentWorkersAreGivenUp(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	r := dial(t, "http://"+l.Addr().String(), ClientConfig{Silence: 200 * time.Millisecond})
	for _, err := range r.Generate(t.Context(), &parley.Request{Prompt: []parley.Token{1}, MaxTokens: 3}) {
		if parley.CodeOf(err) != parley.Unavailable {
			t.Errorf("a silent worker: %v", err)
		}
	}
}

func TestTheWireNeedsAnUpgrade(t *testing.T) {
	url := serveWire(t, &counting{left: make(chan error, 1)})
	resp, err := http.Get(url + Path)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	http.DefaultClient.CloseIdleConnections()
	if resp.StatusCode != http.StatusBadRequest {
		t.Errorf("a plain request was answered with %s", resp.Status)
	}
}

// TestCreditIsKept lets tokens be taken and acknowledged in every order.
func TestCreditIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCredit(2)
		ctx, cancel := context.WithCancel(t.Context())
		taken := make(chan int, 8)
		go func() {
			for i := 0; c.take(ctx, 1) == nil; i++ {
				taken <- i
			}
			close(taken)
		}()
		synctest.Wait()
		if len(taken) != 2 {
			t.Fatalf("%d were taken of a window of 2", len(taken))
		}
		c.refill(3)
		synctest.Wait()
		if len(taken) != 5 {
			t.Fatalf("%d were taken after 3 more were allowed", len(taken))
		}
		cancel()
		synctest.Wait()
	})
}

// TestOneConnectionForAll asks for many answers at once and one after the other,
// and leaves some of them early.
func TestOneConnectionForAll(t *testing.T) {
	w := &counting{left: make(chan error, 1000)}
	r := dial(t, serveWire(t, w), ClientConfig{Window: 8})
	var all sync.WaitGroup
	for i := range 50 {
		all.Go(func() {
			for n := range 10 {
				next := parley.Token(0)
				for d, err := range r.Generate(t.Context(),
					&parley.Request{Prompt: []parley.Token{1}, MaxTokens: i + n + 1}) {
					if err != nil {
						t.Error(err)
					}
					for _, got := range d.Tokens {
						if got != next {
							t.Errorf("token %d came as number %d", got, next)
						}
						next++
					}
					if (i+n)%7 == 3 {
						break
					}
				}
				if (i+n)%7 != 3 && int(next) != i+n+1 {
					t.Errorf("%d of %d tokens came", next, i+n+1)
				}
			}
		})
	}
	all.Wait()
	l := r.now
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.last != 500 || len(l.streams) != 0 || l.err != nil {
		t.Errorf("the connection had %d requests and has %d, %v", l.last, len(l.streams), l.err)
	}
}

// TestEndedConnectionsAreNotUsed ends idle connections, as a worker that starts
// again does, and asks again.
func TestEndedConnectionsAreNotUsed(t *testing.T) {
	w := &counting{left: make(chan error, 100)}
	server := &Server{To: w}
	handle := func(rw http.ResponseWriter, req *http.Request) { _ = server.Serve(rw, req) }
	s := httptest.NewServer(http.HandlerFunc(handle))
	defer s.Close()
	r := dial(t, s.URL, ClientConfig{})
	ask := func() (err error) {
		for _, fault := range r.Generate(t.Context(), &parley.Request{Prompt: []parley.Token{1}, MaxTokens: 2}) {
			err = fault
		}
		return err
	}
	for range 5 {
		if err := ask(); err != nil {
			t.Fatal(err)
		}
		if err := server.Shutdown(t.Context()); err != nil {
			t.Fatal(err)
		}
		for in := r.now.open(); in != nil; in = r.now.open() { // until the end was heard of
			r.now.drop(in, true)
			time.Sleep(time.Millisecond)
		}
		server = &Server{To: w}
	}
	server.Close()
}

// TestPausedReadersAreNotSilence reads one token and then nothing for longer than
// a worker may be silent: the pause is the reader's own.
func TestPausedReadersAreNotSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &counting{left: make(chan error, 8)}
		r := pipeWire(t, w, ClientConfig{Window: 4})
		tokens := 0
		for d, err := range r.Generate(t.Context(), &parley.Request{Prompt: []parley.Token{1}, MaxTokens: 50}) {
			if err != nil {
				t.Fatal(err)
			}
			if tokens == 0 {
				time.Sleep(5 * silenceDefault)
			}
			tokens += d.Count()
		}
		if tokens != 50 {
			t.Errorf("%d tokens came", tokens)
		}
	})
}

// TestLongThoughtIsNotSilence has a worker that takes longer over its first token
// than it may be silent, and answers pings.
func TestLongThoughtIsNotSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := pipeWire(t, slowWorker{after: 3 * silenceDefault}, ClientConfig{})
		for d, err := range r.Generate(t.Context(), &parley.Request{Prompt: []parley.Token{1}, MaxTokens: 1}) {
			if err != nil || d.Usage == nil {
				t.Errorf("%+v, %v", d, err)
			}
		}
	})
}

// TestSilenceAfterTheFirstToken stops a worker that has begun to answer, as SIGSTOP
// does: its answer ends when the worker may no longer be silent.
func TestSilenceAfterTheFirstToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		defer far.Close()
		go func() {
			frames, room := bufio.NewReader(far), []byte(nil)
			_, _ = readFrame(frames, frameMax, &room)
			_, _ = far.Write(shortFrame(kindTokens, 1, 5))
			_, _ = io.Copy(io.Discard, frames) // it gets pings, and sends nothing
		}()
		r := linked(t, near, ClientConfig{})
		began, tokens := time.Now(), 0
		for d, err := range r.Generate(t.Context(), &parley.Request{Prompt: []parley.Token{1}, MaxTokens: 9}) {
			if tokens += d.Count(); err != nil && (parley.CodeOf(err) != parley.Unavailable ||
				!strings.Contains(err.Error(), errNoSign.Error())) {
				t.Error(err)
			}
		}
		if took := time.Since(began); tokens != 1 || took < silenceDefault || took > 2*silenceDefault {
			t.Errorf("%d tokens came in %v", tokens, took)
		}
	})
}

// TestWhatCannotBeSaid has a worker give a log-probability that is not a number: the
// client hears of it, and does not wait.
func TestWhatCannotBeSaid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := pipeWire(t, muddled{}, ClientConfig{})
		var got error
		for _, err := range r.Generate(t.Context(), &parley.Request{Prompt: []parley.Token{1}, MaxTokens: 1}) {
			got = err
		}
		if parley.CodeOf(got) != parley.Internal {
			t.Errorf("it ended with %v", got)
		}
	})
}

// A muddled worker is not sure of anything.
type muddled struct{}

func (muddled) Models() []parley.Model { return nil }

func (muddled) Generate(context.Context, *parley.Request) iter.Seq2[parley.Delta, error] {
	return func(yield func(parley.Delta, error) bool) {
		unsure := []parley.Logprob{{Token: 1, Logprob: float32(math.NaN())}}
		yield(parley.Delta{Tokens: []parley.Token{1}, Logprobs: unsure, Usage: &parley.Usage{OutputTokens: 1}}, nil)
	}
}

// A slowWorker answers after a while.
type slowWorker struct{ after time.Duration }

func (slowWorker) Models() []parley.Model { return nil }

func (w slowWorker) Generate(context.Context, *parley.Request) iter.Seq2[parley.Delta, error] {
	return func(yield func(parley.Delta, error) bool) {
		time.Sleep(w.after)
		yield(parley.Delta{Tokens: []parley.Token{1}, Finish: parley.FinishLength,
			Usage: &parley.Usage{OutputTokens: 1}}, nil)
	}
}

// TestAWorkerThatPanicsFailsItsRequest and nothing else.
func TestAWorkerThatPanicsFailsItsRequest(t *testing.T) {
	r := dial(t, serveWire(t, panicking{}), ClientConfig{})
	for range 2 {
		for _, err := range r.Generate(t.Context(), &parley.Request{Prompt: []parley.Token{1}, MaxTokens: 1}) {
			if parley.CodeOf(err) != parley.Internal {
				t.Errorf("%v", err)
			}
		}
	}
}

type panicking struct{}

func (panicking) Models() []parley.Model { return nil }

func (panicking) Generate(context.Context, *parley.Request) iter.Seq2[parley.Delta, error] {
	return func(func(parley.Delta, error) bool) { panic("no") }
}
