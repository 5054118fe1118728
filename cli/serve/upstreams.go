package serve

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"

	"parley/cli/settings"
	"parley/fleet"
	"parley/fleet/discover"
	"parley/gateway/models"
	"parley/internal/builtin"
	"parley/token"
	"parley/token/gauge"
	"parley/worker"
	"parley/worker/host"
)

// upstreamTemplate renders conversations for models that render them themselves: its text is what
// prompts are measured by, and what equal requests are known by.
const upstreamTemplate = `{% for m in messages %}<|{{ m.role }}|>
{% if m.reasoning_content %}{{ m.reasoning_content }}
{% endif %}{{ m.content or '' }}{% for c in m.tool_calls or [] %}
{{ c.function.name }} {{ c.function.arguments if c.function.arguments is string else c.function.arguments | tojson }}{% endfor %}
{% endfor %}{% if add_generation_prompt %}<|assistant|>
{% endif %}`

// offerUpstreams adds the models of upstreams to what is served. Their tokens are measured with the
// built-in tokenizer, since theirs are not known.
func (b *backend) offerUpstreams(s *settings.Settings) error {
	if len(s.Upstreams) == 0 {
		return nil
	}
	stand, err := openStandIn()
	if err != nil {
		return err
	}
	template, err := token.NewChatTemplate(upstreamTemplate, nil)
	if err != nil {
		return fmt.Errorf("the template of upstreams: %w", err)
	}
	b.gauges = map[string]*gauge.Gauge{}
	for _, u := range s.Upstreams {
		for _, name := range slices.Sorted(maps.Keys(u.Models)) {
			if slices.ContainsFunc(b.served, func(m models.Config) bool { return m.ID == name }) {
				return fmt.Errorf("upstream %s: the model %q is served already: choose another name", u.Name, name)
			}
			b.gauges[name] = gauge.New()
			b.served = append(b.served, models.Config{
				ID:            name,
				Tokenizer:     stand,
				Template:      template,
				Gauge:         b.gauges[name],
				ContextTokens: cmp.Or(u.Models[name].Context, settings.UpstreamContext),
				OwnedBy:       u.Name,
				Default:       len(b.served) == 0,
			})
		}
	}
	return nil
}

// openStandIn returns the tokenizer of the first built-in model.
func openStandIn() (*token.Tokenizer, error) {
	m := builtin.Models()[0]
	ck, err := m.Open()
	if err != nil {
		return nil, fmt.Errorf("built-in model %s: %w", m.Name, err)
	}
	front, err := host.OpenFront(host.Candidate{Checkpoint: ck, Config: host.Config{Name: m.Name}})
	if err != nil {
		return nil, err
	}
	return front.Tokenizer, nil
}

// upstreamPools are the pools of the upstreams: each has its own queue and its own breaker.
func upstreamPools(s *settings.Settings) (pools []fleet.Pool) {
	for _, u := range s.Upstreams {
		pools = append(pools, fleet.Pool{
			Name:    upstreamPool(&u),
			Purpose: fleet.AnyPurpose,
			Models:  slices.Sorted(maps.Keys(u.Models)),
		})
	}
	return pools
}

func upstreamPool(u *settings.UpstreamConfig) string { return "upstream/" + u.Name }

// findUpstream lets a service join its pool.
func (b *backend) findUpstream(ctx context.Context, u *settings.UpstreamConfig, log *slog.Logger) error {
	source, err := discover.Static([]discover.Address{{Name: u.Name, URL: u.URL, Kind: u.Kind}})
	if err != nil {
		return err
	}
	known := map[string]worker.UpstreamModel{}
	for name, m := range u.Models {
		known[name] = worker.UpstreamModel{
			Name:          cmp.Or(m.Name, name),
			ContextTokens: cmp.Or(m.Context, settings.UpstreamContext),
			OutputTokens:  m.Output,
			Fields:        m.Fields,
			Gauge:         b.gauges[name],
		}
	}
	dial := fleet.Dialer{Pool: upstreamPool(u), Worker: worker.Config{
		Kind:     worker.Kind(u.Kind),
		Key:      u.Key,
		Log:      log,
		Upstream: &worker.Upstream{Models: known, Silence: u.Timeout, ProbeEvery: u.ProbeEvery},
	}}
	b.finds.Go(func() { b.fleet.Populate(ctx, dial.Pool, source, dial.Connect) })
	return nil
}
