package settings

import (
	"net/netip"

	"parley/fleet"
	"parley/fleet/discover"
	"parley/worker"
)

// JoinAdmission says which workers may register for an entry of a pool.
func (s *Settings) JoinAdmission(pool string, w *PoolWorker) discover.Admission {
	kinds := w.Kinds
	if len(kinds) == 0 {
		kinds = s.JoinKinds
	}
	return discover.Admission{Pool: pool, Networks: s.NetworksOf(w), Kinds: kinds}
}

// NetworksOf returns where the workers of an entry must be; those of configured ones may
// be anywhere.
func (s *Settings) NetworksOf(w *PoolWorker) []netip.Prefix {
	if !w.Register {
		return nil
	}
	networks := w.networks
	if len(networks) == 0 {
		networks = s.JoinNetworks
	}
	if len(networks) == 0 {
		networks = discover.PrivateNetworks()
	}
	return networks
}

// ParleyKey returns the key that is sent to the Parley workers of an entry which has
// none of its own. Workers that register are called with credentials of their own.
func (s *Settings) ParleyKey(w *PoolWorker) string {
	if kind := worker.Kind(w.Kind); w.Register || kind != "" && kind != worker.Parley {
		return ""
	}
	return s.WorkerKey
}

// SaltSecret returns what keeps the cached contexts of tenants apart: the
// settings' own, or what all gateways on one store share.
func (s *Settings) SaltSecret(stored []byte) []byte {
	if len(s.SaltKey) > 0 {
		return s.SaltKey
	}
	return stored
}

// AllPools returns the pools of the file, or one for all the workers that were
// named; none if this process computes alone.
func (s *Settings) AllPools() []PoolConfig {
	pools := s.Pools
	if len(s.Workers) > 0 {
		pools = append(pools[:len(pools):len(pools)],
			PoolConfig{Name: fleet.DefaultPool().Name, Purpose: string(fleet.AnyPurpose), Workers: s.Workers})
	}
	return pools
}

// Computes reports whether models are computed in this process.
func (s *Settings) Computes() bool {
	pools := s.AllPools()
	for _, p := range pools {
		for _, w := range p.Workers {
			if w.InProcess {
				return true
			}
		}
	}
	return len(pools) == 0 && !s.NoModels()
}

// NoModels reports whether this process is to have no models of its own: only upstreams.
func (s *Settings) NoModels() bool { return len(s.Models) == 1 && s.Models[0] == (Model{Path: "none"}) }
