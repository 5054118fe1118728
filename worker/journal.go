package worker

import (
	"encoding/binary"
	"errors"
	"net/http"
	"strconv"
	"sync"
	"time"

	"parley"
	"parley/route/kvindex"
)

// A Journal keeps the latest batches of a cache's events, numbered from 1, for readers
// in this process and, through [Journal.Serve], for gateways. Every reader has its own
// pace: the engine never waits for one, and a reader that falls behind by more batches
// than are kept must take a snapshot.
//
// Events name blocks by their keys and carry no tokens: a gateway knows the keys of the
// prompts it sends, and a key does not show what was in a block.
type Journal struct {
	mu      sync.Mutex
	kept    []kvindex.Batch // batch n is at n % len
	next    uint64          // number of the next batch
	more    chan struct{}   // closed and replaced when there is one
	ended   chan struct{}   // closed by Close
	streams int             // gateways that read
}

const (
	// JournalKept is how many batches a worker keeps for gateways that connect again.
	// There is at most one batch for each step of the engine.
	JournalKept = 10_000
	// journalStreamsMax bounds the gateways that read at once.
	journalStreamsMax = 64
	// journalHeartbeat is how often a stream without events shows that it is alive.
	journalHeartbeat = time.Second
	// journalWriteMax is how long a gateway may take to accept what is written.
	journalWriteMax = 30 * time.Second
	// journalPiece is how much is encoded before it is written.
	journalPiece = 64 << 10
)

// InstanceHeader names the process that wrote a snapshot or a stream of events: batch
// numbers of another process mean nothing.
const InstanceHeader = "Parley-Instance"

// NewJournal returns a journal that keeps the latest keep batches.
func NewJournal(keep int) *Journal {
	j := &Journal{kept: make([]kvindex.Batch, keep), next: 1}
	j.more, j.ended = make(chan struct{}), make(chan struct{})
	return j
}

// Append adds a batch. The journal owns the events from now on.
func (j *Journal) Append(events []kvindex.Event) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.kept[j.next%uint64(len(j.kept))] = kvindex.Batch{Seq: j.next, Events: events}
	j.next++
	close(j.more)
	j.more = make(chan struct{})
}

// Seq returns the number of the latest batch, 0 if there is none.
func (j *Journal) Seq() uint64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.next - 1
}

// From returns batch n if it is there. If it is no longer kept, lost is set; if it does
// not exist yet, more is closed when it may.
func (j *Journal) From(n uint64) (b kvindex.Batch, is, lost bool, more <-chan struct{}) {
	j.mu.Lock()
	defer j.mu.Unlock()
	switch keep := uint64(len(j.kept)); {
	case n >= j.next:
		return b, false, false, j.more
	case n == 0 || n+keep < j.next:
		return b, false, true, nil
	default:
		return j.kept[n%keep], true, false, nil
	}
}

// Close ends all streams.
func (j *Journal) Close() {
	j.mu.Lock()
	defer j.mu.Unlock()
	select {
	case <-j.ended:
	default:
		close(j.ended)
	}
}

// Readers returns how many gateways read.
func (j *Journal) Readers() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.streams
}

// enter counts a stream, or reports false if there are too many.
func (j *Journal) enter() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.streams >= journalStreamsMax {
		return false
	}
	j.streams++
	return true
}

func (j *Journal) leave() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.streams--
}

// Serve streams batches from the number in the query's "from" on until the gateway
// leaves. The query's "instance" must be this process. If it is not, or the batches are
// no longer kept, the error has the code [parley.Conflict]: the gateway takes a
// snapshot and continues from there.
func (j *Journal) Serve(w http.ResponseWriter, r *http.Request, instance string) error {
	from, err := strconv.ParseUint(r.URL.Query().Get("from"), 10, 64)
	if err != nil {
		return parley.Invalid("from", "it must be the number of a batch of events")
	}
	_, _, lost, _ := j.From(from)
	if named := r.URL.Query().Get("instance"); lost || named != instance || from > j.Seq()+1 {
		return parley.Errorf(parley.Conflict,
			"batch %d of process %.64q is no longer stored: GET %s, and continue from there", from, named, SnapshotPath)
	}
	if !j.enter() {
		return parley.Errorf(parley.Overloaded, "the limit of %d event readers is reached", journalStreamsMax)
	}
	defer j.leave()
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set(InstanceHeader, instance)
	s := journalStream{
		journal: j,
		request: r,
		to:      w,
		control: http.NewResponseController(w),
		next:    from,
	}
	return s.run()
}

// A journalStream writes batches to one gateway.
type journalStream struct {
	journal *Journal
	request *http.Request
	to      http.ResponseWriter
	control *http.ResponseController
	next    uint64
	room    []byte
}

// run writes until the gateway or the journal ends. The gateway connects again when the
// stream ends early, and is then told what it must do.
func (s *journalStream) run() error {
	defer func() { _ = s.control.SetWriteDeadline(time.Time{}) }() // the connection may be used again
	heartbeat := time.NewTicker(journalHeartbeat)
	defer heartbeat.Stop()
	for s.write() {
		b, is, lost, more := s.journal.From(s.next)
		if lost {
			return nil
		}
		if is {
			s.collect(b)
			continue
		}
		select {
		case <-more:
		case <-heartbeat.C:
			s.room = binary.BigEndian.AppendUint32(s.room, 0)
		case <-s.request.Context().Done():
			return nil
		case <-s.journal.ended:
			return nil
		}
	}
	return nil
}

// collect encodes a batch and those that follow it, as many as are written at once.
func (s *journalStream) collect(b kvindex.Batch) {
	for is := true; is && len(s.room) < journalPiece; b, is, _, _ = s.journal.From(s.next) {
		at := len(s.room)
		s.room = AppendEvents(append(s.room, 0, 0, 0, 0), &b)
		binary.BigEndian.PutUint32(s.room[at:], uint32(len(s.room)-at-4))
		s.next++
	}
}

// write sends what was collected, and reports whether the gateway is still there. The
// first call sends the header alone.
func (s *journalStream) write() bool {
	if s.control.SetWriteDeadline(time.Now().Add(journalWriteMax)) != nil {
		return false
	}
	_, err := s.to.Write(s.room)
	s.room = s.room[:0]
	return err == nil && s.control.Flush() == nil
}

// AppendEvents appends a batch as it travels to gateways: its number, and for each
// event kind, tier, the number of keys and the keys.
func AppendEvents(to []byte, b *kvindex.Batch) []byte {
	to = binary.BigEndian.AppendUint64(to, b.Seq)
	for i := range b.Events {
		e := &b.Events[i]
		to = append(to, byte(e.Kind), byte(e.Tier))
		to = binary.BigEndian.AppendUint32(to, uint32(len(e.Keys)))
		for _, k := range e.Keys {
			to = binary.BigEndian.AppendUint64(to, uint64(k))
		}
	}
	return to
}

var errEvents = errors.New("these are not events of a Parley worker")

// readEvents reads what AppendEvents wrote.
func readEvents(from []byte) (b kvindex.Batch, err error) {
	if len(from) < 8 {
		return b, errEvents
	}
	b.Seq, from = binary.BigEndian.Uint64(from), from[8:]
	for len(from) > 0 {
		if len(from) < 6 {
			return b, errEvents
		}
		e := kvindex.Event{Kind: kvindex.Kind(from[0]), Tier: kvindex.CacheTier(from[1])}
		n := uint64(binary.BigEndian.Uint32(from[2:]))
		from = from[6:]
		if e.Kind > kvindex.Cleared || e.Tier > kvindex.Disk || 8*n > uint64(len(from)) {
			return b, errEvents
		}
		for ; n > 0; n-- {
			e.Keys, from = append(e.Keys, parley.BlockKey(binary.BigEndian.Uint64(from))), from[8:]
		}
		b.Events = append(b.Events, e)
	}
	return b, nil
}
