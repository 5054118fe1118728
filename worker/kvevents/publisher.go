package kvevents

import (
	"encoding/binary"
	"fmt"
	"net"
	"sync"
	"time"

	"parley/route/kvindex"
	"parley/worker/zmq"
)

// A Publisher reports to foreign routers what a worker's cache holds, as vLLM does: numbered
// batches on one ZMQ socket, and on another one the latest of them again. It
// begins with a batch that says that nothing is held. ZMQ has no credentials here:
// every host that can reach the sockets can read them.
type Publisher struct {
	cfg    PublisherConfig
	events *zmq.Publisher
	replay *zmq.Responder
	ports  [2]int

	mu    sync.Mutex
	model string
	kept  [][]byte // payloads, that of batch n at n % len
	next  uint64
}

// A PublisherConfig says where and what is published.
type PublisherConfig struct {
	// Events and Replay are addresses to listen on, such as 127.0.0.1:5557.
	Events, Replay string
	// Topic is the first frame of each message.
	Topic string
	// BlockTokens is the number of tokens in a block.
	BlockTokens int
	// Tokens has the token ids of stored blocks published: with them, prompts can be
	// read. Without, events name blocks only.
	Tokens bool
	// Keep is how many batches can be repeated; 0 means 10,000.
	Keep int
}

// PendingMax is how many batches wait for a subscriber before it loses some.
const PendingMax = 100_000 / 8

// endOfReplay is the number that ends the answer to a question.
const endOfReplay = ^uint64(0)

// NewPublisher listens. Close ends it.
func NewPublisher(cfg PublisherConfig) (*Publisher, error) {
	if cfg.Keep == 0 {
		cfg.Keep = 10_000
	}
	events, err := net.Listen("tcp", cfg.Events)
	if err != nil {
		return nil, fmt.Errorf("socket for events: %w", err)
	}
	replay, err := net.Listen("tcp", cfg.Replay)
	if err != nil {
		events.Close()
		return nil, fmt.Errorf("socket for repeated events: %w", err)
	}
	p := &Publisher{cfg: cfg, kept: make([][]byte, cfg.Keep)}
	p.ports = [2]int{events.Addr().(*net.TCPAddr).Port, replay.Addr().(*net.TCPAddr).Port}
	p.events = zmq.NewPublisher(events, PendingMax)
	p.replay = zmq.NewResponder(replay, p.repeat)
	p.Publish(time.Now(), []BlockEvent{{Kind: kvindex.Cleared}})
	return p, nil
}

// Ports returns those of the sockets for events and for repeated ones.
func (p *Publisher) Ports() (events, replay int) { return p.ports[0], p.ports[1] }

// SetModel says whose blocks are published from now on.
func (p *Publisher) SetModel(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.model = name
}

// Publish sends a batch. It may change the events, keeps nothing of them and never
// waits.
func (p *Publisher) Publish(now time.Time, events []BlockEvent) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.cfg.Tokens {
		for i := range events {
			events[i].Tokens = nil
		}
	}
	payload := appendBatch(nil, now, p.model, events, p.cfg.BlockTokens)
	p.kept[p.next%uint64(len(p.kept))] = payload
	p.events.Publish([]byte(p.cfg.Topic), binary.BigEndian.AppendUint64(nil, p.next), payload)
	p.next++
}

// Seq returns the number of the latest batch.
func (p *Publisher) Seq() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.next - 1
}

// Dropped counts batches that subscribers lost because they did not keep up.
func (p *Publisher) Dropped() uint64 { return p.events.Dropped() }

// repeat answers a question for the batches from a number on. A malformed question
// is not answered, as vLLM has it.
func (p *Publisher) repeat(question [][]byte, send func(frames ...[]byte) error) {
	if len(question) != 2 || len(question[0]) != 0 || len(question[1]) != 8 {
		return
	}
	from := binary.BigEndian.Uint64(question[1])
	for {
		seq, payload := p.keptFrom(from)
		if payload == nil {
			break
		}
		if send(nil, []byte(p.cfg.Topic), binary.BigEndian.AppendUint64(nil, seq), payload) != nil {
			return
		}
		from = seq + 1
	}
	_ = send(nil, nil, binary.BigEndian.AppendUint64(nil, endOfReplay), nil) // who left asks again
}

// keptFrom returns the first batch kept from a number on.
func (p *Publisher) keptFrom(from uint64) (seq uint64, payload []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if keep := uint64(len(p.kept)); p.next > keep {
		from = max(from, p.next-keep)
	}
	if from >= p.next {
		return 0, nil
	}
	return from, p.kept[from%uint64(len(p.kept))]
}

// Close ends both sockets.
func (p *Publisher) Close() error {
	err := p.events.Close()
	if e := p.replay.Close(); err == nil {
		err = e
	}
	return err
}
