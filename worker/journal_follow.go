package worker

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"parley"
	"parley/route/kvindex"
)

const (
	// snapshotMax bounds a snapshot: 8 bytes for each block, of half a billion tokens.
	snapshotMax = 256 << 20
	// batchMax bounds one batch of a stream.
	batchMax = 64 << 20
)

// errSilent ends a stream of events whose worker is silent.
var errSilent = errors.New("no event or heartbeat came")

// A journalReader reports a Parley worker's events to a listener, over the same keyed
// HTTP as everything else. It keeps its position, so that a new connection continues
// where the last one ended; where that is not possible it takes a snapshot.
type journalReader struct {
	remote   *Remote
	to       Listener
	instance string // of the process that next counts in; empty before the first snapshot
	next     uint64 // the number of the batch that is expected
}

// follow reads one connection until it ends.
func (f *journalReader) follow(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	silence := max(f.remote.cfg.Silence, 5*journalHeartbeat)
	watch := time.AfterFunc(silence, func() { cancel(errSilent) })
	defer watch.Stop()
	stream, err := f.open(ctx)
	if err != nil {
		return err
	}
	defer stream.Body.Close()
	f.to.Connected()
	in := bufio.NewReaderSize(stream.Body, journalPiece)
	var room []byte
	for {
		body, err := readFramed(in, &room)
		if err != nil {
			if cause := context.Cause(ctx); cause != nil {
				err = cause
			}
			return err
		}
		watch.Reset(silence)
		if err := f.take(ctx, body); err != nil {
			return err
		}
	}
}

// open has the worker send its events from the position on. A worker that cannot,
// because it is another process or keeps them no longer, is asked for a snapshot first.
func (f *journalReader) open(ctx context.Context) (*http.Response, error) {
	if f.instance != "" {
		resp, err := f.events(ctx)
		if parley.CodeOf(err) != parley.Conflict {
			return resp, err
		}
	}
	if err := f.restore(ctx); err != nil {
		return nil, err
	}
	return f.events(ctx)
}

func (f *journalReader) events(ctx context.Context) (*http.Response, error) {
	query := url.Values{"instance": {f.instance}, "from": {strconv.FormatUint(f.next, 10)}}
	return f.remote.send(ctx, EventsPath+"?"+query.Encode(), nil)
}

// take gives the listener a batch. An empty body is a sign of life, at which the
// listener is asked whether it misses something.
func (f *journalReader) take(ctx context.Context, body []byte) error {
	if len(body) == 0 {
		return f.satisfy(ctx, f.to.Wants())
	}
	b, err := readEvents(body)
	if err != nil {
		return f.remote.garbled(ctx, err)
	}
	switch {
	case b.Seq < f.next: // the snapshot has it
		return nil
	case b.Seq > f.next:
		return fmt.Errorf("got batch %d, expected %d", b.Seq, f.next)
	}
	f.next++
	return f.satisfy(ctx, f.to.Batch(b))
}

// satisfy gives the listener what it asks for. The stream has no holes, so that an
// answer to every question is all that the worker holds.
func (f *journalReader) satisfy(ctx context.Context, want kvindex.Ask) error {
	if want == (kvindex.Ask{}) {
		return nil
	}
	return f.restore(ctx)
}

// restore takes a snapshot and continues from it.
func (f *journalReader) restore(ctx context.Context) error {
	instance, b, err := f.remote.snapshot(ctx)
	if err != nil {
		return err
	}
	f.instance, f.next = instance, b.Seq+1
	f.to.Snapshot(b.Seq, slices.Values(b.Events))
	return nil
}

// readFramed reads a body after its length, into room where it fits.
func readFramed(from io.Reader, room *[]byte) ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(from, head[:]); err != nil {
		return nil, err
	}
	size := int(binary.BigEndian.Uint32(head[:]))
	if size > batchMax {
		return nil, fmt.Errorf("%w: a batch of %d bytes", errEvents, size)
	}
	body := (*room)[:0]
	for len(body) < size { // memory is taken as bytes come and not as they are announced
		at := len(body)
		body = slices.Grow(body, min(size-at, journalPiece))[:min(size, at+journalPiece)]
		if _, err := io.ReadFull(from, body[at:]); err != nil {
			return nil, errors.Join(err, io.ErrUnexpectedEOF)
		}
	}
	*room = body
	return body, nil
}

// Snapshot asks a Parley worker for everything it holds after batch seq.
func (r *Remote) Snapshot(ctx context.Context) (seq uint64, events []kvindex.Event, err error) {
	if !PromisesOf(r.cfg.Kind).Snapshot {
		return 0, nil, parley.Errorf(parley.InvalidRequest, "workers of the kind %s have no snapshots", r.cfg.Kind)
	}
	_, b, err := r.snapshot(ctx)
	return b.Seq, b.Events, err
}

// snapshot returns the process that answered, too.
func (r *Remote) snapshot(ctx context.Context) (instance string, b kvindex.Batch, err error) {
	resp, err := r.send(ctx, SnapshotPath, nil)
	if err != nil {
		return "", b, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, snapshotMax+1))
	if err != nil {
		return "", b, r.unreachable(ctx, err)
	}
	if len(body) > snapshotMax {
		return "", b, parley.Errorf(parley.Unavailable, "the snapshot of worker %s exceeds %d bytes", r.cfg.URL,
			snapshotMax)
	}
	if b, err = readEvents(body); err != nil {
		return "", b, r.garbled(ctx, err)
	}
	return resp.Header.Get(InstanceHeader), b, nil
}
