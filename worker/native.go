package worker

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"time"

	"parley"
)

// native has a Parley worker answer q.
func (r *Remote) native(ctx context.Context, q *parley.Request, yield func(parley.Delta, error) bool) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	body, err := newAcks(newCall(q, r.cfg.Window, time.Now()))
	if err != nil {
		yield(parley.Delta{}, err)
		return
	}
	defer body.Close()
	req, err := r.request(ctx, http.MethodPost, GeneratePath, body)
	if err != nil {
		yield(parley.Delta{}, err)
		return
	}
	resp, err := r.client.Do(req)
	if err != nil {
		yield(parley.Delta{}, r.unreachable(ctx, err))
		return
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		yield(parley.Delta{}, r.refusal(resp))
		return
	}
	r.readFrames(ctx, resp.Body, body, yield)
}

// readFrames yields the deltas of an answer and acknowledges them.
func (r *Remote) readFrames(ctx context.Context, from io.Reader, acks *acks, yield func(parley.Delta, error) bool) {
	lines, room := bufio.NewReader(from), []byte(nil)
	for {
		line, err := readLine(lines, lineMax, &room)
		if err != nil {
			yield(parley.Delta{}, r.unreachable(ctx, err))
			return
		}
		f, err := parseFrame(line)
		if err != nil {
			yield(parley.Delta{}, parley.Errorf(parley.Unavailable, "worker %s gave an answer that is not understood: %v", r.cfg.URL, err))
			return
		}
		if f.Error != nil {
			yield(parley.Delta{}, f.Error.err())
			return
		}
		if !yield(*f.Delta, nil) || f.Delta.Usage != nil {
			return
		}
		acks.add(cost(f.Delta))
	}
}

// acks is the body of a request on our wire: the request, and then how much of
// the answer was read, as it is.
type acks struct {
	mu     sync.Mutex
	more   sync.Cond
	first  []byte // what is left of the request's line
	read   int    // tokens not acknowledged yet
	least  int    // that many are acknowledged at once
	closed bool
}

func newAcks(c *call) (*acks, error) {
	line, err := json.Marshal(c)
	if err != nil {
		return nil, parley.Errorf(parley.InvalidRequest, "the request cannot be sent: %v", err)
	}
	a := &acks{first: append(line, '\n'), least: max(1, c.Window/4)}
	a.more.L = &a.mu
	return a, nil
}

// add notes that tokens were read.
func (a *acks) add(tokens int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.read += tokens
	if a.read >= a.least {
		a.more.Signal()
	}
}

// Read gives the transport what is to be sent, when there is something.
func (a *acks) Read(p []byte) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for len(a.first) == 0 && a.read < a.least && !a.closed {
		a.more.Wait()
	}
	if a.closed {
		return 0, io.EOF
	}
	if len(a.first) == 0 {
		a.first = append(strconv.AppendInt(nil, int64(a.read), 10), '\n')
		a.read = 0
	}
	n := copy(p, a.first)
	a.first = a.first[n:]
	return n, nil
}

// Close ends the body.
func (a *acks) Close() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.closed = true
	a.more.Broadcast()
	return nil
}

// ServeGenerate answers one request of our wire with a worker. The route needs
// HTTP/2, in which both sides speak at once and one stream ends without its
// connection.
func ServeGenerate(w http.ResponseWriter, r *http.Request, to parley.Worker) error {
	if r.ProtoMajor < 2 {
		return &parley.Error{Code: parley.InvalidRequest, Message: "this route needs HTTP/2, in clear text with prior knowledge or over TLS"}
	}
	lines, room := bufio.NewReader(r.Body), []byte(nil)
	line, err := readLine(lines, lineMax, &room)
	if err != nil {
		return parley.Errorf(parley.InvalidRequest, "the request could not be read: %v", err)
	}
	c, err := parseCall(line)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	window := newCredit(c.Window)
	var reading sync.WaitGroup
	reading.Go(func() { window.refill(lines, cancel) })
	defer reading.Wait()
	defer r.Body.Close() // lets the reader go
	w.Header().Set("Content-Type", "application/x-ndjson")
	return writeFrames(ctx, w, window, c.request(time.Now()), to)
}

// writeFrames streams an answer as far as the window allows.
func writeFrames(ctx context.Context, w http.ResponseWriter, window *credit, q *parley.Request, to parley.Worker) error {
	out := http.NewResponseController(w)
	if err := out.Flush(); err != nil { // so that the client knows it was taken
		return err
	}
	var room []byte
	send := func(f *frame) (err error) {
		if room, err = appendFrame(room[:0], f); err == nil {
			_, err = w.Write(room)
		}
		return errors.Join(err, out.Flush())
	}
	for d, err := range to.Generate(ctx, q) {
		if err != nil {
			return errors.Join(send(&frame{Error: faultOf(err)}), internal(err))
		}
		if err := window.take(ctx, cost(&d)); err != nil {
			return nil // the client has left
		}
		if err := send(&frame{Delta: &d}); err != nil {
			return nil
		}
	}
	return nil
}

// internal returns the error if it is one of ours, for the log.
func internal(err error) error {
	if parley.CodeOf(err) == parley.Internal {
		return err
	}
	return nil
}

// A credit is how many tokens may still be sent.
type credit struct {
	mu   sync.Mutex
	left int
	more chan struct{}
}

func newCredit(window int) *credit { return &credit{left: window, more: make(chan struct{}, 1)} }

// take waits until something may be sent. A delta of several tokens may go over
// the window, and the next one waits for it.
func (c *credit) take(ctx context.Context, tokens int) error {
	for {
		c.mu.Lock()
		if c.left > 0 {
			c.left -= tokens
			c.mu.Unlock()
			return nil
		}
		c.mu.Unlock()
		select {
		case <-c.more:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// refill reads acknowledgements until the client ends them. A client that sends
// anything else, or goes away, ends the request.
func (c *credit) refill(from *bufio.Reader, cancel context.CancelCauseFunc) {
	var room []byte
	for {
		line, err := readLine(from, 32, &room)
		if err != nil {
			cancel(fmt.Errorf("the client left: %w", err))
			return
		}
		n, err := parseAck(line)
		if err != nil {
			cancel(fmt.Errorf("%q acknowledges nothing", line))
			return
		}
		c.mu.Lock()
		c.left += n
		c.mu.Unlock()
		select {
		case c.more <- struct{}{}:
		default:
		}
	}
}
