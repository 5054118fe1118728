package weights

import (
	"sort"
	"strings"
)

// A Share is a part of a model's weights.
type Share struct {
	Name       string `json:"name"`
	Tensors    int    `json:"tensors"`
	Parameters int64  `json:"parameters"`
	Bytes      int64  `json:"bytes"`
}

// A KVCost is how much memory the keys and values of one token take.
type KVCost struct {
	Type          string `json:"type"`
	BytesPerToken int64  `json:"bytes_per_token"`
}

// A Summary is what there is to say about a checkpoint without running it.
type Summary struct {
	Path         string `json:"path,omitempty"`
	Format       Format `json:"format"`
	Name         string `json:"name,omitempty"`
	Architecture string `json:"architecture"`
	// Parameters counts the language model's; ActiveParameters those that one
	// token goes through, which is fewer in a model with experts.
	Parameters       int64 `json:"parameters"`
	ActiveParameters int64 `json:"active_parameters"`
	Tensors          int   `json:"tensors"`
	// Bytes is the size of the tensors, FileBytes that of the files.
	Bytes     int64   `json:"bytes"`
	FileBytes int64   `json:"file_bytes"`
	Files     []File  `json:"files"`
	Classes   []Share `json:"classes"`
	Types     []Share `json:"types"`
	Config    Config  `json:"config"`
	// KVCache lists the cost of a token for each type of cache.
	KVCache      []KVCost `json:"kv_cache"`
	ChatTemplate bool     `json:"chat_template"`
	// Problems are what [Checkpoint.CheckTensors] found; a model with any
	// cannot be run.
	Problems []string `json:"problems,omitempty"`
}

// Describe sums a checkpoint up.
func Describe(ck *Checkpoint) Summary {
	s := Summary{
		Path:         ck.Path,
		Format:       ck.Format,
		Architecture: ck.Config.Architecture,
		Files:        ck.Files,
		FileBytes:    ck.Bytes(),
		Tensors:      len(ck.tensors),
		Config:       ck.Config,
		KVCache:      kvCosts(&ck.Config),
		ChatTemplate: ck.ChatTemplate != "",
	}
	s.Name, _ = ck.meta["general.name"].(string)
	classes, types := map[string]*Share{}, map[string]*Share{}
	for _, t := range ck.tensors {
		cl := tensorClass(t.Name)
		addShare(classes, string(cl), t)
		addShare(types, t.Type.String(), t)
		s.Bytes += int64(len(t.Stored()))
		if cl != classOther {
			s.Parameters += t.Elements()
		}
	}
	s.ActiveParameters = s.Parameters - idleParameters(&ck.Config)
	s.Classes, s.Types = sortedShares(classes), sortedShares(types)
	if err := ck.CheckTensors(); err != nil {
		s.Problems = strings.Split(err.Error(), "\n")
	}
	return s
}

func addShare(shares map[string]*Share, name string, t Tensor) {
	s := shares[name]
	if s == nil {
		s = &Share{Name: name}
		shares[name] = s
	}
	s.Tensors++
	s.Parameters += t.Elements()
	s.Bytes += int64(len(t.Stored()))
}

// sortedShares returns the shares, largest first.
func sortedShares(shares map[string]*Share) []Share {
	list := make([]Share, 0, len(shares))
	for _, s := range shares {
		list = append(list, *s)
	}
	sort.Slice(list, func(i, j int) bool {
		a, b := &list[i], &list[j]
		return a.Bytes > b.Bytes || a.Bytes == b.Bytes && a.Name < b.Name
	})
	return list
}

// tensorClass returns the part of the model that a canonical name belongs to.
func tensorClass(name string) class {
	switch name {
	case "token_embd.weight":
		return classEmbedding
	case "output.weight":
		return classOutput
	case "output_norm.weight":
		return classNorms
	}
	rest, ok := strings.CutPrefix(name, "blk.")
	if !ok {
		return classOther
	}
	_, local, _ := strings.Cut(rest, ".")
	switch {
	case strings.HasSuffix(local, "norm.weight"):
		return classNorms
	case strings.HasPrefix(local, "attn_"):
		return classAttention
	case local == "ffn_gate_inp.weight", strings.HasSuffix(local, "_exps.weight"), strings.HasPrefix(local, "ffn_") &&
		strings.Count(local, ".") == 2:
		return classExperts
	case strings.HasPrefix(local, "ffn_"):
		return classMLP
	}
	return classOther
}

// RoundsToF8 reports whether a tensor is rounded by [Tensor.ToF8] where a model is
// loaded so: the matrices of layers are, unless they are quantized already. The
// embedding, the output projection, the routers of experts, norms and biases stay
// as they are.
func (t Tensor) RoundsToF8() bool {
	switch tensorClass(t.Name) {
	case classAttention, classMLP, classExperts:
		return len(t.Shape) > 1 && (t.Type == BF16 || t.Type == F16 || t.Type == F32) &&
			!strings.HasSuffix(t.Name, ".ffn_gate_inp.weight")
	}
	return false
}

// idleParameters counts the weights of the experts a token does not go to.
func idleParameters(c *Config) int64 {
	var idle int64
	for l := range c.Layers {
		if c.IsSparse(l) {
			idle += int64(c.Experts-c.ExpertsPerToken) * 3 * int64(c.ExpertFFN) * int64(c.Hidden)
		}
	}
	return idle
}

// kvCosts returns the cost of a token for each type of cache. The eight-bit
// types have a 2-byte scale for each head.
func kvCosts(c *Config) []KVCost {
	heads := 2 * int64(c.Layers) * int64(c.KVHeads)
	cost := func(name string, elementBytes, scaleBytes int) KVCost {
		return KVCost{name, heads * int64(c.HeadDim*elementBytes+scaleBytes)}
	}
	return []KVCost{cost("f32", 4, 0), cost("bf16", 2, 0), cost("int8", 1, 2), cost("fp8", 1, 2)}
}
