// Package discover finds workers. A [Source] reports all of them whenever they change:
// from a list, a file, DNS, Kubernetes, or from workers that register themselves.
//
// A failed lookup reports nothing: workers are not dropped because a file is being
// written, a name server restarts or an API server is upgraded. Probes decide whether a
// worker is healthy.
package discover

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/url"
	"slices"
	"sort"
	"time"
)

// An Address is where a worker is.
type Address struct {
	// Name is unique in a source; default: the host and port of the URL.
	Name string `json:"name,omitempty"`
	// URL is where it listens, http or https.
	URL string `json:"url"`
	// Kind says what it is; empty leaves it to the source's default.
	Kind string `json:"kind,omitempty"`
	// Labels are what else is known of it.
	Labels map[string]string `json:"labels,omitempty"`
	// Credential is what the gateway shows to a worker that registered itself.
	Credential string `json:"-"`
}

// equal reports whether two places are the same worker.
func (p Address) equal(q Address) bool {
	return p.Name == q.Name && p.URL == q.URL && p.Kind == q.Kind && p.Credential == q.Credential &&
		maps.Equal(p.Labels, q.Labels)
}

// complete fills in the name, and reports what is wrong.
func (p *Address) complete() error {
	u, err := url.Parse(p.URL)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return fmt.Errorf("the URL of a worker is %q: expected one such as http://10.0.0.7:8000", p.URL)
	}
	p.Name = cmp.Or(p.Name, u.Host)
	return nil
}

// A Source reports all places whenever they change, and first as soon as it knows
// them, until ctx ends.
type Source func(ctx context.Context, tell func([]Address))

// complete puts places in order, and reports what is wrong with them.
func complete(places []Address) ([]Address, error) {
	var problems []error
	for i := range places {
		problems = append(problems, places[i].complete())
	}
	sort.Slice(places, func(i, j int) bool { return places[i].Name < places[j].Name })
	for i := range places[min(1, len(places)):] {
		if places[i].Name == places[i+1].Name {
			problems = append(problems, fmt.Errorf("two workers have the name %q", places[i].Name))
		}
	}
	return places, errors.Join(problems...)
}

// Static always reports the same places.
func Static(places []Address) (Source, error) {
	places, err := complete(slices.Clone(places))
	return func(ctx context.Context, tell func([]Address)) {
		tell(places)
		<-ctx.Done()
	}, err
}

// poll calls ask repeatedly and reports changes. An error changes nothing; it is
// logged when it is a new one.
func poll(ctx context.Context, every time.Duration, log *slog.Logger, ask func(context.Context) ([]Address, error),
	tell func([]Address)) {
	var last []Address
	told, trouble := false, ""
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		places, err := ask(ctx)
		if err == nil {
			places, err = complete(places)
		}
		switch {
		case ctx.Err() != nil:
			return
		case err != nil && err.Error() != trouble:
			trouble = err.Error()
			log.Warn("worker discovery failed; keeping known workers", "error", err)
		case err == nil && (!told || !slices.EqualFunc(places, last, Address.equal)):
			last, told, trouble = places, true, ""
			tell(slices.Clone(places))
		}
		timer.Reset(every)
	}
}

// orDefault returns a log that can be written to.
func orDefault(log *slog.Logger) *slog.Logger {
	if log == nil {
		return slog.New(slog.DiscardHandler)
	}
	return log
}
