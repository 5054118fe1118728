package host

import (
	"context"
	"flag"
	"fmt"
	"iter"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"parley"
	"parley/compute"
	"parley/fleet"
	"parley/fleet/discover"
	"parley/internal/builtin"
	"parley/route"
)

// A rollingWorker is a worker that is stopped as by a signal and started again at the same address.
type rollingWorker struct {
	t      *testing.T
	name   string
	addr   string
	gate   *gate // in front of it, if it is not nil
	role   parley.WorkerRole
	model  Config
	server *Server
	stop   context.CancelFunc
	ended  chan error
}

// newRollingWorker returns a worker that has not started.
func newRollingWorker(t *testing.T, name string, model Config, role parley.WorkerRole) *rollingWorker {
	t.Helper()
	model.DataDir, model.DeviceName, model.Threads = t.TempDir(), testDevice, testThreads
	return &rollingWorker{t: t, name: name, addr: "127.0.0.1:0", model: model, role: role}
}

// url returns where gateways find the worker.
func (w *rollingWorker) url() string {
	if w.gate != nil {
		return w.gate.url
	}
	return "http://" + w.addr
}

// start runs the worker. It is given as long to drain as a test may take.
func (w *rollingWorker) start() {
	w.t.Helper()
	model := w.model
	s, err := NewServer(ServerConfig{Key: transferKey, Role: w.role, Open: func() (Candidate, error) {
		m, _ := builtin.Find(model.Name)
		ck, err := m.Open()
		return Candidate{Checkpoint: ck, Config: model}, err
	}})
	if err != nil {
		w.t.Fatal(err)
	}
	l, err := net.Listen("tcp", w.addr)
	if err != nil {
		w.t.Fatal(err)
	}
	w.addr, w.server, w.ended = l.Addr().String(), s, make(chan error, 1)
	ctx, stop := context.WithCancel(context.Background())
	w.stop = stop
	front, ended := s.NewHTTPServer(), w.ended
	go func() {
		ended <- s.serve(ctx, front, func() error { return front.Serve(l) },
			drainTimes{all: 10 * time.Minute, move: time.Millisecond, handOver: 10 * time.Minute})
	}()
}

// end waits until the worker has stopped.
func (w *rollingWorker) end() {
	w.t.Helper()
	if err := <-w.ended; err != nil {
		w.t.Error(err)
	}
	sound(w.t, w.server)
	if err := w.server.Close(); err != nil {
		w.t.Error(err)
	}
}

// rollingStream is an answer that is read when the test says.
type rollingStream struct {
	r        *parley.Request
	attempts parley.AttemptLog
	next     func() (parley.Delta, error, bool)
	at       string // its worker
	got      []parley.Token
}

// read reads until done says so, or to the end.
func (s *rollingStream) read(t *testing.T, done func() bool) {
	for !done() {
		d, err, more := s.next()
		if err != nil {
			t.Errorf("%s: %v", s.r.ID, err)
		}
		if err != nil || !more {
			return
		}
		if d.Routing != nil {
			s.at = d.Routing.Worker
		}
		s.got = append(s.got, d.Tokens...)
	}
}

// readAll has streams read at the same time.
func readAll(t *testing.T, streams []*rollingStream, done func(*rollingStream) bool) {
	var all sync.WaitGroup
	for _, s := range streams {
		all.Go(func() { s.read(t, func() bool { return done(s) }) })
	}
	all.Wait()
}

// recomputed returns how many tokens were computed again after each move of an answer, and
// how many are without blocks of other workers.
func (s *rollingStream) recomputed() (again, alone int) {
	const size = compute.BlockTokens
	all, _ := s.attempts.Attempts()
	said := 0
	for i := range all {
		a := &all[i]
		if total := len(s.r.Prompt) + said; i > 0 && a.End != "withdrawn" { // else it had not begun
			alone += total
			switch {
			case a.Transfer != nil:
				known := (total-1)/size*size - a.Transfer.AskedTokens
				again += total - known - a.Transfer.CameTokens
			case a.Usage != nil:
				again += total - a.Usage.CachedTokens
			default:
				again += total
			}
		}
		said += a.Tokens
	}
	return again, alone
}

// checkRecomputed wants little to have been computed again.
func checkRecomputed(t *testing.T, said []*rollingStream) {
	t.Helper()
	again, alone := 0, 0
	for _, s := range said {
		a, b := s.recomputed()
		again, alone = again+a, alone+b
	}
	t.Logf("%d tokens were computed again, %d without blocks of other workers: %.1f %%", again, alone,
		100*float64(again)/float64(alone))
	if alone == 0 || 20*again > alone {
		t.Errorf("%d of %d tokens were computed again, want at most 5 %%", again, alone)
	}
}

// startRolling returns a fleet of workers that always fetches what it can. All have both roles if none is given.
func startRolling(t *testing.T, model Config, workers int, roles ...parley.WorkerRole) (*fleet.Fleet,
	[]*rollingWorker) {
	t.Helper()
	all := make([]*rollingWorker, workers)
	for i := range all {
		role := parley.WorkerRole("")
		if len(roles) > 0 {
			role = roles[i]
		}
		all[i] = newRollingWorker(t, fmt.Sprint("w", i), model, role)
		all[i].start()
	}
	return rollingFleet(t, all), all
}

// rollingFleet returns a gateway of workers, that are up.
func rollingFleet(t *testing.T, all []*rollingWorker) *fleet.Fleet {
	t.Helper()
	f, err := fleet.New(fleet.Config{
		Models:     []parley.Model{{ID: "polly-mini", ContextTokens: 1024}},
		Pools:      []fleet.Pool{fleet.DefaultPool()},
		SlowStart:  -1,
		StallMax:   -1,
		ProbeEvery: 10 * time.Millisecond,
		ProbeWait:  time.Minute,
		WarmMax:    10 * time.Minute,
		Route:      route.Config{FetchTime: time.Minute, FetchGain: 1e6},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
	for _, w := range all {
		joinRolling(t, f, w.name, w.url())
	}
	return f
}

// joinRolling adds a worker to a fleet, and waits until it is up.
func joinRolling(t *testing.T, f *fleet.Fleet, name, url string) {
	t.Helper()
	m, err := (fleet.Dialer{Pool: "default", ParleyKey: transferKey}).Connect(t.Context(),
		discover.Address{Name: name, URL: url})
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Join(m); err != nil {
		t.Fatal(err)
	}
	awaitStanding(t, f, name, func(s *fleet.Standing) bool { return s.State == fleet.Up })
}

var rollingStreams = flag.Int("rolling", 24, "streams during TestRollingRestart; make cases has 64")

// TestRollingRestart stops each of three workers in turn, as a signal does, under many streams
// that were read to some point: no answer fails or changes, and at most 5 % of the tokens
// are computed again that would be without blocks of the worker that stops.
func TestRollingRestart(t *testing.T) {
	const workers = 3
	streams := *rollingStreams
	model := Config{Name: "polly-mini", KVTokens: 1 << 17, ContextTokens: 1024, Seqs: streams}
	f, all := startRolling(t, model, workers)
	up := func() {
		for _, w := range all {
			awaitStanding(t, f, w.name, func(s *fleet.Standing) bool { return s.State == fleet.Up })
		}
	}
	said := make([]*rollingStream, streams)
	for i := range said {
		s := &rollingStream{r: &parley.Request{
			ID:        fmt.Sprint("stream ", i),
			Model:     "polly-mini",
			Prompt:    chatPrompt(t, all[0].server.awake.Host, strings.Repeat(longQuestion+" ", 12)),
			MaxTokens: 280,
			Salt:      parley.Salt{byte(i)}, // so that no two share blocks
			Stop:      parley.Stop{IgnoreEnd: true},
		}}
		if i%2 == 1 {
			s.r.Sampling = parley.Sampling{Temperature: 0.9, Seed: uint64(i)}
		}
		var stop func()
		s.next, stop = iter.Pull2(f.Generate(parley.WithAttemptLog(t.Context(), &s.attempts), s.r))
		defer stop()
		said[i] = s
	}
	readAll(t, said, func(s *rollingStream) bool { return len(s.got) >= 20 })
	for _, w := range all {
		var here []*rollingStream
		for _, s := range said {
			if s.at == w.name {
				here = append(here, s)
			}
		}
		held, err := w.server.holdCache() // so that it is there until all have moved
		if err != nil {
			t.Fatal(err)
		}
		w.stop()
		awaitStanding(t, f, w.name, func(s *fleet.Standing) bool { return s.Moving == len(here) })
		readAll(t, here, func(s *rollingStream) bool { return s.at != w.name })
		w.server.letGo(held)
		w.end()
		w.start()
		up()
		t.Logf("%s was restarted, %d streams moved", w.name, len(here))
	}
	readAll(t, said, func(*rollingStream) bool { return false })
	checkRecomputed(t, said)
	reference := startHost(t, openBuiltin(t, "polly-mini"), model)
	var compared sync.WaitGroup
	for _, s := range said {
		compared.Go(func() {
			if want := answer(t, reference, s.r); !slices.Equal(s.got, want) {
				t.Errorf("%s: %v, want %v", s.r.ID, s.got, want)
			}
		})
	}
	compared.Wait()
	for _, w := range all {
		w.stop()
		w.end()
	}
}
