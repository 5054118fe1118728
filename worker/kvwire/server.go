package kvwire

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"net/http"
	"strconv"
	"time"

	"parley"
)

const (
	// Path is the route of a worker that gives blocks.
	Path = "/parley/v1/blocks"
	// bufferBytes is how many bytes of blocks are read at once at most.
	bufferBytes = 4 << 20
	// askMax bounds the body of a request: the names of some million tokens.
	askMax = 8 << 20
	// ioBytes is the buffer that heads of frames are read through. Payloads are read past it,
	// but for what comes with a head.
	ioBytes = 16 << 10
)

// An Ask is what a worker wants of another one.
type Ask struct {
	Format Format `json:"format"`
	// Names are those of blocks that follow each other, one after the other.
	Names []byte `json:"names"`
	// Request is the id of a request that computes those which are not held yet; empty if
	// none does.
	Request string `json:"request,omitempty"`
	// Shared is where a worker on the same host gets memory to write blocks to; nil if there is none.
	Shared *Rendezvous `json:"shared,omitempty"`
	// Streams is in how many streams the blocks are wanted at most, Stream which of them this is, from 0, and
	// Fetch an id that all of them have in common. Without Streams there is one.
	Streams int    `json:"streams,omitempty"`
	Stream  int    `json:"stream,omitempty"`
	Fetch   string `json:"fetch,omitempty"`
}

// names returns the names as such.
func (a *Ask) names() ([]parley.BlockHash, error) {
	const size = len(parley.BlockHash{})
	if len(a.Names) == 0 || len(a.Names)%size != 0 {
		return nil, parley.Invalid("names", "%d bytes are not the names of blocks: each has %d", len(a.Names), size)
	}
	names := make([]parley.BlockHash, len(a.Names)/size)
	for i := range names {
		copy(names[i][:], a.Names[i*size:])
	}
	return names, nil
}

// packNames returns names as they travel.
func packNames(names []parley.BlockHash) (packed []byte) {
	for i := range names {
		packed = append(packed, names[i][:]...)
	}
	return packed
}

// A Holder is where blocks of this process are read from. Read copies leading blocks of
// names into room, of the first one what follows an offset, and returns how many bytes. When it
// has returned it does not use room any more, not even after an error.
//
// Follow reports whether a request runs, and returns what is closed when blocks may have
// been computed after the call or the request may have ended; nil if that is not known.
type Holder struct {
	Format Format
	Read   func(ctx context.Context, names []parley.BlockHash, at int, room []byte) (int, error)
	Follow func(request string) (changed <-chan struct{}, running bool)
}

// A Server gives blocks to other workers. The zero value is ready.
type Server struct {
	gate    gate
	fetches runningFetches
}

// A Delivery is what a stream of a fetch was answered with.
type Delivery struct {
	// Stream is its number; a fetch is counted by its first one, 0.
	Stream int
	Blocks int
	Bytes  int64
	// Shared: they went through shared memory.
	Shared bool
	// Miss says why it ended early; empty if it did not.
	Miss string
}

// InFlight returns how many bytes of buffers are held.
func (s *Server) InFlight() int64 { return s.gate.bytes() }

// Serve answers one stream of a fetch. An error is one that the client can still be told of.
func (s *Server) Serve(w http.ResponseWriter, r *http.Request, from Holder) (Delivery, error) {
	var ask Ask
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, askMax)) // to its end: only then is a hang-up noticed
	if err == nil {
		err = json.Unmarshal(body, &ask)
	}
	if err != nil {
		return Delivery{Miss: "malformed"},
			parley.Errorf(parley.InvalidRequest, "the body is not a request for blocks: %v", err)
	}
	names, err := ask.names()
	if err != nil {
		return Delivery{Miss: "malformed"}, err
	}
	var sent Delivery
	if what := from.Format.Difference(&ask.Format); what != "" {
		sent.Miss = "incompatible"
		err = parley.Errorf(parley.Conflict, "the workers differ in their %s", what)
	} else if ask.Stream == 0 {
		sent, err = s.serveFirst(w, r, from, &ask, names)
	} else {
		sent, err = s.serveOther(w, r, from, &ask, names)
	}
	sent.Stream = ask.Stream
	return sent, err
}

// serveFirst answers the first stream of a fetch, which has a place at the gate until all of them have ended.
func (s *Server) serveFirst(w http.ResponseWriter, r *http.Request, from Holder, ask *Ask,
	names []parley.BlockHash) (Delivery, error) {
	size := bufferSize(from.Format.BlockBytes, len(names))
	if err := s.gate.enter(r.Context(), 2*size); errors.Is(err, errBusy) {
		return Delivery{Miss: "busy"},
			parley.Errorf(parley.Overloaded, "this worker gives blocks to %d others, and %d wait", Fetches, Waits)
	} else if err != nil {
		return Delivery{Miss: "left"}, nil
	}
	defer s.gate.leave(2 * size)
	shared, err := ask.Shared.meet(r.Context(), sharedBuffers*size)
	if err != nil {
		return Delivery{Miss: "malformed"}, parley.Errorf(parley.InvalidRequest, "%v", err)
	}
	defer shared.close()
	to := &patientWriter{to: w, control: http.NewResponseController(w), shared: shared}
	if shared != nil {
		ask.Streams = 1
	}
	if others := s.fetches.begin(ask.Fetch, ask.Streams); others == nil {
		ask.Streams = 1
	} else {
		defer func() {
			_ = to.control.Flush() // if blocks are gone, the other streams run in vain
			s.fetches.end(r.Context(), ask.Fetch, others)
			_ = to.extend() // for the end of the answer
		}()
	}
	w.Header().Set(headerStreams, strconv.Itoa(ask.Streams))
	return give(r.Context(), to, from, ask, names, size, readsAhead()), nil
}

// serveOther answers another stream of a fetch whose first one runs.
func (s *Server) serveOther(w http.ResponseWriter, r *http.Request, from Holder, ask *Ask,
	names []parley.BlockHash) (Delivery, error) {
	end, ok := s.fetches.join(ask.Fetch, ask.Stream, ask.Streams)
	if !ok {
		return Delivery{Miss: "malformed"}, parley.Invalid("stream",
			"stream %d of %d is not one that a running fetch still waits for", ask.Stream, ask.Streams)
	}
	defer end()
	to := &patientWriter{to: w, control: http.NewResponseController(w)}
	size := bufferSize(from.Format.BlockBytes, len(names))
	return give(r.Context(), to, from, ask, names, size, readsAhead()), nil
}

// give sends the blocks of a stream. size is that of the buffers of all streams together.
func give(ctx context.Context, to *patientWriter, from Holder, ask *Ask, names []parley.BlockHash, size int,
	ahead bool) Delivery {
	to.to.Header().Set("Content-Type", "application/octet-stream")
	names = partOf(names, ask.Stream, ask.Streams)
	return stream(ctx, to, &reader{Holder: from, request: ask.Request}, names, size/ask.Streams, ahead)
}

// bufferSize is how large the buffers of a fetch are.
func bufferSize(blockBytes, blocks int) int {
	return min(bufferBytes, blockBytes*max(1, min(blocks, bufferBytes/blockBytes)))
}

// A batch is a buffer with the next pieces of blocks, and their checksums.
type batch struct {
	sums []uint32
	room []byte
}

// stream sends blocks. If it reads ahead, the next ones are read meanwhile.
func stream(ctx context.Context, to *patientWriter, from *reader, names []parley.BlockHash, size int,
	ahead bool) (sent Delivery) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	free := make(chan []byte, sharedBuffers)
	for i, room := range to.shared.rooms() {
		if i == 0 || ahead || to.shared != nil { // memory that was just written from is in the processor's cache
			free <- room
		}
	}
	batches := fill(ctx, from, names, batching{block: from.Format.BlockBytes, most: size}, free)
	if ahead {
		batches = readAhead(cancel, batches)
	}
	sent.Shared = to.shared != nil
	place := cursor{block: from.Format.BlockBytes}
	var unread []byte // memory that the other side may still read
	for f := range batches {
		if to.batch(&f, &place, &sent) != nil || unread != nil && to.shared.awaitRead() != nil {
			sent.Miss = "left"
			return sent
		}
		if to.shared == nil {
			free <- f.room
			continue
		}
		if unread != nil {
			free <- unread
		}
		unread = f.room
	}
	reason := endWhole
	if sent.Blocks < len(names) {
		reason, sent.Miss = endGone, "gone"
	}
	if ctx.Err() != nil || writeEnd(to, reason) != nil {
		sent.Miss = "left"
	}
	return sent
}

// fill reads blocks into free buffers until there are no more or ctx ends. It computes their checksums, too.
func fill(ctx context.Context, from *reader, names []parley.BlockHash, p batching, free <-chan []byte) iter.Seq[batch] {
	return func(yield func(batch) bool) {
		for place := (cursor{block: from.Format.BlockBytes}); place.number < len(names); {
			var room []byte
			select {
			case room = <-free:
			case <-ctx.Done():
				return
			}
			if room = room[:cap(room)]; len(room) < p.size() {
				room = make([]byte, p.size())
			}
			room = room[:place.span(p.size())]
			n, took, err := from.next(ctx, names[place.number:], place.at, room)
			if n = place.span(n); err != nil || n == 0 {
				return
			}
			p.read(n, took)
			if !yield(batch{place.sums(names, room[:n]), room}) {
				return
			}
		}
	}
}

// readAhead has a goroutine compute the next element while one is used. A caller that leaves the loop stops it.
func readAhead[T any](stop func(), all iter.Seq[T]) iter.Seq[T] {
	return func(yield func(T) bool) {
		ready, left := make(chan T), make(chan struct{})
		go func() {
			defer close(ready)
			all(func(x T) bool {
				select {
				case ready <- x:
					return true
				case <-left:
					return false
				}
			})
		}()
		whole := false
		defer func() {
			if !whole {
				stop()
			}
			close(left)
			for range ready { // until the goroutine has ended
			}
		}()
		for x := range ready {
			if !yield(x) {
				return
			}
		}
		whole = true
	}
}

// A patientWriter gives the client stallMax for each write.
type patientWriter struct {
	to      http.ResponseWriter
	control *http.ResponseController
	shared  *sharedWriter // has the payloads of blocks; nil if they are written
}

// batch writes the frames of the next pieces, and counts them.
func (p *patientWriter) batch(f *batch, place *cursor, sent *Delivery) error {
	data := f.room
	for i, sum := range f.sums {
		piece := place.piece()
		kind := kindBlock
		if p.shared != nil && i == len(f.sums)-1 {
			kind = kindLast
		} else if p.shared != nil {
			kind = kindShared
		}
		if err := writeBlock(p, kind, sum, data[:piece]); err != nil {
			return err
		}
		data = data[piece:]
		place.pass()
		sent.Blocks = place.number
		sent.Bytes += int64(piece)
	}
	return p.control.Flush()
}

// extend gives the client stallMax for the next write.
func (p *patientWriter) extend() error {
	err := p.control.SetWriteDeadline(time.Now().Add(stallMax))
	if errors.Is(err, http.ErrNotSupported) {
		return nil
	}
	return err
}

func (p *patientWriter) Write(b []byte) (int, error) {
	if err := p.extend(); err != nil {
		return 0, err
	}
	return p.to.Write(b)
}
