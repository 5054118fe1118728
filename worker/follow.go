package worker

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"parley/route/kvindex"
	"parley/worker/kvevents"
	"parley/worker/zmq"
)

// A reconnection waits, longer each time.
const (
	reconnectFirst = 100 * time.Millisecond
	reconnectMost  = 10 * time.Second
	// askAgain is when what an index still wants is asked for again, and what a
	// stream that has gone quiet may have lost.
	askAgain = 2 * time.Second
)

// errNoEvents: the engine was not said to publish any.
var errNoEvents = errors.New("worker: this engine publishes no events, or their address is not set")

// Follow reports the engine's events until ctx ends, whose error it returns.
// It connects, connects again, and asks the engine for what the listener wants.
// An engine that publishes none has it return at once.
func (r *Remote) Follow(ctx context.Context, to Listener) error {
	once := r.followBy(to)
	wait := reconnectFirst
	for ctx.Err() == nil {
		began := time.Now()
		err := once(ctx)
		if errors.Is(err, errNoEvents) {
			return err
		}
		if ctx.Err() != nil {
			break
		}
		to.Lost(err)
		if time.Since(began) > reconnectMost {
			wait = reconnectFirst
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
		}
		wait = min(2*wait, reconnectMost)
	}
	return ctx.Err()
}

// followBy returns what reports the events of one connection until it ends.
func (r *Remote) followBy(to Listener) func(context.Context) error {
	if r.cfg.Kind == Parley {
		return (&journalReader{remote: r, to: to}).follow
	}
	return func(ctx context.Context) error { return r.followZMQ(ctx, to) }
}

// followZMQ reports the events of one connection to a foreign engine.
func (r *Remote) followZMQ(ctx context.Context, to Listener) error {
	events, replay := r.cfg.Events, r.cfg.Replay
	if events == "" {
		return errNoEvents
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	conn, err := zmq.Dial(ctx, events, zmq.Sub)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.Send([]byte{1}); err != nil { // all topics
		return err
	}
	f := &follower{remote: r, to: to, replay: replay}
	messages, failed := make(chan [][]byte, 256), make(chan error, 1)
	go receive(ctx, conn, messages, failed)
	to.Connected()
	f.ask(ctx, f.unheard())
	return f.run(ctx, messages, failed)
}

// receive passes messages on until the connection or ctx ends.
func receive(ctx context.Context, conn *zmq.Conn, to chan<- [][]byte, failed chan<- error) {
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	for {
		m, err := conn.Receive()
		if err != nil {
			failed <- err
			return
		}
		select {
		case to <- m:
		case <-ctx.Done():
			failed <- ctx.Err()
			return
		}
	}
}

// A follower reports one connection's events to a listener.
type follower struct {
	remote *Remote
	to     Listener
	replay string
	reader kvevents.BatchReader
	// next is the first batch that no replay covers. Earlier ones,
	// which were published meanwhile, would look like those of a new process.
	next uint64
}

// unheard asks for what was published and not received. On a new connection that is
// what came since the one before. A stream that has gone quiet is asked again: the
// engine may take a subscription after it has answered the replay, and it drops
// messages of a subscriber that is slow; no later batch would show the gap.
func (f *follower) unheard() kvindex.Ask {
	if f.remote.Source("").Replay {
		return kvindex.Ask{Replay: true, From: f.remote.heard.Load()}
	}
	return f.to.Wants()
}

func (f *follower) run(ctx context.Context, messages <-chan [][]byte, failed <-chan error) error {
	again := time.NewTicker(askAgain)
	defer again.Stop()
	quiet := 0 // ticks since the latest message
	for {
		select {
		case m := <-messages:
			quiet = 0
			b, err := f.batch(m)
			if err != nil {
				return err
			}
			if b.Seq >= f.next {
				f.remote.heard.Store(b.Seq + 1)
				f.ask(ctx, f.to.Batch(b))
			}
		case <-again.C:
			want := f.to.Wants()
			if quiet++; want == (kvindex.Ask{}) && quietAsks(quiet) {
				want = f.unheard()
			}
			f.ask(ctx, want)
		case err := <-failed:
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// quietAsks reports whether a stream that has been quiet for a number of ticks is asked
// now: after 1, 2, 4, 8, 16 and each 32, so that an idle engine is asked once a minute.
func quietAsks(ticks int) bool { return ticks&(ticks-1) == 0 || ticks%32 == 0 }

// batch reads a message: topic, number, payload. Replays of some engines have
// no topic, so that it is read from its end.
func (f *follower) batch(frames [][]byte) (b kvindex.Batch, err error) {
	n := len(frames)
	if n < 2 || len(frames[n-2]) != 8 {
		return b, errors.New("an event message has no sequence number")
	}
	b.Seq = binary.BigEndian.Uint64(frames[n-2])
	if b.Events, err = f.reader.Read(frames[n-1]); err != nil {
		return b, fmt.Errorf("batch %d: %w", b.Seq, err)
	}
	return b, nil
}

// ask gets from the engine what is wanted, and what is wanted because of that.
// What it does not give is wanted again later.
func (f *follower) ask(ctx context.Context, want kvindex.Ask) {
	for want != (kvindex.Ask{}) {
		if f.replay == "" {
			want = f.to.ReplayEnded()
			continue
		}
		var err error
		if want, err = f.catchUp(ctx, want.From); err != nil {
			if ctx.Err() == nil {
				f.to.Lost(err)
			}
			return
		}
	}
}

// catchUp has batches repeated from a number on.
func (f *follower) catchUp(ctx context.Context, from uint64) (kvindex.Ask, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	conn, err := zmq.Dial(ctx, f.replay, zmq.Dealer)
	if err != nil {
		return kvindex.Ask{}, err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	if err := conn.Send(nil, binary.BigEndian.AppendUint64(nil, from)); err != nil {
		return kvindex.Ask{}, err
	}
	for {
		m, err := conn.Receive()
		if err != nil {
			return kvindex.Ask{}, err
		}
		if n := len(m); n >= 2 && len(m[n-1]) == 0 {
			return f.to.ReplayEnded(), nil
		}
		b, err := f.batch(m)
		if err != nil {
			return kvindex.Ask{}, err
		}
		f.next = max(f.next, b.Seq+1)
		f.remote.heard.Store(f.next)
		f.to.Batch(b) // what it asks for is what is being given
	}
}
