package worker

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net"
	"net/http"
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
func serveWire(t *testing.T, to parley.Worker) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := new(http.Protocols)
	p.SetHTTP1(true)
	p.SetUnencryptedHTTP2(true)
	s := &http.Server{Protocols: p, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := ServeGenerate(w, r, to); err != nil {
			w.WriteHeader(http.StatusBadRequest)
			_, _ = w.Write(RefusalBody(err))
		}
	})}
	go s.Serve(l)
	t.Cleanup(func() { s.Close() })
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
	for _, err := range r.Generate(t.Context(), &parley.Request{Prompt: []parley.Token{1}, MaxTokens: 1 << 20}) {
		if err != nil {
			t.Fatal(err)
		}
		if read++; read == 5 {
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
	p := new(http.Protocols)
	p.SetUnencryptedHTTP2(true)
	l, err = net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Protocols: p, Handler: http.HandlerFunc(func(rw http.ResponseWriter, req *http.Request) { _ = ServeGenerate(rw, req, w) })}
	go s.Serve(l)
	r = dial(t, Config{URL: "http://" + l.Addr().String(), Kind: Parley})
	n := 0
	for _, err := range r.Generate(t.Context(), &parley.Request{Prompt: []parley.Token{1}, MaxTokens: 1 << 30}) {
		if n++; n == 3 {
			s.Close()
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

func TestOldHTTPIsRefused(t *testing.T) {
	url := serveWire(t, &counting{left: make(chan error, 1)})
	resp, err := http.Post(url+GeneratePath, "application/json", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	http.DefaultClient.CloseIdleConnections()
	if resp.StatusCode != http.StatusBadRequest {
		t.Errorf("HTTP/1.1 was answered with %s", resp.Status)
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
		c.mu.Lock()
		c.left += 3
		c.mu.Unlock()
		c.more <- struct{}{}
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
