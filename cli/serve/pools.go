package serve

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"parley"
	"parley/cli/settings"
	"parley/compute"
	"parley/fleet"
	"parley/fleet/discover"
	"parley/gateway"
	"parley/gateway/models"
	"parley/token/gauge"
	"parley/worker"
	"parley/worker/host"
	"parley/worker/kvstore"

	"github.com/prometheus/client_golang/prometheus"
)

// A backend is what computes behind the gateway: engines in this process, a fleet of
// workers, or both.
type backend struct {
	hosts  []*host.Host
	served []models.Config
	fleet  *fleet.Fleet // nil if this process computes alone
	api    *gateway.FleetAPI
	device string
	// freeBytes is what the hosts leave of the memory.
	freeBytes int64
	// workerTLS is how workers are spoken to over https.
	workerTLS func() *tls.Config
	// gauges are those of the models of upstreams.
	gauges map[string]*gauge.Gauge
	// blocks is the store of keys and values behind the hosts; nil without.
	blocks *kvstore.Store
	stop   context.CancelFunc
	finds  sync.WaitGroup
}

// openBack starts what computes. It is closed even if there is an error.
func openBack(ctx context.Context, s *settings.Settings, registry prometheus.Registerer, log *slog.Logger,
	out io.Writer) (b *backend, err error) {
	b = &backend{}
	if b.blocks, err = s.OpenKVStore(log); err != nil {
		return b, err
	}
	if b.blocks != nil {
		registry.MustRegister(b.blocks.Metrics()...)
	}
	if s.Computes() {
		if b.hosts, b.freeBytes, err = startHosts(s, registry, log, out); err != nil {
			return b, err
		}
		b.served, b.device = served(b.hosts), b.hosts[0].Device
	} else if b.served, err = Fronts(s, log); err != nil {
		return b, err
	}
	own := len(b.served)
	if err = b.offerUpstreams(s); err != nil {
		return b, err
	}
	if len(b.served) == 0 {
		return b, errors.New("--model none serves nothing of its own: configure upstreams")
	}
	if pools := s.AllPools(); len(pools) > 0 || len(s.Upstreams) > 0 {
		err = b.gatherFleet(ctx, s, own, pools, registry, log)
	}
	return b, err
}

// close ends what computes.
func (b *backend) close() error {
	var errs []error
	if b.fleet != nil {
		b.stop()
		b.finds.Wait()
		errs = append(errs, b.fleet.Close())
	}
	errs = append(errs, closeAll(b.hosts))
	if b.blocks != nil {
		errs = append(errs, b.blocks.Close())
	}
	return errors.Join(errs...)
}

// Fronts opens of each model what the gateway needs: how text becomes tokens.
func Fronts(s *settings.Settings, log *slog.Logger) (list []models.Config, err error) {
	if s.NoModels() {
		return nil, nil
	}
	candidates, err := openModels(s, log)
	for i, c := range candidates {
		front, fault := host.OpenFront(c)
		if err = errors.Join(err, fault); fault == nil {
			list = append(list, models.Config{
				ID:            front.Name,
				Tokenizer:     front.Tokenizer,
				Template:      front.Template,
				ContextTokens: front.ContextTokens,
				Default:       i == 0,
				About:         aboutOf(front.Name, &front.Summary, ""),
			})
		}
	}
	return list, err
}

// gatherFleet makes a fleet of the pools and the upstreams, and lets its workers be found. The first own
// models are not of upstreams; without pools, engines of this process answer for them.
func (b *backend) gatherFleet(ctx context.Context, s *settings.Settings, own int, pools []settings.PoolConfig,
	registry prometheus.Registerer,
	log *slog.Logger) error {
	cfg := fleet.Config{
		Log:         log,
		Registry:    registry,
		HedgeAfter:  s.HedgeAfter,
		NoTransfers: s.KVTransfer.Off,
		WarmMax:     s.KVTransfer.WarmUp,
		EmptyWait:   s.Admission.WorkerWait,
	}
	first := 0
	if len(pools) == 0 {
		first = own
	}
	for _, m := range b.served[first:] {
		cfg.Models = append(cfg.Models, parley.Model{ID: m.ID, ContextTokens: m.ContextTokens})
	}
	var registering []discover.Admission
	for i := range pools {
		p, err := pools[i].Pool()
		if err != nil {
			return err
		}
		if len(p.Models) == 0 && len(s.Upstreams) > 0 {
			for _, m := range b.served[:own] {
				p.Models = append(p.Models, m.ID)
			}
		}
		cfg.Pools = append(cfg.Pools, p)
		if at := slices.IndexFunc(pools[i].Workers, func(w settings.PoolWorker) bool { return w.Register }); at >= 0 {
			registering = append(registering, s.JoinAdmission(p.Name, &pools[i].Workers[at]))
		}
	}
	cfg.Pools = append(cfg.Pools, upstreamPools(s)...)
	f, err := fleet.New(cfg)
	if err != nil {
		return err
	}
	b.fleet = f
	ctx, b.stop = context.WithCancel(context.WithoutCancel(ctx))
	if b.workerTLS, err = WorkerTLS(s, log); err != nil {
		return err
	}
	admin := fleet.Admin{Fleet: f, Token: s.OperateToken}
	b.api = &gateway.FleetAPI{Operate: admin.Handler(), MayOperate: admin.MayOperate}
	var registrar *discover.Registrar
	if len(registering) > 0 {
		if registrar, err = discover.NewRegistrar(s.JoinToken, registering, 0, log); err != nil {
			return fmt.Errorf("%w (--fleet-join-token)", err)
		}
		b.api.Register = registrar
	}
	for i := range b.served[first:] {
		b.served[first+i].Worker = f
	}
	for i := range s.Upstreams {
		if err := b.findUpstream(ctx, &s.Upstreams[i], log); err != nil {
			return fmt.Errorf("upstream %s: %w", s.Upstreams[i].Name, err)
		}
	}
	for i := range pools {
		for j := range pools[i].Workers {
			if err := b.find(ctx, s, &pools[i], &pools[i].Workers[j], registrar, log); err != nil {
				return fmt.Errorf("pool %s, worker %d: %w", pools[i].Name, j+1, err)
			}
		}
	}
	return nil
}

// find lets workers join from where a line of the configuration says.
func (b *backend) find(ctx context.Context, s *settings.Settings, p *settings.PoolConfig, w *settings.PoolWorker,
	registrar *discover.Registrar,
	log *slog.Logger) error {
	if w.InProcess {
		return b.joinHosts(p)
	}
	var source discover.Source
	var err error
	switch {
	case w.URL != "":
		source, err = discover.Static([]discover.Address{{Name: w.Name, URL: w.URL, Kind: w.Kind}})
	case w.File != "":
		source = discover.File(w.File, time.Second, log)
	case w.DNS != "":
		source, err = discover.DNS(w.DNS, 5*time.Second, discover.SystemResolver(), log)
	case w.Kubernetes != nil:
		k := w.Kubernetes
		source, err = discover.Kubernetes{
			Service:   k.Service,
			Namespace: k.Namespace,
			Port:      k.Port,
			Scheme:    k.Scheme,
			API:       k.API,
			TokenFile: k.TokenFile,
			CAFile:    k.CAFile,
			Log:       log,
		}.Source()
	case w.Register:
		source = registrar.Source(p.Name)
	}
	if err != nil {
		return err
	}
	dial := fleet.Dialer{Pool: p.Name, ParleyKey: s.ParleyKey(w), Worker: worker.Config{
		Kind:          worker.Kind(w.Kind),
		Role:          w.Role,
		Names:         b.namesAt(p, w),
		Key:           w.Key,
		TLS:           b.workerTLS,
		Networks:      s.NetworksOf(w),
		Events:        w.Events,
		Replay:        w.Replay,
		Log:           log,
		Text:          b.text,
		ContextTokens: b.served[0].ContextTokens,
	}}
	b.finds.Go(func() { b.fleet.Populate(ctx, dial.Pool, source, dial.Connect) })
	return nil
}

// text returns the text of a prompt for workers that take no tokens.
func (b *backend) text(model string, prompt []parley.Token) string {
	var out strings.Builder
	for _, m := range b.served {
		if m.ID == model {
			for _, t := range prompt {
				out.Write(m.Tokenizer.Bytes(t))
			}
		}
	}
	return out.String()
}

// namesAt returns what a worker calls our models. One name alone is that of the
// pool's first model, or of ours.
func (b *backend) namesAt(p *settings.PoolConfig, w *settings.PoolWorker) map[string]string {
	names := maps.Clone(w.Models)
	if w.Model != "" {
		if names == nil {
			names = map[string]string{}
		}
		names[slices.Concat(p.Models, []string{b.served[0].ID})[0]] = w.Model
	}
	return names
}

// joinHosts lets the engines of this process join a pool.
func (b *backend) joinHosts(p *settings.PoolConfig) error {
	for _, h := range b.hosts {
		id := h.Models()[0].ID
		if len(p.Models) > 0 && !slices.Contains(p.Models, id) {
			continue
		}
		name := "local/" + p.Name + "/" + id
		if err := b.fleet.Join(localMember(name, p.Name, h)); err != nil {
			return fmt.Errorf("worker %s: %w", name, err)
		}
	}
	return nil
}

// localMember makes a member of an engine in this process. What its cache holds
// is known exactly, as of a worker elsewhere.
func localMember(name, pool string, h *host.Host) fleet.Member {
	source := h.Source()
	capacity := source.CapacityBlocks * compute.BlockTokens
	return fleet.Member{
		Name:           name,
		Pool:           pool,
		Kind:           "in-process",
		Worker:         h,
		BlockTokens:    compute.BlockTokens,
		CapacityTokens: capacity,
		Source:         source,
		Probe: func(context.Context) (fleet.Condition, error) {
			s := h.Stats()
			return fleet.Condition{
				Running:        s.Running,
				UsedTokens:     s.Pool.InUse * compute.BlockTokens,
				CapacityTokens: capacity,
				Draining:       h.Err() != nil, // a device that failed takes nothing new
			}, nil
		},
		Follow: func(ctx context.Context, to *fleet.Feed) error { return h.Follow(ctx, to.Listener()) },
	}
}

// names lists the models, the first of several marked.
func (b *backend) names() (names []string) {
	for i, m := range b.served {
		name := m.ID
		if i == 0 && len(b.served) > 1 {
			name += " (default)"
		}
		names = append(names, name)
	}
	return names
}

// computedBy describes what computes.
func (b *backend) computedBy() string {
	if b.fleet == nil {
		return b.device
	}
	const others = "workers; see them with `parley fleet status`"
	if b.device != "" {
		return b.device + ", and " + others
	}
	return others
}
