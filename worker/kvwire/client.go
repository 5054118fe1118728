package kvwire

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"parley"
)

// A Client fetches blocks from other workers.
type Client struct {
	// HTTP connects to them.
	HTTP *http.Client
	// ShareFrom is from how many bytes on blocks come through shared memory from workers on this host, where
	// the system can; 0 means never.
	ShareFrom int64

	gate gate
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
		if errors.Is(ctx.Err(), context.Canceled) {
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
	var from source
	if bytes := int64(len(f.Names)) * int64(f.Format.BlockBytes); c.ShareFrom > 0 && bytes >= c.ShareFrom {
		from.offer = newOffer(sharedBuffers * size)
		defer from.offer.close()
	}
	resp, err := c.open(ctx, f, from.offer.meeting())
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	from.Reader = resp.Body
	blocks, err = take(ctx, cancel, &from, f, newArrivals(f.Format.BlockBytes, 2*size))
	f.Shared = from.shared != nil
	return blocks, err
}

// take verifies blocks and passes them on while the next ones are read.
func take(ctx context.Context, cancel context.CancelFunc, from *source, f *Fetch,
	a *arrivals) (blocks int, err error) {
	read := make(chan struct{})
	go func() {
		defer close(read)
		a.close(receive(ctx, from, f, a))
	}()
	defer func() {
		cancel()
		<-read // it wrote to the blocks
	}()
	place := cursor{block: f.Format.BlockBytes}
	for came, sums := a.take(); len(came) > 0; came, sums = a.take() {
		sound := 0
		for sound < len(came) && sumOf(&f.Names[place.number], place.at, came[sound]) == sums[sound] {
			place.pass()
			sound++
		}
		if sound > 0 {
			if err := f.Put(ctx, came[:sound]...); err != nil {
				return blocks, &putError{err}
			}
		}
		if blocks = place.number; sound < len(came) {
			return blocks, errDamaged
		}
		a.free(came)
	}
	return blocks, a.end
}

// A putError is one of [Fetch.Put].
type putError struct{ error }

func (e *putError) Unwrap() error { return e.error }

// open asks for the blocks.
func (c *Client) open(ctx context.Context, f *Fetch, shared *Meeting) (*http.Response, error) {
	body, err := json.Marshal(Ask{Format: f.Format, Names: packNames(f.Names), Request: f.Request, Shared: shared})
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

// receive reads blocks.
func receive(ctx context.Context, from *source, f *Fetch, to *arrivals) error {
	for place := (cursor{block: f.Format.BlockBytes}); place.number < len(f.Names); place.pass() {
		room, err := to.room(ctx)
		if err != nil {
			return err
		}
		room = room[:place.piece()]
		sum, err := from.readBlock(room)
		if err != nil {
			return err
		}
		to.add(room, sum)
	}
	return readEnd(from)
}

// reasonOf returns in a few words why a fetch failed.
func reasonOf(ctx context.Context, err error) string {
	answer, answered := errors.AsType[*statusError](err)
	_, put := errors.AsType[*putError](err)
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
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
