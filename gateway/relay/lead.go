package relay

import (
	"context"
	"errors"
	"sync"
	"time"

	"parley"
)

// A State is how far an answer is.
type State string

// The states of an answer.
const (
	Going State = ""
	// Complete answers have all their deltas.
	Complete State = "complete"
	// Lost answers have no leader any more: another gateway may lead.
	Lost State = "lost"
	// Alone says that the answer cannot be shared: each gateway computes it.
	Alone State = "alone"
)

// A Lead is an answer that this gateway computes, and that others may follow.
type Lead struct {
	relay *Redis
	place lease
	// more wakes the goroutine that writes; ending is closed when nothing more comes.
	more, ending chan struct{}

	mu      sync.Mutex
	pending []parley.Delta
	state   State
}

func (r *Redis) newLead(p lease) *Lead {
	l := &Lead{relay: r, place: p, more: make(chan struct{}, 1), ending: make(chan struct{})}
	r.leads.Go(l.run)
	return l
}

// Add lets followers have a delta. It does not wait for Redis.
func (l *Lead) Add(d parley.Delta) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.state != Going {
		return
	}
	l.pending = append(l.pending, d)
	l.wake()
}

// End says that the answer is complete, lost or not to be shared. It does not wait for
// Redis; only the first call counts.
func (l *Lead) End(s State) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.state != Going {
		return
	}
	l.state = s
	close(l.ending)
	l.wake()
}

func (l *Lead) wake() {
	select {
	case l.more <- struct{}{}:
	default:
	}
}

// take returns what is to be written.
func (l *Lead) take() (deltas []parley.Delta, s State) {
	l.mu.Lock()
	defer l.mu.Unlock()
	deltas, l.pending = l.pending, nil
	return deltas, l.state
}

// run writes what comes, a little at a time, and renews the lease. When Redis fails
// or the lease was lost, it ends: followers find the lease gone.
func (l *Lead) run() {
	renew := time.NewTicker(l.relay.config.Lease / 3)
	defer renew.Stop()
	bytes := 0
	for number := 0; ; {
		select {
		case <-l.more:
		case <-renew.C:
			if l.send(l.relay.config.Lease, 2*l.relay.config.Lease, nil) != nil {
				l.End(Lost)
				return
			}
			continue
		}
		deltas, state := l.take()
		if bytes > l.relay.config.AnswerBytes && state == Going {
			l.End(Alone)
			deltas, state = nil, Alone
		}
		n, err := l.write(&entry{Deltas: deltas, Number: number, End: state})
		bytes, number = bytes+n, number+1
		if err != nil || state != Going {
			l.End(Lost)
			return
		}
		l.rest()
	}
}

// rest waits until it is worth writing again.
func (l *Lead) rest() {
	soon := time.NewTimer(writeEvery)
	defer soon.Stop()
	select {
	case <-soon.C:
	case <-l.ending:
	}
}

// write adds an entry to the stream. With the last one it ends the lease, unless the
// answer is complete, and can be followed for a while. What JSON cannot say, such as
// the logarithm of 0, is not shared.
func (l *Lead) write(e *entry) (bytes int, err error) {
	sealed, err := l.relay.encode(&l.place, e)
	if err != nil {
		l.End(Alone)
		e = &entry{Number: e.Number, End: Alone}
		if sealed, err = l.relay.encode(&l.place, e); err != nil {
			return 0, err
		}
	}
	lease, stream := l.relay.config.Lease, 2*l.relay.config.Lease
	switch e.End {
	case Complete, Alone:
		lease, stream = keptFor, keptFor
	case Lost:
		lease, stream = 0, keptFor
	}
	return len(sealed), l.send(lease, stream, sealed)
}

// errLease says that another gateway may lead by now.
var errLease = errors.New("relay: the lease has expired")

// send adds to the stream what is not empty, and extends the lease and the stream
// from now.
func (l *Lead) send(lease, stream time.Duration, sealed []byte) error {
	ctx, cancel := context.WithTimeout(context.Background(), l.relay.config.Timeout)
	defer cancel()
	keys := []string{l.place.lead, l.place.stream}
	held, err := writeScript.Run(ctx, l.relay.client, keys, l.place.id, lease.Milliseconds(), stream.Milliseconds(),
		sealed).Int()
	if err == nil && held == 0 {
		return errLease
	}
	return err
}
