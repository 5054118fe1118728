package worker

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"iter"
	"log/slog"
	"maps"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"parley"
	"parley/route/kvindex"
	"parley/worker/foreign"
	"parley/worker/wire"
)

// A Config says how an engine is reached.
type Config struct {
	// URL is where it listens, such as http://10.0.0.7:8000.
	URL string
	// Kind is the dialect it speaks.
	Kind Kind
	// Names are what the engine calls models, by what requests call them. Model is
	// what it calls all others; empty means as the request does.
	Names map[string]string
	Model string
	// Key is sent as a bearer token, if there is one.
	Key string
	// TLS returns how the next connection to an https URL speaks TLS; nil means with
	// servers that the system trusts.
	TLS func() *tls.Config
	// Networks are where it must be, whatever its URL's name resolves to; empty means
	// anywhere.
	Networks []netip.Prefix
	// Events and Replay are the ZMQ sockets of a foreign engine's events, such as
	// tcp://10.0.0.7:5557. Those of a Parley worker come over its URL, with its key.
	Events, Replay string
	// Role is the part of requests that an engine of a kind that divides them is started
	// for, where it does not say; empty for the whole.
	Role parley.WorkerRole
	// Text returns the text of a prompt for a model. Kinds that take neither token
	// ids nor conversations need it.
	Text func(model string, prompt []parley.Token) string
	// ContextTokens bounds prompt and answer together, where the engine does not
	// say; 0 means that it is not known.
	ContextTokens int
	// Window is how many tokens of an answer may be under way from a Parley
	// worker; 0 means 64.
	Window int
	// Silence is how long a worker may give no sign of life, while one is
	// expected, before its connections are given up; 0 means 5 s.
	Silence time.Duration
	// Upstream is set for a service that is fronted without its tokenizer; nil otherwise.
	Upstream *Upstream
	// Log receives what no caller is told; nil means none.
	Log *slog.Logger
}

const (
	windowDefault  = 64
	silenceDefault = 5 * time.Second
)

func (c *Config) setDefaults() error {
	c.Window = cmp.Or(c.Window, windowDefault)
	c.Silence = cmp.Or(c.Silence, silenceDefault)
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	c.URL = strings.TrimRight(c.URL, "/")
	if c.Upstream != nil { // services are known by either
		c.URL = strings.TrimSuffix(c.URL, "/v1")
	}
	if u, err := url.Parse(c.URL); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return fmt.Errorf("%q is not the URL of a worker: write it as http://host:port", c.URL)
	}
	if _, err := ParseKind(string(c.Kind)); err != nil {
		return err
	}
	if !PromisesOf(c.Kind).TokenPrompts && !c.Kind.TakesTurns() && c.Text == nil {
		return fmt.Errorf("worker %s: %s accepts no token ids, so the model's tokenizer is needed", c.URL, c.Kind)
	}
	if c.Role != "" && c.Role != parley.RolePrefill && c.Role != parley.RoleDecode {
		return fmt.Errorf("worker %s: the role %q is not known: use prefill or decode", c.URL, c.Role)
	}
	if c.Role != "" && !c.Kind.Divides() {
		return fmt.Errorf("worker %s: %s workers have no role here: only those of vllm and sglang do", c.URL, c.Kind)
	}
	if c.Window < 1 || c.Silence < 0 || c.ContextTokens < 0 {
		return fmt.Errorf("worker %s: window %d, silence %s and context %d must not be negative", c.URL, c.Window,
			c.Silence, c.ContextTokens)
	}
	return nil
}

// A Remote is an engine in another process. It implements [parley.Worker] and
// is safe for concurrent use.
//
// Its errors are [parley.Error]. Unavailable means that the engine could not be
// reached, broke off or is asleep, Overloaded that it has no room, and NotFound
// that it has not the model: another worker may do better. All others would be
// the same elsewhere.
type Remote struct {
	cfg    Config
	client *http.Client
	// patient is for what takes an engine longer than it may otherwise be silent.
	patient *http.Client
	// wire carries the answers of a Parley worker.
	wire *wire.Client
	// status is what the last probe found, nil before the first.
	status atomic.Pointer[Status]
	// server is what an SGLang server says of itself, nil until it was asked.
	server atomic.Pointer[foreign.Disaggregation]
	// probed is what an upstream said last.
	probed atomic.Pointer[probeState]
	// heard is the number after that of the latest batch of events.
	heard atomic.Uint64
}

var _ parley.Worker = (*Remote)(nil)

// Dial prepares to speak to an engine. It connects when something is asked.
func Dial(cfg Config) (*Remote, error) {
	if err := cfg.setDefaults(); err != nil {
		return nil, err
	}
	r := &Remote{cfg: cfg, client: newClient(&cfg, 0)}
	if r.patient = r.client; cfg.Kind == Parley { // what it is asked beside its answers it answers at once
		r.client = newClient(&cfg, cfg.Silence)
	}
	r.wire = wire.NewClient(wire.ClientConfig{
		Worker:  cfg.URL,
		Window:  cfg.Window,
		Silence: cfg.Silence,
		Dial:    cfg.dial,
		Request: func(ctx context.Context, path string) (*http.Request, error) {
			return r.request(ctx, http.MethodGet, path, nil)
		},
		Refusal:     r.refusal,
		Unreachable: r.unreachable,
	})
	return r, nil
}

// Close lets go of connections that are idle.
func (r *Remote) Close() {
	r.client.CloseIdleConnections()
	r.patient.CloseIdleConnections()
	r.wire.Close()
}

// String returns where the engine is.
func (r *Remote) String() string { return r.cfg.URL }

// Kind returns the dialect it speaks.
func (r *Remote) Kind() Kind { return r.cfg.Kind }

// Promises returns what this engine can be relied on for: what its kind
// promises, as far as it was told where to find it.
func (r *Remote) Promises() Promises {
	p := PromisesOf(r.cfg.Kind)
	s := r.Source("")
	p.Events, p.Replay, p.Snapshot = s.Events, s.Replay, s.Snapshot
	return p
}

// Source returns what an index can learn from the engine, as far as is known
// since the last probe. Without a model it is about the only one; of an engine
// with several, whose events tell them apart, it is about that one.
func (r *Remote) Source(model string) kvindex.Source {
	s := kvindex.Source{CapacityBlocks: r.lastStatus().CapacityBlocks}
	if r.cfg.Kind == Parley {
		s.Events, s.Replay, s.Snapshot = true, true, true
	} else {
		s.Events, s.Replay = r.cfg.Events != "", r.cfg.Events != "" && r.cfg.Replay != ""
	}
	if models := r.Models(); model == "" && len(models) > 0 {
		model = models[0].ID
	}
	theirs := r.theirName(model)
	switch {
	case !PromisesOf(r.cfg.Kind).ModelEvents:
	case slices.Contains(r.lastStatus().Adapters, theirs):
		s.Models = []string{theirs}
	default:
		s.Models = []string{"", theirs}
	}
	return s
}

func (r *Remote) lastStatus() Status {
	if s := r.status.Load(); s != nil {
		return *s
	}
	return Status{}
}

// Models lists what the last probe found, by the names that requests use, or the
// one model of the configuration. It sends no request.
func (r *Remote) Models() []parley.Model {
	if s := r.lastStatus(); len(s.Models) > 0 {
		return s.Models
	}
	if r.cfg.Model != "" {
		return []parley.Model{{ID: r.cfg.Model, ContextTokens: r.cfg.ContextTokens}}
	}
	return nil
}

// theirName returns what the engine calls the model of a request.
func (r *Remote) theirName(model string) string {
	return cmp.Or(r.upstreamModel(model).Name, r.cfg.Names[model], r.cfg.Model, model)
}

// ourModels returns the engine's models by the names that requests use: one may
// have several.
func (r *Remote) ourModels(theirs []parley.Model) (ours []parley.Model) {
	for _, m := range theirs {
		known := false
		for _, name := range slices.Sorted(maps.Keys(r.cfg.Names)) {
			if r.cfg.Names[name] == m.ID {
				known = true
				ours = append(ours, parley.Model{ID: name, ContextTokens: m.ContextTokens})
			}
		}
		if !known {
			ours = append(ours, m)
		}
	}
	return ours
}

// silenceMax is how long the engine may send nothing while an answer is expected; 0 for ever.
func (r *Remote) silenceMax() time.Duration {
	if r.cfg.Upstream == nil {
		return 0
	}
	return r.cfg.Upstream.Silence
}

// upstreamModel returns what is known of a model of an upstream; the zero value for
// other engines.
func (r *Remote) upstreamModel(model string) UpstreamModel {
	if r.cfg.Upstream == nil {
		return UpstreamModel{}
	}
	return r.cfg.Upstream.Models[model]
}

// Generate has the engine answer q; see [parley.Worker].
func (r *Remote) Generate(ctx context.Context, q *parley.Request) iter.Seq2[parley.Delta, error] {
	if r.cfg.Kind == Parley {
		return r.wire.Generate(ctx, q)
	}
	return func(yield func(parley.Delta, error) bool) { r.foreign(ctx, q, yield) }
}
