package serve

import (
	"strings"

	"parley/fleet"
	"parley/gateway/admin"
)

// admin gives operators access to the fleet; nil if there is none.
func (b *backend) admin() *admin.Fleet {
	if b.fleet == nil {
		return nil
	}
	return &admin.Fleet{
		Workers: func() []admin.Worker { return shownWorkers(b.fleet.Standings()) },
		Drain:   func(name string) error { return b.fleet.Drain(name, -1) },
		Resume:  b.fleet.Resume,
		Sleep:   func(name string) error { return b.fleet.Sleep(name, -1) },
		Wake:    b.fleet.Wake,
	}
}

func shownWorkers(standings []fleet.Standing) (workers []admin.Worker) {
	for i := range standings {
		s := &standings[i]
		w := admin.Worker{
			Name:           s.Name,
			Pool:           s.Pool,
			Model:          strings.Join(s.Models, ", "),
			Kind:           s.Kind,
			Version:        s.Version,
			State:          string(s.State),
			Trouble:        s.Trouble,
			Sleeps:         s.Sleeps,
			Running:        max(s.Answering, s.Running),
			Waiting:        s.Waiting,
			BusyTotal:      s.BusySeconds,
			PreemptedTotal: float64(s.Preemptions),
			AskedTotal:     float64(s.PromptTokens),
			HitTotal:       float64(s.CachedTokens),
			ReadySeconds:   s.ReadySeconds,
			Device:         s.Device,
		}
		if s.CapacityTokens > 0 {
			w.KV = float64(s.UsedTokens) / float64(s.CapacityTokens)
		}
		workers = append(workers, w)
	}
	return workers
}
