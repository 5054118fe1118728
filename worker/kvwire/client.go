package kvwire

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strconv"
	"strings"

	"parley"
)

// A Client fetches blocks from other workers.
type Client struct {
	// HTTP connects to them.
	HTTP *http.Client
	Config

	gate gate
}

// A Config says how a [Client] fetches.
type Config struct {
	// ShareFrom is from how many bytes on blocks come through shared memory from workers on this host, where
	// the system can; 0 means never.
	ShareFrom int64
	// Streams is in how many streams a fetch over TCP comes at most; 0 means one for every two processors, and
	// no more than [StreamsMax]. StreamFrom is how many bytes each has at least if there are several; 0 means 8 MiB.
	Streams    int
	StreamFrom int64
}

// A Fetch is what is wanted of another worker.
type Fetch struct {
	// URL is where it listens, Ticket the right to read its blocks; see [Sign].
	URL, Ticket string
	Format      Format
	// Names are those of the blocks, in order.
	Names []parley.BlockHash
	// Put takes the next blocks as they come, large ones in pieces. It must not use them after it
	// has returned without an error.
	Put func(ctx context.Context, pieces ...[]byte) error
	// Request is the id of a request that computes them there; empty if none does.
	Request string
	// Shared is set by [Client.Run] if blocks came through shared memory.
	Shared bool
}

// A MissError says why blocks could not be fetched. Reason is one of a few words.
type MissError struct {
	Reason string
	Err    error
}

// Error returns reason and cause.
func (e *MissError) Error() string { return e.Reason + ": " + e.Err.Error() }

// Unwrap returns the cause.
func (e *MissError) Unwrap() error { return e.Err }

// InFlight returns how many bytes of buffers are held.
func (c *Client) InFlight() int64 { return c.gate.bytes() }

// Run fetches blocks until all have come, ctx ends or something fails. It returns how
// many were taken, which are of use in any case, and a [*MissError] if that is not all.
func (c *Client) Run(ctx context.Context, f *Fetch) (blocks int, err error) {
	size := bufferSize(f.Format.BlockBytes, len(f.Names))
	if err := c.gate.enter(ctx, 2*size); err != nil {
		if ctx.Err() != nil && !errors.Is(err, context.DeadlineExceeded) {
			return 0, &MissError{"cancelled", err}
		}
		return 0, &MissError{"busy", fmt.Errorf("this worker fetches %d prompts already: %w", Fetches, err)}
	}
	defer c.gate.leave(2 * size)
	blocks, err = c.run(ctx, f, size)
	if err != nil {
		err = &MissError{reasonOf(ctx, err), err}
	}
	return blocks, err
}

func (c *Client) run(ctx context.Context, f *Fetch, size int) (blocks int, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	bytes := int64(len(f.Names)) * int64(f.Format.BlockBytes)
	ask := Ask{Format: f.Format, Names: packNames(f.Names), Request: f.Request}
	if ask.Streams = c.streamsOf(bytes); ask.Streams > 1 {
		ask.Fetch = newFetchID()
	}
	first := receiver{names: f.Names, place: cursor{block: f.Format.BlockBytes}}
	if c.ShareFrom > 0 && bytes >= c.ShareFrom {
		first.from.offer = newOffer(sharedBuffers * size)
		defer first.from.offer.close()
		ask.Shared = first.from.offer.meeting()
	}
	resp, err := c.open(ctx, f, &ask)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	first.from.Reader = resp.Body
	ask.Shared, ask.Streams = nil, streamsGranted(resp, ask.Streams)
	m := newMerge(f.Format.BlockBytes, len(f.Names), ask.Streams, 2*size)
	first.to, first.names = m.streams[0], partOf(f.Names, 0, ask.Streams)
	m.begin(func() error { return first.next(ctx) }, ask.Streams > 1 || readsAhead())
	for i := 1; i < ask.Streams; i++ {
		m.receive(i, func() error { return c.receiveOther(ctx, f, ask, i, m.streams[i]) })
	}
	blocks, err = m.take(ctx, cancel, f.Put)
	f.Shared = first.from.shared != nil
	return blocks, err
}

// receiveOther asks for another stream than the first, and reads it.
func (c *Client) receiveOther(ctx context.Context, f *Fetch, ask Ask, stream int, to *arrivals) error {
	ask.Stream = stream
	resp, err := c.open(ctx, f, &ask)
	if answer, ok := errors.AsType[*statusError](err); ok && answer.status == http.StatusBadRequest {
		return fmt.Errorf("%w: %w", io.ErrUnexpectedEOF, err) // the first stream has ended before its time
	} else if err != nil {
		return err
	}
	defer resp.Body.Close()
	r := receiver{
		from:  source{Reader: resp.Body},
		to:    to,
		names: partOf(f.Names, stream, ask.Streams),
		place: cursor{block: f.Format.BlockBytes},
	}
	for err == nil {
		err = r.next(ctx)
	}
	return err
}

// streamsOf returns in how many streams a number of bytes comes over TCP at most. A stream keeps about one
// processor busy, and engines need processors, too.
func (c *Config) streamsOf(bytes int64) int {
	most := int64(cmp.Or(c.Streams, runtime.GOMAXPROCS(0)/2))
	return int(max(1, min(most, StreamsMax, bytes/cmp.Or(c.StreamFrom, streamFrom))))
}

// newFetchID returns a name that other workers cannot guess.
func newFetchID() string {
	random := make([]byte, secretBytes)
	_, _ = rand.Read(random) // never fails
	return base64.RawURLEncoding.EncodeToString(random)
}

// streamsGranted returns the number of streams that the giving side has answered the first one with.
func streamsGranted(resp *http.Response, asked int) int {
	n, err := strconv.Atoi(resp.Header.Get(headerStreams))
	if err != nil || n < 1 || n > asked {
		return 1
	}
	return n
}

// open asks for a stream of blocks.
func (c *Client) open(ctx context.Context, f *Fetch, ask *Ask) (*http.Response, error) {
	body, err := json.Marshal(ask)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimRight(f.URL, "/")+Path,
		bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	if f.Ticket != "" {
		req.Header.Set("Authorization", Scheme+f.Ticket)
	}
	resp, err := c.HTTP.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		defer resp.Body.Close()
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<10))
		return nil, &statusError{resp.StatusCode, strings.TrimSpace(string(text))}
	}
	return resp, nil
}

// A statusError is an answer that is not a stream of blocks.
type statusError struct {
	status int
	text   string
}

func (e *statusError) Error() string { return fmt.Sprintf("status %d: %s", e.status, e.text) }

// reasonOf returns in a few words why a fetch failed.
func reasonOf(ctx context.Context, err error) string {
	answer, answered := errors.AsType[*statusError](err)
	_, put := errors.AsType[*putError](err)
	switch {
	case errors.Is(context.Cause(ctx), context.DeadlineExceeded):
		return "too slow"
	case ctx.Err() != nil:
		return "cancelled"
	case put:
		return "no room"
	case errors.Is(err, errGone):
		return "gone"
	case errors.Is(err, errDamaged), errors.Is(err, errMalformed):
		return "damaged"
	case errors.Is(err, io.ErrUnexpectedEOF):
		return "cut off"
	case !answered:
		return "unreachable"
	case answer.status == http.StatusConflict:
		return "incompatible"
	case answer.status == http.StatusTooManyRequests:
		return "busy"
	}
	return "refused"
}
