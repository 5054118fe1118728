package host

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"slices"
	"sync"
	"time"

	"parley"
	"parley/compute"
	"parley/engine/kv"
	"parley/route/kvindex"
	"parley/worker"
	"parley/worker/kvevents"
	"parley/worker/kvpeer"
	"parley/worker/kvwire"
	"parley/worker/wire"

	"github.com/prometheus/client_golang/prometheus"
)

// A ServerConfig says how a model is served to gateways.
type ServerConfig struct {
	// Open opens the model's files. It is called again after each sleep.
	Open func() (Candidate, error)
	// Planned is told where the memory will go; nil for no listener.
	Planned func(p *Plan, available int64)
	// Version is the program's, Pool what the worker was started for.
	Version, Pool string
	// Role is what of requests it should do.
	Role parley.WorkerRole
	// Key must be shown with every request but those for health and metrics. Without
	// one, programs on this machine are answered, and no web page.
	Key string
	// ClientCertificates says that requests but those for health and metrics need a
	// certificate of the client, which TLS has verified.
	ClientCertificates bool
	// Registers says that the worker registers at gateways, which call it with the
	// credentials of [Server.Accept]. Then a request needs one of these or
	// the key.
	Registers bool
	// Events and Replay are where events of the cache are published over ZMQ for
	// foreign routers, such as 127.0.0.1:5557; without Events they are not. Gateways
	// need neither: they read [worker.EventsPath].
	Events, Replay string
	// Topic is the first frame of each batch of events over ZMQ. EventTokens has them
	// carry token ids, with which every subscriber can read prompts.
	Topic       string
	EventTokens bool
	// PeerTLS returns how the next connection to another worker speaks TLS, to fetch blocks
	// from it; nil means with servers that the system trusts.
	PeerTLS func() *tls.Config
	// Fetch says how blocks are fetched from other workers. Its ShareFrom is 0 for [kvwire.ShareFrom] and -1 for
	// never.
	Fetch kvwire.Config
	// Metrics are shown with the worker's own.
	Metrics []prometheus.Collector
	// Log receives faults; nil means none.
	Log *slog.Logger
	// Traced is told of each answer that belongs to a trace which is kept; nil for
	// no listener. It must not wait.
	Traced func(wire.Answer)
}

// A Server is a model as a process of its own: the routes of a vLLM server, and
// those of ours. It implements [parley.Worker] and http.Handler.
type Server struct {
	cfg       ServerConfig
	instance  string
	started   time.Time
	journal   *worker.Journal     // events for gateways
	publisher *kvevents.Publisher // events for foreign routers; nil without
	registry  *prometheus.Registry
	wire      *wire.Server // where gateways come in
	peer      *kvpeer.Peer // exchanges blocks with other workers
	place     string       // where it shares memory; empty if it does not
	accepted  credentials
	underway  requestsUnderway

	serverState
}

// A serverState is what changes while a server runs. Its lock guards it.
type serverState struct {
	mu       sync.Mutex
	awake    *waking // nil while asleep
	serves   []parley.Model
	changing bool // between awake and asleep
	drain    drain
	idle     sync.Cond // no request holds what is awake, or changing ended
}

// A waking is a model from one sleep to the next. Its metrics begin anew.
type waking struct {
	*Host
	plan     *Plan
	registry *prometheus.Registry
	format   kvwire.Format
	took     time.Duration // to load
	running  int           // who hold it, guarded by the server
}

var _ parley.Worker = (*Server)(nil)

// NewServer opens the sockets for events and loads the model.
func NewServer(cfg ServerConfig) (*Server, error) {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	s := &Server{cfg: cfg, instance: rand.Text(), started: time.Now(), registry: prometheus.NewRegistry()}
	s.journal = worker.NewJournal(worker.JournalKept)
	if cfg.Fetch.ShareFrom >= 0 {
		s.place = kvwire.Place()
	}
	cfg.Fetch.ShareFrom = max(cmp.Or(cfg.Fetch.ShareFrom, kvwire.ShareFrom), 0)
	s.peer = kvpeer.New(cfg.PeerTLS, cfg.Fetch, s.registry)
	s.idle.L = &s.mu
	s.wire = &wire.Server{To: s, Log: cfg.Log, Traced: cfg.Traced}
	if cfg.Events != "" {
		p, err := kvevents.NewPublisher(kvevents.PublisherConfig{
			Events:      cfg.Events,
			Replay:      cfg.Replay,
			Topic:       cfg.Topic,
			BlockTokens: compute.BlockTokens,
			Tokens:      cfg.EventTokens,
		})
		if err != nil {
			return nil, err
		}
		s.publisher = p
	}
	w, err := s.load()
	if err != nil {
		return nil, errors.Join(err, s.closeEvents())
	}
	s.awake, s.serves = w, w.Models()
	s.register()
	return s, nil
}

// load puts the model to work.
func (s *Server) load() (*waking, error) {
	begun := time.Now()
	c, err := s.cfg.Open()
	if err != nil {
		return nil, err
	}
	w := &waking{registry: prometheus.NewRegistry()}
	c.Config = c.Config.registering(w.registry).reporting(s.publish).inRole(s.cfg.Role)
	if s.publisher != nil {
		s.publisher.SetModel(c.Config.Name)
	}
	plans, available, err := PlanDevice([]Candidate{c}, s.cfg.Log)
	if err != nil {
		return nil, errors.Join(err, c.Checkpoint.Close())
	}
	w.plan = plans[0]
	if s.cfg.Planned != nil {
		s.cfg.Planned(w.plan, available)
	}
	if w.Host, err = Start(w.plan); err != nil {
		return nil, errors.Join(err, c.Checkpoint.Close())
	}
	w.format = w.plan.format(w.Host)
	w.took = time.Since(begun)
	w.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "parley_worker_ready_seconds",
		Help: "Time to load the model, at startup or when it was last woken."}, w.took.Seconds))
	s.cfg.Log.Info("model loaded", "model", c.Config.Name, "took", w.took)
	return w, nil
}

// publish passes events of the cache on to gateways, and to foreign routers if they are
// served.
func (s *Server) publish(events iter.Seq[kv.Event]) {
	s.journal.Append(named(events))
	s.underway.stored()
	if s.publisher == nil {
		return
	}
	var batch []kvevents.BlockEvent
	for e := range events {
		batch = append(batch, blockEvent(&e))
	}
	s.publisher.Publish(time.Now(), batch)
}

// errAsleep is what requests meet while the worker sleeps.
func errAsleep() error {
	return parley.Errorf(parley.Unavailable, "this worker is asleep: POST /wake_up wakes it")
}

// hold returns the model and keeps it from falling asleep until it is let go.
func (s *Server) hold() (*waking, error) {
	s.mu.Lock()
	draining := s.drain.on
	s.mu.Unlock()
	if draining {
		return nil, errDraining(parley.Unavailable)
	}
	return s.holdCache()
}

// holdCache is hold for what a worker does that is draining, too: it gives its blocks away.
func (s *Server) holdCache() (*waking, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.awake == nil || s.changing {
		return nil, errAsleep()
	}
	s.awake.running++
	return s.awake, nil
}

func (s *Server) letGo(w *waking) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w.running--
	s.drain.last = time.Now()
	s.idle.Broadcast()
}

// Models returns the one model that is served, or would be after waking.
func (s *Server) Models() []parley.Model { return s.serves }

// Generate answers r; see [parley.Worker]. The request's model may be left out,
// and must otherwise be the one that is served.
func (s *Server) Generate(ctx context.Context, r *parley.Request) iter.Seq2[parley.Delta, error] {
	return func(yield func(parley.Delta, error) bool) {
		w, err := s.holdFor(ctx)
		if err != nil {
			yield(parley.Delta{}, err)
			return
		}
		defer s.ended(ctx, w)
		s.underway.count(r.ID, 1)
		defer s.underway.count(r.ID, -1)
		if r.Fetch != nil && w.serves(r) == nil {
			s.peer.Generate(ctx, s.owner(w), r)(yield)
			return
		}
		w.generate(ctx, r)(yield)
	}
}

// generate answers r if it is for the model that is served.
func (w *waking) generate(ctx context.Context, r *parley.Request) iter.Seq2[parley.Delta, error] {
	if err := w.serves(r); err != nil {
		return func(yield func(parley.Delta, error) bool) { yield(parley.Delta{}, err) }
	}
	return w.Generate(ctx, r)
}

// serves returns an error if r is for another model than the one that is served.
func (w *waking) serves(r *parley.Request) error {
	if name := w.Models()[0].ID; cmp.Or(r.Model, name) != name {
		return parley.Errorf(parley.NotFound, "this worker has no model %s, it has %s", r.Model, name)
	}
	return nil
}

// owner returns a model as one that exchanges blocks.
func (s *Server) owner(w *waking) kvpeer.Owner {
	return kvpeer.Owner{Engine: w.Engine, Format: w.format, Generate: w.Generate, Follow: s.underway.follow}
}

// Sleep gives all memory of the model back: weights, keys and values. Requests
// that run are ended, or with wait let finish first. New ones are refused. A client
// that does not read an answer that was ended delays no other.
func (s *Server) Sleep(wait bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.changing {
		s.idle.Wait()
	}
	if s.awake == nil {
		return nil
	}
	w := s.awake
	s.changing = true
	defer func() {
		s.awake, s.changing = nil, false
		s.idle.Broadcast()
	}()
	for wait && w.running > 0 {
		s.idle.Wait()
	}
	s.mu.Unlock()
	err := w.Close()
	s.publish(slices.Values([]kv.Event{{Kind: kv.EventKind(kvindex.Cleared)}}))
	s.mu.Lock()
	return err
}

// Wake loads the model again.
func (s *Server) Wake() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.changing {
		s.idle.Wait()
	}
	if s.awake != nil {
		return nil
	}
	s.changing = true
	s.mu.Unlock()
	w, err := s.load()
	s.mu.Lock()
	s.changing = false
	s.idle.Broadcast()
	if err == nil {
		s.awake = w
	}
	return err
}

// Sleeping reports whether the model must be woken.
func (s *Server) Sleeping() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.awake == nil || s.changing
}

// Close ends everything.
func (s *Server) Close() error {
	s.wire.Close()
	s.peer.Close()
	return errors.Join(s.Sleep(false), s.closeEvents())
}

func (s *Server) closeEvents() error {
	s.journal.Close()
	if s.publisher == nil {
		return nil
	}
	return s.publisher.Close()
}

// about says what a gateway wants to know.
func (s *Server) about() worker.About {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := worker.About{
		Version:     s.cfg.Version,
		Instance:    s.instance,
		Pool:        s.cfg.Pool,
		Role:        s.cfg.Role,
		BlockTokens: compute.BlockTokens,
		Models:      s.serves,
		Sleeping:    s.awake == nil || s.changing,
		Draining:    s.drain.on,
		MoveSeconds: s.drain.moveSeconds(time.Now()),
	}
	if w := s.awake; w != nil {
		stats := w.Stats()
		a.Blocks, a.Running, a.Seats = w.plan.blocks(), stats.Running, w.plan.cfg.Seqs
		for _, n := range stats.Waiting {
			a.Waiting += n
		}
		a.BusySeconds, a.Preemptions = stats.StepTime.Seconds(), stats.Preempted
		a.ReadySeconds = w.took.Seconds()
		a.KVUse = float64(stats.Pool.InUse) / float64(max(1, stats.Pool.Total))
		a.Device = w.DeviceState()
		if w.Err() == nil {
			a.Format, a.BlockBytes, a.Place = w.format.Digest(), w.format.BlockBytes, s.place
		} else {
			a.Draining = true // gateways send nothing more, and fail over
		}
	}
	return a
}

// deviceErr returns what keeps the device from computing.
func (s *Server) deviceErr() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.awake == nil {
		return nil
	}
	return s.awake.Err()
}

// snapshot returns everything the cache holds, as it travels.
func (s *Server) snapshot(ctx context.Context) ([]byte, error) {
	w, err := s.holdCache()
	if err != nil { // it holds nothing
		return worker.AppendEvents(nil, &kvindex.Batch{Seq: s.journal.Seq()}), nil
	}
	defer s.letGo(w)
	var out []byte
	err = w.Snapshot(ctx, func(blocks iter.Seq[kv.Event]) {
		out = worker.AppendEvents(nil, &kvindex.Batch{Seq: s.journal.Seq(), Events: named(blocks)})
	})
	return out, err
}

// register adds the metrics that do not begin anew with each waking.
func (s *Server) register() {
	for _, state := range []string{"awake", "discard_all"} {
		s.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "vllm:engine_sleep_state",
			Help: "1 while the model is asleep.", ConstLabels: prometheus.Labels{"sleep_state": state}},
			func() float64 {
				if s.Sleeping() == (state == "discard_all") {
					return 1
				}
				return 0
			}))
	}
	s.registry.MustRegister(s.cfg.Metrics...)
	s.registry.MustRegister(
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "vllm:cache_config_info", Help: "The key/value pool.",
			ConstLabels: prometheus.Labels{"block_size": fmt.Sprint(compute.BlockTokens),
				"num_gpu_blocks": fmt.Sprint(s.awake.plan.blocks())}}, func() float64 { return 1 }))
	if s.publisher != nil {
		s.registry.MustRegister(
			prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "parley_worker_events_dropped_total",
				Help: "Event batches lost by slow subscribers."},
				func() float64 { return float64(s.publisher.Dropped()) }))
	}
}

// EventPorts returns the ports of the ZMQ sockets for events and for repeated ones,
// 0 without.
func (s *Server) EventPorts() (events, replay int) {
	if s.publisher == nil {
		return 0, 0
	}
	return s.publisher.Ports()
}

// credentials are what gateways show that gave them to the worker when it registered:
// one for each gateway.
type credentials struct {
	mu        sync.Mutex
	byGateway map[string][sha256.Size]byte
}
