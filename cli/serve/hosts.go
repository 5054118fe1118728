package serve

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"log/slog"

	"parley/cli/library"
	"parley/cli/settings"
	"parley/gateway/models"
	"parley/internal/builtin"
	"parley/worker/host"

	"github.com/prometheus/client_golang/prometheus"
)

// startHosts opens the models, prints the plan of memory and loads what fits.
// free is what they leave of the memory.
func startHosts(
	s *settings.Settings, registry prometheus.Registerer, log *slog.Logger, out io.Writer,
) (hosts []*host.Host, free int64, err error) {
	candidates, err := openModels(s, log)
	if err != nil {
		return nil, 0, err
	}
	for i := range candidates {
		candidates[i].Config.Registry, candidates[i].Config.Followed = registry, len(s.AllPools()) > 0
	}
	plans, available, err := host.PlanDevice(candidates, log)
	if err != nil {
		return nil, 0, err
	}
	printPlans(out, plans, available)
	free = available
	for _, p := range plans {
		h, err := host.Start(p)
		if err != nil {
			return hosts, 0, err
		}
		hosts = append(hosts, h)
		free -= p.Bytes()
	}
	return hosts, free, nil
}

// openModels opens the checkpoints that the settings name, or the built-in ones.
func openModels(s *settings.Settings, log *slog.Logger) (out []host.Candidate, err error) {
	if len(s.Models) == 0 {
		for _, m := range builtin.Models() {
			ck, err := m.Open()
			if err != nil {
				return nil, fmt.Errorf("built-in model %s: %w", m.Name, err)
			}
			out = append(out, host.Candidate{Checkpoint: ck, Config: s.HostConfig(m.Name, log)})
			if err := addDraft(s, &out[len(out)-1], m.Name); err != nil {
				return nil, err
			}
		}
		return out, nil
	}
	for _, m := range s.Models {
		ck, name, err := library.OpenNamed(s, m.Path)
		if err != nil {
			return nil, err
		}
		name = cmp.Or(m.Name, name)
		out = append(out, host.Candidate{Checkpoint: ck, Config: s.HostConfig(name, log)})
		if err := addDraft(s, &out[len(out)-1], m.Path); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func served(hosts []*host.Host) (list []models.Config) {
	for i, h := range hosts {
		m := h.Models()[0]
		_, demo := builtin.Find(m.ID)
		list = append(list, models.Config{
			ID:            m.ID,
			Worker:        h,
			Tokenizer:     h.Tokenizer,
			Template:      h.Template,
			ContextTokens: m.ContextTokens,
			Default:       i == 0,
			Demo:          demo,
			About:         aboutOf(m.ID, &h.Summary, ""),
		})
	}
	return list
}

func closeAll(hosts []*host.Host) error {
	var errs []error
	for _, h := range hosts {
		errs = append(errs, h.Close())
	}
	return errors.Join(errs...)
}
