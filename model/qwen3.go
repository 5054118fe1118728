package model

import "parley/compute"

// loadQwen3 loads Qwen3: a Llama whose queries and keys are normed head by
// head before they are rotated.
func loadQwen3(l *loader) (architecture, error) {
	return loadDecoder(l, l.mlp)
}

// loadQwen3MoE loads the sparse Qwen3, in most of whose layers each token
// passes through a few of many small MLPs.
func loadQwen3MoE(l *loader) (architecture, error) {
	return loadDecoder(l, func(i int) feedForward {
		if !l.net.cfg.IsSparse(i) {
			return l.mlp(i)
		}
		return l.mixture(i)
	})
}

// mixture loads the router and the experts of layer i.
func (l *loader) mixture(i int) feedForward {
	cfg := l.net.cfg
	e := &compute.Experts{
		Router: l.layer(i, "ffn_gate_inp.weight"), // [experts, hidden]
		MLPs:   make([]compute.MLP, cfg.Experts),
		TopK:   cfg.ExpertsPerToken, NormTopK: cfg.NormTopK,
	}
	for x := range e.MLPs {
		e.MLPs[x] = compute.MLP{
			Gate: l.expert(i, x, "gate"), // [expertFFN, hidden]
			Up:   l.expert(i, x, "up"),   // [expertFFN, hidden]
			Down: l.expert(i, x, "down"), // [hidden, expertFFN]
			Act:  activation(cfg),
		}
	}
	return feedForward{experts: e}
}

func (l *loader) expert(layer, expert int, which string) compute.Weight {
	t, err := l.ck.ListedExpert(layer, expert, which)
	if err != nil {
		l.errs = append(l.errs, err)
		return nil
	}
	return l.upload(t)
}
