package worker

import (
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"parley"
	"parley/route/kvindex"
)

// storedKeys returns an event of one block for each key.
func storedKeys(keys ...parley.BlockKey) []kvindex.Event {
	return []kvindex.Event{{Kind: kvindex.Stored, Keys: keys}}
}

// TestJournalForgets lets a reader be late by more batches than are kept: it is told that
// they are lost, and never given a wrong one.
func TestJournalForgets(t *testing.T) {
	const keep = 256
	j := NewJournal(keep)
	if _, is, lost, more := j.From(1); is || lost || more == nil {
		t.Error("there is a batch before anything happened")
	}
	for n := range keep {
		j.Append(storedKeys(parley.BlockKey(n)))
	}
	if b, is, _, _ := j.From(1); !is || b.Seq != 1 || b.Events[0].Keys[0] != 0 {
		t.Errorf("the oldest batch is %+v", b)
	}
	j.Append(storedKeys(7))
	if _, is, lost, _ := j.From(1); is || !lost {
		t.Error("a batch that was overwritten is not lost")
	}
	if b, is, _, _ := j.From(keep + 1); !is || b.Seq != keep+1 || b.Events[0].Keys[0] != 7 {
		t.Errorf("the latest batch is %+v", b)
	}
}

func TestEventsTravel(t *testing.T) {
	sent := kvindex.Batch{Seq: 1 << 40, Events: []kvindex.Event{
		{Kind: kvindex.Stored, Tier: kvindex.Host, Keys: []parley.BlockKey{1, ^parley.BlockKey(0)}},
		{Kind: kvindex.Removed, Tier: kvindex.Disk, Keys: []parley.BlockKey{3}},
		{Kind: kvindex.Cleared},
	}}
	body := AppendEvents(nil, &sent)
	got, err := readEvents(body)
	if diff := cmp.Diff(sent, got); diff != "" || err != nil {
		t.Errorf("%v (-sent +got):\n%s", err, diff)
	}
	for n := range len(body) { // none of its beginnings but whole events may be read
		if b, err := readEvents(body[:n]); err == nil && len(b.Events) == 3 {
			t.Errorf("%d of %d bytes were read as %+v", n, len(body), b)
		}
	}
}

func FuzzEvents(f *testing.F) {
	f.Add(AppendEvents(nil, &kvindex.Batch{Seq: 3, Events: storedKeys(1, 2, 3)}))
	f.Add([]byte("\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\xff\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, body []byte) {
		if b, err := readEvents(body); err == nil {
			applied(t, b)
		}
	})
}

// A journaled worker has the routes of a Parley worker that are about events.
type journaled struct {
	*httptest.Server
	journal   *Journal
	held      atomic.Pointer[kvindex.Batch] // what a snapshot gives
	instance  atomic.Pointer[string]
	snapshots atomic.Int64
}

func startJournaled(t *testing.T, keep int) *journaled {
	t.Helper()
	w := &journaled{journal: NewJournal(keep)}
	w.restart("first")
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+EventsPath, func(rw http.ResponseWriter, r *http.Request) {
		if err := w.journal.Serve(rw, r, *w.instance.Load()); err != nil {
			status := http.StatusBadRequest
			if parley.CodeOf(err) == parley.Overloaded {
				status = http.StatusTooManyRequests
			}
			rw.WriteHeader(status)
			_, _ = rw.Write(RefusalBody(err))
		}
	})
	mux.HandleFunc("GET "+SnapshotPath, func(rw http.ResponseWriter, _ *http.Request) {
		w.snapshots.Add(1)
		rw.Header().Set(InstanceHeader, *w.instance.Load())
		_, _ = rw.Write(AppendEvents(nil, w.held.Load()))
	})
	w.Server = httptest.NewServer(mux)
	t.Cleanup(func() { w.journal.Close(); w.Close() })
	return w
}

func (w *journaled) restart(instance string) {
	w.instance.Store(&instance)
	w.held.Store(&kvindex.Batch{Seq: w.journal.Seq()})
}

// add publishes blocks, which a snapshot has, too.
func (w *journaled) add(first, n int) {
	for i := range n {
		events := storedKeys(parley.BlockKey(first + i))
		w.journal.Append(events)
		b := *w.held.Load()
		b.Seq, b.Events = w.journal.Seq(), append(b.Events[:len(b.Events):len(b.Events)], events...)
		w.held.Store(&b)
	}
}

// TestJournalReaderResumes cuts the connection: what is published meanwhile comes over
// the next one, without another snapshot. A reader that is late by more than is kept,
// or meets another process, takes one.
func TestJournalReaderResumes(t *testing.T) {
	w := startJournaled(t, 64)
	w.add(1000, 5)
	r := dial(t, Config{URL: w.URL, Kind: Parley, Key: "k"})
	m := newMirror(t, r.Source(""))
	defer follow(t, r, m)()
	m.until(t, 5)
	w.add(2000, 20)
	m.until(t, 25)
	for round := range 3 {
		w.CloseClientConnections()
		w.add(3000+100*round, 10)
		m.until(t, 35+10*round)
	}
	if n := w.snapshots.Load(); n != 1 {
		t.Errorf("%d snapshots were taken, want the first alone", n)
	}
	w.CloseClientConnections()
	w.add(5000, 200) // more than are kept; whether all are read before depends on timing
	m.until(t, 255)
	w.restart("second")
	w.CloseClientConnections()
	m.until(t, 0)
	if n := w.snapshots.Load(); n < 2 {
		t.Errorf("%d snapshots were taken, want one for the other process", n)
	}
}

// TestLateReadersAreTold asks for batches that are no longer kept, that do not exist yet
// and of another process.
func TestLateReadersAreTold(t *testing.T) {
	w := startJournaled(t, 8)
	w.add(1, 20)
	r := dial(t, Config{URL: w.URL, Kind: Parley})
	for name, f := range map[string]journalReader{
		"no longer kept": {instance: "first", next: 12},
		"not there yet":  {instance: "first", next: 22},
		"number 0":       {instance: "first", next: 0},
		"other process":  {instance: "zeroth", next: 20},
	} {
		f.remote = r
		if _, err := f.events(t.Context()); parley.CodeOf(err) != parley.Conflict {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestEventStreamsAreBounded(t *testing.T) {
	w := startJournaled(t, 8)
	r := dial(t, Config{URL: w.URL, Kind: Parley})
	f := journalReader{remote: r, instance: "first", next: 1}
	for range journalStreamsMax {
		resp, err := f.events(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
	}
	if _, err := f.events(t.Context()); parley.CodeOf(err) != parley.Overloaded {
		t.Errorf("stream %d: %v", journalStreamsMax+1, err)
	}
	w.CloseClientConnections()
	for until := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		if resp, err := f.events(t.Context()); err == nil {
			resp.Body.Close()
			return
		} else if time.Now().After(until) {
			t.Fatal(err)
		}
	}
}
