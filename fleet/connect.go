package fleet

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"time"

	"parley"
	"parley/fleet/discover"
	"parley/route/kvindex"
	"parley/worker"
	"parley/worker/kvwire"
)

// A Dialer makes members of workers in other processes.
type Dialer struct {
	// Pool is where they will stand.
	Pool string
	// Worker is how they are reached, but for where. Its Kind is that of places
	// which have none; the zero value is [worker.Parley]. Its Key is shown to all that
	// have no credential of their own.
	Worker worker.Config
	// ParleyKey is shown to Parley workers that have no other key. Servers of other
	// kinds never see it, whatever names their kind.
	ParleyKey string
	// BlockTokens is the size of their blocks, for those that do not say; 0 means
	// that of vLLM, 16.
	BlockTokens int
}

// Connect asks the worker at a place what it is; see [Connector].
func (d Dialer) Connect(ctx context.Context, at discover.Address) (Member, error) {
	cfg := d.Worker
	cfg.URL, cfg.Key = at.URL, cmp.Or(at.Credential, cfg.Key)
	cfg.Kind = cmp.Or(worker.Kind(at.Kind), cfg.Kind, worker.Parley)
	if cfg.Kind == worker.Parley {
		cfg.Key = cmp.Or(cfg.Key, d.ParleyKey)
	}
	cfg.Role = cmp.Or(parley.WorkerRole(at.Labels["role"]), cfg.Role)
	cfg.Events, cfg.Replay = socketAt(at, "events", cfg.Events), socketAt(at, "replay", cfg.Replay)
	remote, err := worker.Dial(cfg)
	if err != nil {
		return Member{}, err
	}
	bounded, cancel := context.WithTimeout(ctx, probeFirst)
	defer cancel()
	status, err := remote.Probe(bounded)
	if err == nil && len(remote.Models()) == 0 {
		err = fmt.Errorf("worker %s has no model", at.URL)
	}
	if err != nil {
		remote.Close()
		return Member{}, err
	}
	promises := remote.Promises()
	block := cmp.Or(status.BlockTokens, d.BlockTokens, blockDefault)
	if !promises.TokenPrompts {
		block = 0 // it makes tokens of its own
	}
	var follow func(context.Context, *Feed) error
	if promises.Events {
		follow = func(ctx context.Context, to *Feed) error { return remote.Follow(ctx, to.Listener()) }
	}
	var sourceOf func(model string) kvindex.Source
	if promises.ModelEvents {
		sourceOf = remote.Source
	}
	var asleep, awake func(context.Context) error
	if promises.Sleep {
		asleep, awake = remote.Sleep, remote.Wake
	}
	var blocks func(instance string, until time.Time) parley.BlockSource
	var learnFrom func(context.Context, [][]byte) ([]byte, error)
	if cfg.Kind == worker.Parley {
		learnFrom = remote.LearnFrom
		blocks = func(instance string, until time.Time) parley.BlockSource {
			return parley.BlockSource{URL: cfg.URL, Ticket: kvwire.Sign(cfg.Key, instance, until)}
		}
	}
	var divides string
	var meet func() json.RawMessage
	if cfg.Kind.Divides() {
		divides = string(cfg.Kind)
	}
	if cfg.Kind == worker.SGLang {
		meet = remote.Meet
	}
	return Member{
		Blocks:         blocks,
		LearnFrom:      learnFrom,
		Divides:        divides,
		Meet:           meet,
		Name:           at.Name,
		Pool:           d.Pool,
		Kind:           string(cfg.Kind),
		Worker:         remote,
		BlockTokens:    block,
		CapacityTokens: status.CapacityBlocks * block,
		Source:         remote.Source(remote.Models()[0].ID),
		TextOnly:       !promises.TokenIDs,
		TurnsOnly:      cfg.Kind.TakesTurns(),
		Withdraws:      promises.Whole,
		Resume:         resuming(&promises),
		Probe:          func(ctx context.Context) (Condition, error) { return probeRemote(ctx, remote, block) },
		Close:          func() error { remote.Close(); return nil },
		Follow:         follow,
		SourceOf:       sourceOf,
		Sleep:          asleep,
		Wake:           awake,
	}, nil
}

// resuming returns how a kind of worker resumes an answer begun elsewhere.
func resuming(p *worker.Promises) Resuming {
	switch {
	case p.Whole:
		return ResumeExact
	case p.TokenPrompts:
		return ResumeAsPrompt
	}
	return ResumeNever
}

// socketAt is where a worker's events are: as its place says, or as is usual, with
// {host} for its own.
func socketAt(at discover.Address, label, usual string) string {
	host := at.URL
	if u, err := url.Parse(at.URL); err == nil {
		host = u.Hostname()
	}
	return strings.ReplaceAll(cmp.Or(at.Labels[label], usual), "{host}", host)
}

// probeFirst is how long a worker may take to say what it is.
const probeFirst = 5 * time.Second

// blockDefault is the size of vLLM's blocks, and of ours.
const blockDefault = 16

func probeRemote(ctx context.Context, remote *worker.Remote, block int) (Condition, error) {
	s, err := remote.Probe(ctx)
	if err != nil {
		return Condition{}, err
	}
	capacity := s.CapacityBlocks * block
	return Condition{
		Models:         remote.Models(),
		Draining:       s.Draining,
		MoveWithin:     s.MoveWithin,
		Sleeping:       s.Sleeping && remote.Promises().Sleep,
		Instance:       s.Instance,
		Running:        s.Running,
		CapacityTokens: capacity,
		UsedTokens:     int(s.KVUse * float64(capacity)),
		Version:        s.Version,
		Seats:          s.Seats,
		Waiting:        s.Waiting,
		BusySeconds:    s.BusySeconds,
		Preemptions:    s.Preemptions,
		ReadySeconds:   s.ReadySeconds,
		Format:         s.Format,
		BlockBytes:     s.BlockBytes,
		Place:          s.Place,
		Role:           s.Role,
		Device:         s.Device,
	}, nil
}

// Listener passes a worker's events on.
func (f *Feed) Listener() worker.Listener {
	return worker.Listener{
		Connected:   f.Reconnected,
		Batch:       f.Apply,
		ReplayEnded: f.ReplayEnded,
		Snapshot:    f.Restore,
		Wants:       f.Wants,
		Lost: func(err error) {
			f.fleet.cfg.Log.Debug("worker events lost; reconnecting", "error", err)
		},
	}
}
