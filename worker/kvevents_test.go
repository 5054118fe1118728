package worker

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"iter"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"parley"
	"parley/route/kvindex"
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
func chainOf(tokens []parley.Token, salt parley.Salt) (out []BlockEvent) {
	parent := parley.BlockHash{}
	for len(tokens) >= 16 {
		h := parley.HashBlock(parent, salt, tokens[:16])
		out = append(out, BlockEvent{Kind: kvindex.Stored, Hash: h, Parent: parent, Tokens: tokens[:16]})
		parent, tokens = h, tokens[16:]
	}
	return out
}

func TestForeignRoutersReadOurBatches(t *testing.T) {
	stored := chainOf(tokensFrom(1, 48), parley.Salt{})
	removed := BlockEvent{Kind: kvindex.Removed, Tier: kvindex.Host, Hash: stored[2].Hash}
	payload := appendBatch(nil, time.Unix(1, 5e8), "",
		[]BlockEvent{stored[0], stored[1], stored[2], removed, {Kind: kvindex.Cleared}}, 16)
	foreign, err := (&batchReader{}).read(payload)
	if err != nil {
		t.Fatal(err)
	}
	if e := foreign[0]; !e.First || e.BlockTokens != 16 || len(e.Engine) != 3 ||
		!slices.Equal(e.Tokens, tokensFrom(1, 48)) ||
		e.Engine[0] != binary.BigEndian.Uint64(stored[0].Hash[24:]) {
		t.Errorf("as a foreign router reads it: %+v", e)
	}
}

// pack writes values as MessagePack, for batches as other engines write them.
func pack(b []byte, v any) []byte {
	switch v := v.(type) {
	case nil:
		return appendNil(b)
	case int:
		if v < 0 {
			return binary.BigEndian.AppendUint64(append(b, 0xd3), uint64(int64(v)))
		}
		return appendUint(b, uint64(v))
	case uint64:
		return appendUint(b, v)
	case float64:
		return appendFloat(b, v)
	case string:
		return appendString(b, v)
	case []byte:
		return appendBytes(b, v)
	case []any:
		b = appendArray(b, len(v))
		for _, e := range v {
			b = pack(b, e)
		}
		return b
	case [][2]any:
		b = appendMap(b, len(v))
		for _, e := range v {
			b = pack(pack(b, e[0]), e[1])
		}
		return b
	}
	panic(fmt.Sprintf("%T", v))
}

func ints(tokens []parley.Token) (out []any) {
	for _, t := range tokens {
		out = append(out, int(t))
	}
	return out
}

// TestForeignBatches reads the forms in which vLLM, before and after 0.24,
// SGLang and the simulator write the same two blocks.
func TestForeignBatches(t *testing.T) {
	salt := parley.Salt{1, 2, 3}
	two := ints(tokensFrom(1, 32))
	plain := kvindex.Event{Kind: kvindex.Stored, Engine: []uint64{10, 11}, First: true, Tokens: tokensFrom(1, 32),
		BlockTokens: 16}
	salted := plain
	salted.Salt, salted.Salted = salt, true
	deeper := plain
	deeper.First, deeper.Parent = false, 9
	elsewhere := plain
	elsewhere.Tier = nowhere
	host := plain
	host.Tier = kvindex.Host
	adapted := plain
	adapted.Model = "lora"
	adaptedSalted := salted
	adaptedSalted.Model = "lora"
	negative := plain
	negative.Engine = []uint64{^uint64(0), 11}
	for name, c := range map[string]struct {
		event any
		want  []kvindex.Event
	}{
		"vLLM map": {[][2]any{{"type", "BlockStored"}, {"block_hashes", []any{10, 11}},
			{"parent_block_hash", nil}, {"token_ids", two}, {"block_size", 16}, {"lora_id", nil}, {"medium", "GPU"},
			{"lora_name", nil}, {"group_idx", 0}, {"kv_cache_spec_kind", "full_attention"}}, []kvindex.Event{plain}},
		"vLLM array": {[]any{"BlockStored", []any{10, 11}, nil, two, 16, nil, "GPU", nil}, []kvindex.Event{plain}},
		"simulator array": {[]any{"BlockStored", []any{10, 11}, 0, two, 16, nil, "GPU", nil, nil},
			[]kvindex.Event{plain}},
		"vLLM bytes": {[]any{"BlockStored", []any{append(make([]byte, 31), 10), append(make([]byte, 31), 11)}, nil,
			two, 16}, []kvindex.Event{plain}},
		"vLLM parent": {[]any{"BlockStored", []any{10, 11}, 9, two, 16}, []kvindex.Event{deeper}},
		"vLLM salt": {[]any{"BlockStored", []any{10, 11}, nil, two, 16, nil, "GPU", nil,
			[]any{[]any{hex.EncodeToString(salt[:])}, nil}}, []kvindex.Event{salted}},
		"SGLang salt": {[]any{"BlockStored", []any{10, 11}, nil, two, 16, nil, "GPU",
			[][2]any{{"cache_salt", hex.EncodeToString(salt[:])}}}, []kvindex.Event{salted}},
		"SGLang signed": {[]any{"BlockStored", []any{-1, 11}, nil, two, 16, nil, "GPU"}, []kvindex.Event{negative}},
		"SGLang host":   {[]any{"BlockStored", []any{10, 11}, nil, two, 16, nil, "CPU_PINNED"}, []kvindex.Event{host}},
		"adapter": {[]any{"BlockStored", []any{10, 11}, nil, two, 16, 1, "GPU", "lora"},
			[]kvindex.Event{adapted}},
		"adapter's keys": {[]any{"BlockStored", []any{10, 11}, nil, two, 16, 1, "GPU", "lora",
			[]any{[]any{"lora", hex.EncodeToString(salt[:])}, []any{"lora"}}}, []kvindex.Event{adaptedSalted}},
		"our model": {[][2]any{{"type", "BlockRemoved"}, {"model", "polly"}, {"block_hashes", []any{10}}},
			[]kvindex.Event{{Kind: kvindex.Removed, Model: "polly", Engine: []uint64{10}}}},
		"images": {[]any{"BlockStored", []any{10, 11}, nil, two, 16, nil, "GPU", nil,
			[]any{[]any{[]any{"img", 0}}, nil}}, []kvindex.Event{elsewhere}},
		"foreign salt": {[]any{"BlockStored", []any{10, 11}, nil, two, 16, nil, "GPU", nil,
			[]any{[]any{"tenant-a"}, nil}}, []kvindex.Event{elsewhere}},
		"sliding window": {[][2]any{{"type", "BlockStored"}, {"block_hashes", []any{10}}, {"group_idx", 1},
			{"kv_cache_spec_kind", "sliding_window"}}, nil},
		"removed": {[]any{"BlockRemoved", []any{10}, "GPU"},
			[]kvindex.Event{{Kind: kvindex.Removed, Engine: []uint64{10}}}},
		"other group": {[]any{"BlockRemoved", []any{10}, "GPU", 3}, nil},
		"cleared":     {[]any{"AllBlocksCleared"}, []kvindex.Event{{Kind: kvindex.Cleared}}},
		"cleared map": {[][2]any{{"type", "AllBlocksCleared"}}, []kvindex.Event{{Kind: kvindex.Cleared}}},
		"unknown":     {[]any{"BlockMoved", []any{10}, [][2]any{{"x", 1.5}}}, nil},
		"later fields": {[]any{"BlockStored", []any{10, 11}, nil, two, 16, nil, "GPU", nil, nil, 0, "full_attention",
			nil, "LOCAL", "new", []any{1}}, []kvindex.Event{plain}},
		"remote": {[]any{"BlockStored", []any{10, 11}, nil, two, 16, nil, "GPU", nil, nil, 0, "full_attention", nil,
			"REMOTE"}, []kvindex.Event{elsewhere}},
	} {
		got, err := (&batchReader{}).read(pack(nil, []any{1.5, []any{c.event}, 0}))
		if err != nil {
			t.Errorf("%s: %v", name, err)
		} else if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestCapturedBatch reads what the simulator was seen to send.
func TestCapturedBatch(t *testing.T) {
	payload := append([]byte{0x93, 0xcb, 0x41, 0xda, 0xbe, 0x3f, 0x66, 0x2c, 0xc6, 0xa2, 0x91, 0x99, 0xab},
		"BlockStored"...)
	payload = append(payload, 0x92, 0xcf, 0x99, 0xe0, 0x4b, 0xfb, 0x87, 0xb8, 0x1f, 0x24, 0xcf, 0xc2, 0x73, 0x5e, 0x25,
		0xa2, 0xb2, 0x60, 0x65, 0x00, 0xdc, 0x00, 0x20)
	payload = append(payload, slices.Repeat([]byte{7}, 32)...)
	payload = append(append(append(payload, 0x10, 0xc0, 0xa3), "GPU"...), 0xc0, 0xc0, 0x00)
	got, err := (&batchReader{}).read(payload)
	if err != nil || len(got) != 1 || !got[0].First || got[0].Engine[1] != 0xc2735e25a2b26065 ||
		len(got[0].Tokens) != 32 {
		t.Errorf("%+v, %v", got, err)
	}
}

func FuzzBatch(f *testing.F) {
	f.Add(appendBatch(nil, time.Unix(1, 0), "m", chainOf(tokensFrom(1, 48), parley.Salt{}), 16))
	f.Add(pack(nil, []any{1.5,
		[]any{[]any{"BlockStored", []any{10}, nil, []any{1}, 1, nil, "GPU", [][2]any{{"cache_salt", "x"}}}}, 0}))
	f.Add([]byte{0x93, 0xc0, 0xdd, 0xff, 0xff, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, payload []byte) {
		if events, err := (&batchReader{}).read(payload); err == nil {
			applied(t, kvindex.Batch{Events: events})
		}
	})
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

func publisherFor(t *testing.T, keep int) (*Publisher, Config) {
	t.Helper()
	p, err := NewPublisher(PublisherConfig{Events: "127.0.0.1:0", Replay: "127.0.0.1:0", BlockTokens: 16, Keep: keep,
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
	p.Publish(time.Now(), []BlockEvent{{Kind: kvindex.Cleared}})
	m.until(t, 0)
	stop()
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
	m.until(t, 0)
	for i := range 4 * keep {
		p.Publish(time.Now(), chainOf(tokensFrom(parley.Token(1000*i), 16), parley.Salt{}))
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
			if seq == endOfReplay && len(m[3]) == 0 {
				break
			}
			got = append(got, seq)
		}
		if !slices.Equal(got, want) {
			t.Errorf("from %d came %d, want %d", from, got, want)
		}
	}
}
