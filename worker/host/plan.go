package host

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"parley/compute"
	"parley/compute/cpu"
	"parley/compute/cuda"
	"parley/model"
	"parley/model/weights"
)

// A Plan says where a model's memory will go, before any is taken.
type Plan struct {
	// Name is the model's.
	Name string `json:"name"`
	// WeightBytes are the weights as computed with. MappedBytes are the file's,
	// which the system can read again and so may drop.
	WeightBytes int64 `json:"weight_bytes"`
	MappedBytes int64 `json:"mapped_bytes"`
	// Weights is fp8 where weights are rounded to it when they are loaded.
	Weights string `json:"weights,omitempty"`
	// KVBytes are the key/value pool of KVTokens tokens.
	KVBytes  int64 `json:"kv_bytes"`
	KVTokens int   `json:"kv_tokens"`
	// KVType is the name of the pool's type.
	KVType string `json:"kv_type"`
	// KVHostBytes and KVDiskBytes are the tiers behind the pool.
	KVHostBytes int64 `json:"kv_host_bytes,omitempty"`
	KVDiskBytes int64 `json:"kv_disk_bytes,omitempty"`
	// ActivationBytes are the work space of one step, logits included.
	ActivationBytes int64 `json:"activation_bytes"`
	// Draft is what the model that guesses ahead takes beside that; nil without
	// one. Its pool holds the same tokens.
	Draft *Plan `json:"draft,omitempty"`
	// ContextTokens bounds prompt and answer together.
	ContextTokens int `json:"context_tokens"`

	ck  *weights.Checkpoint
	cfg Config
}

// Bytes returns what the plan takes in all.
func (p *Plan) Bytes() int64 {
	sum := p.fixedBytes()
	for d := p; d != nil; d = d.Draft {
		sum += d.KVBytes
	}
	return sum
}

// fixedBytes are what it takes whatever the size of the pool.
func (p *Plan) fixedBytes() int64 {
	sum := p.WeightBytes + p.ActivationBytes
	if !p.cfg.Device.GPU { // host memory is not the GPU's
		sum += p.KVHostBytes
	}
	if p.Draft != nil {
		sum += p.Draft.fixedBytes()
	}
	return sum
}

// A Candidate is a model that is to be hosted.
type Candidate struct {
	Checkpoint *weights.Checkpoint
	Config     Config
}

// kvShare is how much of the memory that weights and activations leave free
// the pools may take by default: the rest of the machine needs some, too.
const kvShare = 0.6

// kvTokensPlenty is a pool that is large enough by default, unless one full
// context is larger.
const kvTokensPlenty = 32768

// A GPU's memory is there for the pools alone, so they take more of it.
const (
	kvShareGPU        = 0.9
	kvTokensPlentyGPU = 1 << 20
)

// PlanMemory divides available bytes between the models. It fails, and says
// what would fit, when they do not fit.
func PlanMemory(candidates []Candidate, available int64) ([]*Plan, error) {
	var plans []*Plan
	free := available
	for _, c := range candidates {
		p := newPlan(c)
		if p.cfg.RoundF8 {
			if err := p.cfg.Device.CheckF8(); err != nil {
				return nil, err
			}
		}
		if slices.ContainsFunc(plans, func(o *Plan) bool { return o.Name == p.Name }) {
			return nil, fmt.Errorf("two models are named %s: rename one of them with --model NAME=PATH", p.Name)
		}
		plans = append(plans, p)
		free -= p.fixedBytes()
		if free < 0 {
			return nil,
				fmt.Errorf(
					"model %s does not fit: its weights need %s and its activations %s, and of %s available only "+
						"%s are left: use a smaller model or quantization",
					p.Name, Size(p.WeightBytes), Size(p.fixedBytes()-p.WeightBytes), Size(available),
					Size(max(0, free+p.fixedBytes())))
		}
	}
	for i, p := range plans {
		share := free / int64(len(plans)-i)
		if err := p.planPool(share); err != nil {
			return nil, err
		}
		free -= p.kvBytes(p.KVTokens)
	}
	return plans, nil
}

// newPlan sizes all but the pool.
func newPlan(c Candidate) *Plan {
	cfg := c.Config.withDefaults(c.Checkpoint)
	p := &Plan{
		Name:        cfg.Name,
		MappedBytes: c.Checkpoint.Bytes(),
		KVType:      cfg.KVType.String(),
		ck:          c.Checkpoint,
		cfg:         cfg,
		KVHostBytes: cfg.KVHostBytes,
		KVDiskBytes: cfg.KVDiskBytes,
	}
	for _, t := range c.Checkpoint.Tensors() {
		if cfg.Device.GPU {
			t = t.Narrow()
		}
		if cfg.RoundF8 && t.RoundsToF8() {
			t.Type = weights.F8E4M3
		}
		p.WeightBytes += weightBytes(t, cfg.Device)
	}
	if cfg.RoundF8 {
		p.Weights = "fp8"
	}
	mc := &c.Checkpoint.Config
	p.ActivationBytes = model.ActivationBytes(mc, cfg.StepTokens) + p.scratchBytes(mc)
	if cfg.Draft != nil && !cfg.NoSpeculation {
		p.Draft = newPlan(Candidate{cfg.Draft, cfg.forDraft()})
	}
	return p
}

// scratchBytes are the work space of the device, logits included.
func (p *Plan) scratchBytes(mc *weights.Config) int64 {
	limits := model.ScratchLimits(mc, p.limits())
	if p.cfg.Device.GPU {
		return cuda.ScratchBytes(limits, mc.Vocab)
	}
	return cpu.ScratchBytes(limits, p.cfg.Threads) + 4*int64(p.outputs())*int64(mc.Vocab)
}

// weightBytes returns what a tensor takes while it is computed with: its packed
// copy, or where it is read as it lies in the file, that part of the file.
func weightBytes(t weights.Tensor, d Device) int64 {
	if d.GPU {
		return cuda.WeightBytes(t)
	}
	if packed := cpu.PackedBytes(t.Type, t.Rows(), t.Cols()); packed > 0 {
		return packed
	}
	return int64(len(t.Data))
}

// ContextNotice explains why the context is smaller than the one that was asked for; empty if it is not.
func (p *Plan) ContextNotice() string {
	if p.ck == nil {
		return "" // it was not planned here
	}
	switch asked, model := p.cfg.ContextTokens, p.ck.Config.Context; {
	case asked <= p.ContextTokens:
		return ""
	case asked > model && p.ContextTokens == model:
		return fmt.Sprintf("--context %d is more than the %d tokens of model %s, which is what it gets", asked, model,
			p.Name)
	default:
		return fmt.Sprintf("--context %d is more than memory holds for model %s, which gets %d tokens", asked, p.Name,
			p.ContextTokens)
	}
}

// planPool chooses the size of the pool and so the context.
func (p *Plan) planPool(free int64) error {
	perBlock := p.kvBytes(compute.BlockTokens)
	context := p.ck.Config.Context
	if p.cfg.ContextTokens > 0 {
		context = min(context, p.cfg.ContextTokens)
	}
	fits := int(free/perBlock) * compute.BlockTokens
	p.KVTokens = p.cfg.KVTokens
	if p.KVTokens == 0 {
		plenty, share := kvTokensPlenty, kvShare
		if p.cfg.Device.GPU {
			plenty, share = kvTokensPlentyGPU, kvShareGPU
		}
		p.KVTokens = min(max(context, min(plenty, p.cfg.Seqs*context)), int(share*float64(fits)))
	}
	p.KVTokens = wholeBlocks(p.KVTokens)
	if p.KVTokens > fits || p.KVTokens == 0 {
		return fmt.Errorf(
			"model %s does not fit: a key/value pool of %d tokens needs %s and %s are left after the weights: "+
				"--kv-tokens %d would fit",
			p.Name, p.KVTokens, Size(p.kvBytes(max(p.KVTokens, compute.BlockTokens))), Size(free), fits)
	}
	p.ContextTokens = min(context, p.KVTokens)
	for d := p; d != nil; d = d.Draft {
		d.KVTokens, d.KVBytes, d.ContextTokens = p.KVTokens, d.poolBytes(p.KVTokens), p.ContextTokens
	}
	return nil
}

// kvBytes returns what the given number of tokens takes in all pools.
func (p *Plan) kvBytes(tokens int) (sum int64) {
	for ; p != nil; p = p.Draft {
		sum += p.poolBytes(tokens)
	}
	return sum
}

func (p *Plan) poolBytes(tokens int) int64 {
	return model.KVShape(&p.ck.Config, tokens/compute.BlockTokens, p.cfg.KVType).Bytes()
}

func (p *Plan) blocks() int { return p.KVTokens / compute.BlockTokens }

// scoredRows is how many prompt tokens a step may score, at least.
const scoredRows = 32

// outputs is how many rows of logits a step may have: one for each sequence,
// and some to score prompts with.
func (p *Plan) outputs() int { return max(p.cfg.Seqs, scoredRows) }

func (p *Plan) limits() model.Limits {
	return model.Limits{
		Rows:    p.cfg.StepTokens,
		Outputs: p.outputs(),
		Blocks:  p.blocks(),
		KV:      p.cfg.KVType,
		RoundF8: p.cfg.RoundF8,
		Narrow:  p.cfg.Device.GPU,
	}
}

// Size writes a number of bytes for people.
func Size(bytes int64) string {
	switch f := float64(bytes); {
	case f >= 1<<30:
		return fmt.Sprintf("%.1f GiB", f/(1<<30))
	case f >= 1<<20:
		return fmt.Sprintf("%.1f MiB", f/(1<<20))
	default:
		return fmt.Sprintf("%.1f KiB", f/(1<<10))
	}
}

// PlanDevice chooses what computes, by the first candidate's DeviceName, and
// divides its memory between the models. Unless a GPU was asked for by name, the
// processor serves where none can be used or the models do not fit, and the log
// says why. It returns the plans and the memory that was divided.
func PlanDevice(candidates []Candidate, log *slog.Logger) (plans []*Plan, available int64, err error) {
	name, gpuOnly := "", false
	if len(candidates) > 0 {
		name, gpuOnly = candidates[0].Config.DeviceName, candidates[0].Config.RoundF8
	}
	device, why, err := ChooseDevice(name)
	if err != nil {
		return nil, 0, err
	}
	if why != nil {
		log.Info("using the CPU", "because", why)
	}
	if device.GPU {
		plans, err = PlanMemory(onDevice(candidates, device), device.FreeBytes)
		if err == nil || strings.HasPrefix(name, DeviceCUDA) || gpuOnly {
			return plans, device.FreeBytes, err
		}
		log.Warn("using the CPU: the models do not fit the GPU", "device", device.Name, "because", err)
	}
	if available, err = AvailableBytes(); err != nil {
		return nil, 0, err
	}
	plans, err = PlanMemory(candidates, available)
	return plans, available, err
}

func onDevice(candidates []Candidate, d Device) []Candidate {
	out := slices.Clone(candidates)
	for i := range out {
		out[i].Config = out[i].Config.on(d)
	}
	return out
}

// newBackend opens what the plan's model computes on. A draft model shares the
// threads of the model that it guesses for.
func (p *Plan) newBackend(beside compute.Backend) (compute.Backend, error) {
	if d := p.cfg.Device; d.GPU {
		return cuda.Open(d.Index)
	}
	o := cpu.Options{Threads: p.cfg.Threads, Path: p.cfg.Path, Numerics: p.cfg.Numerics}
	o.Share, _ = beside.(*cpu.CPU)
	backend, err := cpu.New(o)
	if err == nil && p.cfg.wrap != nil {
		return p.cfg.wrap(backend), nil
	}
	return backend, err
}
