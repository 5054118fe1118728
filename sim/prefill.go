package sim

import "parley"

// A PrefillSpec is the workers of a pool that compute prompts. They are like its others.
type PrefillSpec struct {
	Workers int `yaml:"workers"`
	// Scale lets their number follow the load, apart from that of the others.
	Scale *ScaleSpec `yaml:"scale"`
}

// prefill returns the workers for prompts, none where there are none.
func (p *PoolSpec) prefill() PrefillSpec {
	if p.Prefill == nil {
		return PrefillSpec{}
	}
	return *p.Prefill
}

// role returns what the workers of a pool do that are not for prompts.
func (p *PoolSpec) role() parley.WorkerRole {
	if p.Prefill == nil {
		return ""
	}
	return parley.RoleDecode
}

// scales lists how the numbers of workers follow the load.
func (p *PoolSpec) scales() (out []*ScaleSpec) {
	for _, s := range []*ScaleSpec{p.Scale, p.prefill().Scale} {
		if s != nil {
			out = append(out, s)
		}
	}
	return out
}
