package worker

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net"
	"net/http"
	"net/http/httptest"
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
				d.Finish, d.Usage = parley.FinishLength, &parley.Usage{PromptTokens: len(r.Prompt), OutputTokens: r.MaxTokens}
			}
			if !yield(d, nil) {
				return
			}
		}
	}
}

// serveWire serves a worker on a real socket.
func serveWire(t *testing.T, to parley.Worker) string { return serveDoor(t, &Door{To: to}) }

// serveDoor serves a door on a real socket.
func serveDoor(t *testing.T, door *Door) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := door.Serve(w, r); err != nil {
			w.WriteHeader(http.StatusBadRequest)
			_, _ = w.Write(RefusalBody(err))
		}
	})}
	go s.Serve(l)
	t.Cleanup(func() { s.Close(); door.Close() })
	return "http://" + l.Addr().String()
}

func dial(t *testing.T, cfg Config) *Remote {
	t.Helper()
	r, err := Dial(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	return r
}

func TestAnswersCrossTheWire(t *testing.T) {
	w := &counting{left: make(chan error, 8)}
	r := dial(t, Config{URL: serveWire(t, w), Kind: Parley, Window: 3})
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
// waits: the worker must not get further ahead than the window, whatever the
// sockets would hold.
func TestSlowReadersPauseTheWorker(t *testing.T) {
	const window = 16
	w := &counting{left: make(chan error, 8)}
	r := dial(t, Config{URL: serveWire(t, w), Kind: Parley, Window: window})
	read := 0
	for d, err := range r.Generate(t.Context(), &parley.Request{Prompt: []parley.Token{1}, MaxTokens: 1 << 20}) {
		if err != nil {
			t.Fatal(err)
		}
		if read += d.Count(); read >= 5*window {
			break
		}
		settled := int64(-1)
		for now := w.given.Load(); now != settled; now = w.given.Load() { // until nothing moves any more
			settled = now
			time.Sleep(20 * time.Millisecond)
		}
		if most := int64(read + window + 1); settled > most { // one is in the worker's hand
			t.Fatalf("%d tokens were computed when %d were read: want at most %d", settled, read, most)
		}
	}
	<-w.left
}

func TestLeavingCancels(t *testing.T) {
	w := &counting{left: make(chan error, 8)}
	r := dial(t, Config{URL: serveWire(t, w), Kind: Parley})
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
	r := dial(t, Config{URL: serveWire(t, w), Kind: Parley})
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
	r := dial(t, Config{URL: gone, Kind: Parley})
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
	door := &Door{To: w}
	s := &http.Server{Handler: http.HandlerFunc(func(rw http.ResponseWriter, req *http.Request) { _ = door.Serve(rw, req) })}
	go s.Serve(l)
	r = dial(t, Config{URL: "http://" + l.Addr().String(), Kind: Parley})
	n := 0
	for _, err := range r.Generate(t.Context(), &parley.Request{Prompt: []parley.Token{1}, MaxTokens: 1 << 30}) {
		if n++; n == 3 {
			s.Close()
			go door.Close()
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
	r := dial(t, Config{URL: "http://" + l.Addr().String(), Kind: Parley, Silence: 200 * time.Millisecond})
	for _, err := range r.Generate(t.Context(), &parley.Request{Prompt: []parley.Token{1}, MaxTokens: 3}) {
		if parley.CodeOf(err) != parley.Unavailable {
			t.Errorf("a silent worker: %v", err)
		}
	}
}

func TestTheWireNeedsAnUpgrade(t *testing.T) {
	url := serveWire(t, &counting{left: make(chan error, 1)})
	resp, err := http.Get(url + GeneratePath)
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

func Example_promises() {
	fmt.Println(PromisesOf(VLLM).TokenIDs, PromisesOf(Ollama).TokenIDs)
	// Output: true false
}

// TestOneConnectionForAll asks for many answers at once and one after the other,
// and leaves some of them early.
func TestOneConnectionForAll(t *testing.T) {
	w := &counting{left: make(chan error, 1000)}
	r := dial(t, Config{URL: serveWire(t, w), Kind: Parley, Window: 8})
	var all sync.WaitGroup
	for i := range 50 {
		all.Go(func() {
			for n := range 10 {
				next := parley.Token(0)
				for d, err := range r.Generate(t.Context(), &parley.Request{Prompt: []parley.Token{1}, MaxTokens: i + n + 1}) {
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
	l := r.links.now
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
	door := &Door{To: w}
	handle := func(rw http.ResponseWriter, req *http.Request) { _ = door.Serve(rw, req) }
	s := httptest.NewServer(http.HandlerFunc(handle))
	defer s.Close()
	r := dial(t, Config{URL: s.URL, Kind: Parley})
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
		if err := door.Shutdown(t.Context()); err != nil {
			t.Fatal(err)
		}
		for in := r.links.now.open(); in != nil; in = r.links.now.open() { // until the end was heard of
			in.link.drop(in, true)
			time.Sleep(time.Millisecond)
		}
		door = &Door{To: w}
	}
	door.Close()
}

// TestPausedReadersAreNotSilence reads one token and then nothing for longer than
// a worker may be silent: the pause is the reader's own.
func TestPausedReadersAreNotSilence(t *testing.T) {
	w := &counting{left: make(chan error, 8)}
	r := dial(t, Config{URL: serveWire(t, w), Kind: Parley, Window: 4, Silence: 40 * time.Millisecond})
	tokens := 0
	for d, err := range r.Generate(t.Context(), &parley.Request{Prompt: []parley.Token{1}, MaxTokens: 50}) {
		if err != nil {
			t.Fatal(err)
		}
		if tokens == 0 {
			time.Sleep(200 * time.Millisecond)
		}
		tokens += d.Count()
	}
	if tokens != 50 {
		t.Errorf("%d tokens came", tokens)
	}
}

// TestLongThoughtIsNotSilence has a worker that takes longer over its first token
// than it may be silent, and answers pings.
func TestLongThoughtIsNotSilence(t *testing.T) {
	slow := slowWorker{after: 300 * time.Millisecond}
	r := dial(t, Config{URL: serveWire(t, slow), Kind: Parley, Silence: 100 * time.Millisecond})
	for d, err := range r.Generate(t.Context(), &parley.Request{Prompt: []parley.Token{1}, MaxTokens: 1}) {
		if err != nil || d.Usage == nil {
			t.Errorf("%+v, %v", d, err)
		}
	}
}

// A slowWorker answers after a while.
type slowWorker struct{ after time.Duration }

func (slowWorker) Models() []parley.Model { return nil }

func (w slowWorker) Generate(context.Context, *parley.Request) iter.Seq2[parley.Delta, error] {
	return func(yield func(parley.Delta, error) bool) {
		time.Sleep(w.after)
		yield(parley.Delta{Tokens: []parley.Token{1}, Finish: parley.FinishLength, Usage: &parley.Usage{OutputTokens: 1}}, nil)
	}
}

// TestAWorkerThatPanicsFailsItsRequest and nothing else.
func TestAWorkerThatPanicsFailsItsRequest(t *testing.T) {
	r := dial(t, Config{URL: serveWire(t, panicking{}), Kind: Parley})
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
