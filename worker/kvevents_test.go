package worker

import (
	"context"
	"encoding/binary"
	"fmt"
	"iter"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"parley"
	"parley/route/kvindex"
	"parley/worker/kvevents"
	"parley/worker/zmq"
)

// tokensFrom returns n tokens that count up.
func tokensFrom(first parley.Token, n int) (out []parley.Token) {
	for i := range n {
		out = append(out, first+parley.Token(i))
	}
	return out
}

// chainOf returns stored events of the blocks of a prompt.
func chainOf(tokens []parley.Token, salt parley.Salt) (out []kvevents.BlockEvent) {
	parent := parley.BlockHash{}
	for len(tokens) >= 16 {
		h := parley.HashBlock(parent, salt, tokens[:16])
		out = append(out, kvevents.BlockEvent{Kind: kvindex.Stored, Hash: h, Parent: parent, Tokens: tokens[:16]})
		parent, tokens = h, tokens[16:]
	}
	return out
}

// applied gives a batch to an index.
func applied(t *testing.T, b kvindex.Batch) {
	t.Helper()
	x, err := kvindex.New(kvindex.Config{})
	if err != nil {
		t.Fatal(err)
	}
	w, err := x.Join(kvindex.Source{Events: true})
	if err != nil {
		t.Fatal(err)
	}
	x.Apply(w, b)
}

// A mirror is an index that follows one worker.
type mirror struct {
	mu    sync.Mutex
	index *kvindex.Index
	id    kvindex.Worker
	lost  int
}

func newMirror(t *testing.T, s kvindex.Source) *mirror {
	t.Helper()
	x, err := kvindex.New(kvindex.Config{})
	if err != nil {
		t.Fatal(err)
	}
	id, err := x.Join(s)
	if err != nil {
		t.Fatal(err)
	}
	return &mirror{index: x, id: id}
}

func (m *mirror) listener() Listener {
	locked := func(do func() kvindex.Ask) kvindex.Ask {
		m.mu.Lock()
		defer m.mu.Unlock()
		return do()
	}
	return Listener{
		Connected: func() { locked(func() kvindex.Ask { m.index.Reconnected(m.id); return kvindex.Ask{} }) },
		Batch: func(b kvindex.Batch) kvindex.Ask {
			return locked(func() kvindex.Ask { return m.index.Apply(m.id, b) })
		},
		ReplayEnded: func() kvindex.Ask { return locked(func() kvindex.Ask { return m.index.ReplayEnded(m.id) }) },
		Snapshot: func(seq uint64, blocks iter.Seq[kvindex.Event]) kvindex.Ask {
			return locked(func() kvindex.Ask { return m.index.Restore(m.id, seq, blocks) })
		},
		Wants: func() kvindex.Ask { return locked(func() kvindex.Ask { return m.index.Wants(m.id) }) },
		Lost:  func(error) { locked(func() kvindex.Ask { m.lost++; return kvindex.Ask{} }) },
	}
}

// until waits for the index to hold so many blocks, exactly.
func (m *mirror) until(t *testing.T, held int) {
	t.Helper()
	for began := time.Now(); time.Since(began) < time.Minute; time.Sleep(2 * time.Millisecond) {
		m.mu.Lock()
		s := m.index.Stats(m.id)
		m.mu.Unlock()
		if s.Held == held && s.State == kvindex.Exact {
			return
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	t.Fatalf("the index holds %+v, want %d blocks", m.index.Stats(m.id), held)
}

func publisherFor(t *testing.T, keep int) (*kvevents.Publisher, Config) {
	t.Helper()
	p, err := kvevents.NewPublisher(kvevents.PublisherConfig{Events: "127.0.0.1:0", Replay: "127.0.0.1:0",
		BlockTokens: 16, Keep: keep,
		Tokens: true})
	if err != nil {
		t.Fatal(err)
	}
	events, replay := p.Ports()
	at := func(port int) string { return fmt.Sprintf("tcp://127.0.0.1:%d", port) }
	return p, Config{URL: "http://127.0.0.1:1", Kind: VLLM, Events: at(events), Replay: at(replay)}
}

func follow(t *testing.T, r *Remote, m *mirror) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var work sync.WaitGroup
	work.Go(func() {
		if err := r.Follow(ctx, m.listener()); ctx.Err() == nil {
			t.Errorf("following ended: %v", err)
		}
	})
	return func() { cancel(); work.Wait() }
}

// TestFollowersCatchUp publishes before, while and after a follower is there,
// as an engine with names of its own would, and lets the connection break.
func TestFollowersCatchUp(t *testing.T) {
	p, cfg := publisherFor(t, 1000)
	defer p.Close()
	for i := range 5 {
		p.Publish(time.Now(), chainOf(tokensFrom(parley.Token(1000*i), 32), parley.Salt{}))
	}
	r := dial(t, cfg)
	m := newMirror(t, r.Source(""))
	stop := follow(t, r, m)
	m.until(t, 10)
	for i := range 50 {
		p.Publish(time.Now(), chainOf(tokensFrom(parley.Token(100_000+1000*i), 16), parley.Salt{}))
	}
	m.until(t, 60)
	stop()
	for i := range 20 { // nobody listens
		p.Publish(time.Now(), chainOf(tokensFrom(parley.Token(300_000+1000*i), 16), parley.Salt{}))
	}
	stop = follow(t, r, m)
	m.until(t, 80)
	p.Publish(time.Now(), []kvevents.BlockEvent{{Kind: kvindex.Cleared}})
	m.until(t, 0)
	stop()
}

// TestLastBatchesAreLost has a subscription that never arrives: no later batch shows
// that batches are missing, so that a quiet stream has to be asked.
func TestLastBatchesAreLost(t *testing.T) {
	p, cfg := publisherFor(t, 1000)
	defer p.Close()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	silent := zmq.NewPublisher(l, 1)
	defer silent.Close()
	cfg.Events = "tcp://" + l.Addr().String()
	r := dial(t, cfg)
	m := newMirror(t, r.Source(""))
	defer follow(t, r, m)()
	p.Publish(time.Now(), chainOf(tokensFrom(0, 32), parley.Salt{}))
	m.until(t, 2)
	p.Publish(time.Now(), chainOf(tokensFrom(1000, 48), parley.Salt{}))
	m.until(t, 5)
}

// TestReconnectionKeepsWhatIsKnown follows more batches than can be repeated,
// loses the connection, and goes on: nothing may be forgotten.
func TestReconnectionKeepsWhatIsKnown(t *testing.T) {
	const keep = 64
	p, cfg := publisherFor(t, keep)
	defer p.Close()
	r := dial(t, cfg)
	m := newMirror(t, r.Source(""))
	stop := follow(t, r, m)
	publish := func(i int) {
		p.Publish(time.Now(), chainOf(tokensFrom(parley.Token(1000*i), 16), parley.Salt{}))
	}
	publish(0)
	m.until(t, 1) // it follows: of what is published before that, only keep batches would be repeated
	for i := 1; i < 4*keep; i++ {
		publish(i)
	}
	m.until(t, 4*keep)
	stop()
	before := m.batches()
	p.Publish(time.Now(), chainOf(tokensFrom(900_000, 16), parley.Salt{}))
	stop = follow(t, r, m)
	defer stop()
	for range keep - 2 { // until the subscription has arrived
		if m.batches() > before {
			break
		}
		p.Publish(time.Now(), nil)
		time.Sleep(50 * time.Millisecond)
	}
	m.until(t, 4*keep+1)
}

func (m *mirror) batches() uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.index.Stats(m.id).Batches
}

// TestLossyPublisher drops every third message on the way: the index must ask
// for what is missing, and end exact.
func TestLossyPublisher(t *testing.T) {
	p, cfg := publisherFor(t, 1000)
	defer p.Close()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	relay := zmq.NewPublisher(l, 1000)
	defer relay.Close()
	direct, err := zmq.Dial(t.Context(), cfg.Events, zmq.Sub)
	if err != nil {
		t.Fatal(err)
	}
	if err := direct.Send([]byte{1}); err != nil {
		t.Fatal(err)
	}
	var work sync.WaitGroup
	work.Go(func() {
		for i := 0; ; i++ {
			message, err := direct.Receive()
			if err != nil {
				return
			}
			if i%3 != 0 {
				relay.Publish(message...)
			}
		}
	})
	cfg.Events = "tcp://" + l.Addr().String()
	r := dial(t, cfg)
	m := newMirror(t, r.Source(""))
	stop := follow(t, r, m)
	blocks := 0
	for i := 0; m.gaps() == 0 || blocks < 60; i++ {
		p.Publish(time.Now(), chainOf(tokensFrom(parley.Token(1000*i), 16), parley.Salt{}))
		blocks++
		time.Sleep(time.Millisecond)
		if i > 20_000 {
			t.Fatal("no gap was noticed")
		}
	}
	for range 3 { // the last one may be among the lost
		p.Publish(time.Now(), chainOf(tokensFrom(0, 16), parley.Salt{}))
	}
	m.until(t, blocks)
	stop()
	direct.Close()
	work.Wait()
}

func (m *mirror) gaps() uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.index.Stats(m.id).Gaps
}

// TestReplayHasAnEnd asks for more than is kept, and for what was not published
// yet.
func TestReplayHasAnEnd(t *testing.T) {
	p, cfg := publisherFor(t, 4)
	defer p.Close()
	for range 9 {
		p.Publish(time.Now(), nil)
	}
	c, err := zmq.Dial(t.Context(), cfg.Replay, zmq.Dealer)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for from, want := range map[uint64][]uint64{0: {6, 7, 8, 9}, 8: {8, 9}, 10: nil, ^uint64(0): nil} {
		if err := c.Send(nil, binary.BigEndian.AppendUint64(nil, from)); err != nil {
			t.Fatal(err)
		}
		var got []uint64
		for {
			m, err := c.Receive()
			if err != nil || len(m) != 4 {
				t.Fatalf("%q, %v", m, err)
			}
			seq := binary.BigEndian.Uint64(m[2])
			if seq == ^uint64(0) && len(m[3]) == 0 {
				break
			}
			got = append(got, seq)
		}
		if !slices.Equal(got, want) {
			t.Errorf("from %d came %d, want %d", from, got, want)
		}
	}
}
