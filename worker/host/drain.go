package host

import (
	"context"
	"errors"
	"net/http"
	"time"

	"parley"
)

// A worker that is told to stop gives its answers time to finish. Those that have not by
// then move to other workers, which fetch the blocks from here instead of computing them.
// Gateways have other workers fetch what else is here, and only then is the worker gone.

// A drain is what is known of a worker's end. The server's lock guards it.
type drain struct {
	on bool
	// moveBy is when gateways should have moved the answers that still run; zero if all may finish.
	moveBy time.Time
	// moved is set when an answer has left for another worker; last is when the model was last let go.
	moved bool
	last  time.Time
}

// drainTimes bound the end of a worker.
type drainTimes struct {
	// all is how long everything may take, and move after what time answers move.
	all, move time.Duration
	// quiet is how long no blocks must have been asked for, once all answers have moved.
	quiet time.Duration
	// handOver is how long gateways may have others fetch what is here, at most: they listen to this
	// worker's events until that is done.
	handOver time.Duration
}

const (
	// drainQuiet is quiet for all workers: more than a gateway takes to send an answer on.
	drainQuiet = time.Second
	// handOverMax is handOver for all workers: a gateway asks once a second how a worker is, and allows 5 s.
	handOverMax = 8 * time.Second
	// handOverPoll is how often a worker looks whether gateways still listen.
	handOverPoll = 20 * time.Millisecond
)

func errDraining(code parley.Code) error {
	return parley.Errorf(code, "this worker is draining: it accepts no new requests")
}

// moveSeconds returns what is left of the time until answers move; 0 if they may finish.
func (d *drain) moveSeconds(now time.Time) float64 {
	if !d.on || d.moveBy.IsZero() {
		return 0
	}
	return max(d.moveBy.Sub(now), time.Millisecond).Seconds()
}

// Drain refuses new requests, and lets those that run finish.
func (s *Server) Drain() { s.drainBy(time.Time{}) }

// drainBy refuses new requests, and has gateways move those that run at a time.
func (s *Server) drainBy(move time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drain.on, s.drain.moveBy = true, move
}

// holdFor is hold for a request. A gateway that can take requests back gets it back.
func (s *Server) holdFor(ctx context.Context) (*waking, error) {
	w, err := s.hold()
	if err != nil && parley.WithdrawalOf(ctx) != nil && s.draining() {
		return nil, errDraining(parley.Withdrawn)
	}
	return w, err
}

func (s *Server) draining() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.drain.on
}

// ended is letGo for a request. One whose gateway has left continues elsewhere.
func (s *Server) ended(ctx context.Context, w *waking) {
	if ctx.Err() != nil {
		s.mu.Lock()
		s.drain.moved = s.drain.moved || s.drain.on
		s.mu.Unlock()
	}
	s.letGo(w)
}

// settle waits until all answers have ended, gateways have handed over what is here, and if answers have moved no
// other worker has asked for blocks for a while; at most until ctx ends.
func (s *Server) settle(ctx context.Context, times *drainTimes) {
	handOver := time.Now().Add(times.handOver)
	wake := func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.idle.Broadcast()
	}
	defer context.AfterFunc(ctx, wake)()
	s.mu.Lock()
	defer s.mu.Unlock()
	for ctx.Err() == nil {
		left := time.Duration(0)
		if s.drain.moved {
			left = times.quiet - time.Since(s.drain.last)
		}
		if s.canHandOver() && time.Now().Before(handOver) {
			left = max(left, handOverPoll)
		}
		if busy := s.awake != nil && s.awake.running > 0; !busy && left <= 0 {
			return
		} else if !busy {
			time.AfterFunc(left, wake)
		}
		s.idle.Wait()
	}
}

// canHandOver reports whether the cache has had blocks that the device can still give, and gateways follow it. The
// lock is held.
func (s *Server) canHandOver() bool {
	return s.awake != nil && s.awake.Err() == nil && s.journal.Seq() > 0 && s.journal.Readers() > 0
}

// Serve serves until ctx ends and then lets running answers finish, for at most drain. In
// the last third of that time other workers take them over.
func (s *Server) Serve(ctx context.Context, server *http.Server, serve func() error, drain time.Duration) error {
	return s.serve(ctx, server, serve, drainTimes{
		all:      drain,
		move:     drain / 3 * 2,
		quiet:    drainQuiet,
		handOver: handOverMax,
	})
}

func (s *Server) serve(ctx context.Context, server *http.Server, serve func() error, times drainTimes) error {
	failed := make(chan error, 1)
	go func() { failed <- serve() }()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	s.drainBy(time.Now().Add(times.move))
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), times.all)
	defer cancel()
	s.settle(bounded, &times)
	s.journal.Close()
	err := errors.Join(server.Shutdown(bounded), s.wire.Shutdown(bounded))
	if errors.Is(err, context.DeadlineExceeded) {
		err = server.Close()
	}
	<-failed
	return err
}
