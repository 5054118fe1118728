// Package prefix reports to operators when the prompts of an application stop hitting the cache, because something near
// their beginning changes from one request to the next. It sees what every model of the gateway has answered, on
// engines of this process and on workers alike.
package prefix

import (
	"log/slog"
	"slices"
	"sync"
	"time"

	"parley"
	"parley/gateway/admin"
	"parley/route"

	"github.com/prometheus/client_golang/prometheus"
)

// kept is how many of the latest findings are shown.
const kept = 64

// A Watch follows the prompts of all applications. Its methods may be called at any time.
type Watch struct {
	log    *slog.Logger
	now    func() time.Time
	breaks prometheus.Counter

	mu       sync.Mutex
	watch    *route.Watch
	findings []admin.Finding // the latest last
}

// New returns a watch that has seen nothing.
func New(registry prometheus.Registerer, log *slog.Logger, now func() time.Time) (*Watch, error) {
	w := &Watch{log: log, now: now, watch: route.NewWatch(route.WatchConfig{}), breaks: prometheus.NewCounter(
		prometheus.CounterOpts{
			Name: "parley_prefix_breaks_total",
			Help: "Applications whose prompts stopped hitting the cache because their beginning changes.",
		})}
	return w, registry.Register(w.breaks)
}

// Saw takes a prompt of an application that was answered, of which cached tokens were found.
func (w *Watch) Saw(r *parley.Request, application string, cached int) {
	s := route.ServedPrompt{Tenant: r.Tenant, Family: r.Model, Tokens: r.Prompt, CachedTokens: cached}
	if r.Purpose != "" {
		s.Family += " for " + string(r.Purpose)
	}
	if application != "" {
		s.Family += ", " + application
	}
	if len(r.Turns) > 0 && r.Turns[0].Role == "system" {
		s.System = r.Turns[0].Text
	}
	w.mu.Lock()
	found := w.watch.See(s)
	if found != nil {
		w.findings = append(w.findings[max(0, len(w.findings)+1-kept):], shown(found, r.Model, w.now()))
	}
	w.mu.Unlock()
	if found == nil {
		return
	}
	w.breaks.Inc()
	w.log.Warn("prompt prefix changed", "organization", found.Tenant, "family", found.Family, "block", found.Block,
		"from", found.From, "to", found.To, "hits_before", found.HitsBefore, "hits_now", found.HitsNow)
}

// Findings returns what was found, the latest last.
func (w *Watch) Findings() []admin.Finding {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.findings)
}

func shown(f *route.Finding, model string, now time.Time) admin.Finding {
	return admin.Finding{
		At:           now.Unix(),
		Model:        model,
		Tenant:       f.Tenant,
		Family:       f.Family,
		System:       f.System,
		HitsBefore:   f.HitsBefore,
		HitsNow:      f.HitsNow,
		From:         f.From,
		To:           f.To,
		StableTokens: f.StableTokens,
		Was:          f.Was,
		Now:          f.Now,
		Text:         f.String(),
	}
}
