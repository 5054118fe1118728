package model

import (
	"errors"
	"fmt"

	"parley/compute"
	"parley/model/weights"
)

// A network is what all architectures share: the backend, the weights outside
// the layers, and the activations of one step.
type network struct {
	be    compute.Backend
	cfg   *weights.Config
	ropes []compute.Rope // [ropeGlobal, ropeLocal]

	embed   compute.Weight // [vocab, hidden]
	outNorm compute.Weight // [hidden]
	output  compute.Weight // [vocab, hidden]; embed where the two are tied

	x       compute.Buffer // [rows, hidden]: the residual stream
	h       compute.Buffer // [rows, hidden]: the normed input of a layer
	d       compute.Buffer // [rows, hidden]: what a layer adds to x
	q, att  compute.Buffer // [rows, heads*headDim]
	k, v    compute.Buffer // [rows, kvHeads*headDim]
	linears []compute.Projection
}

// reserve takes the memory for steps within the limits.
func (n *network) reserve(limits Limits) error {
	cfg := n.cfg
	for _, b := range []struct {
		buf  *compute.Buffer
		cols int
	}{
		{&n.x, cfg.Hidden}, {&n.h, cfg.Hidden}, {&n.d, cfg.Hidden},
		{&n.q, cfg.QueryDim()}, {&n.att, cfg.QueryDim()}, {&n.k, cfg.KVDim()}, {&n.v, cfg.KVDim()},
	} {
		buf, err := n.be.NewBuffer(limits.Rows, b.cols)
		if err != nil {
			return fmt.Errorf("model: activations of %d rows: %w", limits.Rows, err)
		}
		*b.buf = buf
	}
	n.linears = make([]compute.Projection, 3)
	if err := n.be.Reserve(ScratchLimits(cfg, limits)); err != nil {
		return fmt.Errorf("model: scratch memory: %w", err)
	}
	if err := n.be.NewKV(KVShape(cfg, limits.Blocks, limits.KV)); err != nil {
		return fmt.Errorf("model: key/value pool of %d blocks of %v: %w", limits.Blocks, limits.KV, err)
	}
	return nil
}

// norm sets dst to the RMS norm of src.
func (n *network) norm(dst, src compute.Buffer, w compute.Weight) {
	n.be.Norm(dst, src, w, n.cfg.NormEps, n.cfg.NormOffset)
}

// An attention is one layer's self-attention.
type attention struct {
	q, k, v, o     compute.Weight // [heads*dim, hidden], 2 x [kvHeads*dim, hidden], [hidden, heads*dim]
	qb, kb, vb, ob compute.Weight // biases, or nil
	look           compute.Attention
	qkv            compute.QKV // the norms of queries and keys, if the model has them
	rope           int
}

// apply sets n.d to the attention of layer i over n.h.
func (a *attention) apply(n *network, i int) {
	n.linears[0] = compute.Projection{Out: n.q, W: a.q, Bias: a.qb}
	n.linears[1] = compute.Projection{Out: n.k, W: a.k, Bias: a.kb}
	n.linears[2] = compute.Projection{Out: n.v, W: a.v, Bias: a.vb}
	n.be.Linear(n.h, n.linears) // q, k, v = h·Wᵀ

	a.qkv.Q, a.qkv.K, a.qkv.V = n.q, n.k, n.v
	n.be.RopeStore(i, a.rope, &a.qkv)   // rotate q and k, keep k and v
	n.be.Attend(i, n.att, n.q, &a.look) // att = softmax(q·kᵀ)·v
	n.linears[0] = compute.Projection{Out: n.d, W: a.o, Bias: a.ob}
	n.be.Linear(n.att, n.linears[:1]) // d = att·Wᵀ
}

// A feedForward is one layer's MLP, or its experts.
type feedForward struct {
	mlp     compute.MLP
	experts *compute.Experts
}

// apply sets n.d to the feed-forward of n.h.
func (f *feedForward) apply(n *network) {
	if f.experts != nil {
		n.be.Mixture(n.d, n.h, f.experts)
		return
	}
	n.be.GatedMLP(n.d, n.h, &f.mlp)
}

// A loader puts tensors into device memory. It collects errors, so that the
// files of the architectures read as lists.
type loader struct {
	ck      *weights.Checkpoint
	net     *network
	roundF8 bool
	narrow  bool
	errs    []error
}

func (l *loader) err() error { return errors.Join(l.errs...) }

// weight uploads a tensor.
func (l *loader) weight(name string) compute.Weight { return l.weightBy(name, l.net.be.Upload) }

// weightBy uploads a tensor in the given way.
func (l *loader) weightBy(name string, upload func(weights.Tensor) (compute.Weight, error)) compute.Weight {
	t, ok := l.ck.Listed(name)
	if !ok {
		l.errs = append(l.errs, fmt.Errorf("model: tensor %s is missing", name))
		return nil
	}
	return l.uploadBy(t, upload)
}

func (l *loader) upload(t weights.Tensor) compute.Weight { return l.uploadBy(t, l.net.be.Upload) }

func (l *loader) uploadBy(t weights.Tensor, upload func(weights.Tensor) (compute.Weight, error)) compute.Weight {
	if l.narrow {
		t = t.Narrow()
	}
	t = t.Loaded()
	var err error
	if l.roundF8 && t.RoundsToF8() {
		t, err = t.ToF8()
	}
	var w compute.Weight
	if err == nil {
		w, err = upload(t)
	}
	if err != nil {
		l.errs = append(l.errs, fmt.Errorf("model: tensor %s: %w", t.Name, err))
		return nil
	}
	return w
}

// optional uploads a tensor if the checkpoint has it.
func (l *loader) optional(name string) compute.Weight {
	if _, ok := l.ck.Listed(name); !ok {
		return nil
	}
	return l.weight(name)
}

// layer uploads a tensor of layer i.
func (l *loader) layer(i int, name string) compute.Weight {
	return l.weight(fmt.Sprintf("blk.%d.%s", i, name))
}

func (l *loader) layerOptional(i int, name string) compute.Weight {
	return l.optional(fmt.Sprintf("blk.%d.%s", i, name))
}

// shared uploads what stands outside the layers.
func (l *loader) shared() error {
	n := l.net
	n.outNorm = l.weight("output_norm.weight")
	if n.cfg.TieEmbeddings {
		n.embed = l.weight("token_embd.weight")
		n.output = n.embed
	} else {
		n.embed = l.weightBy("token_embd.weight", n.be.UploadTable)
		n.output = l.weight("output.weight")
	}
	return l.err()
}

// attention loads the attention of layer i.
func (l *loader) attention(i int) attention {
	cfg := l.net.cfg
	heads := compute.Heads{Query: cfg.Heads, KV: cfg.KVHeads, Dim: cfg.HeadDim}
	a := attention{
		q:    l.layer(i, "attn_q.weight"),
		qb:   l.layerOptional(i, "attn_q.bias"),
		k:    l.layer(i, "attn_k.weight"),
		kb:   l.layerOptional(i, "attn_k.bias"),
		v:    l.layer(i, "attn_v.weight"),
		vb:   l.layerOptional(i, "attn_v.bias"),
		o:    l.layer(i, "attn_output.weight"),
		ob:   l.layerOptional(i, "attn_output.bias"),
		look: compute.Attention{Heads: heads, Scale: cfg.AttnScale},
		qkv:  compute.QKV{Heads: heads, NormEps: cfg.NormEps, NormOffset: cfg.NormOffset},
		rope: ropeGlobal,
	}
	if cfg.QKNorm {
		a.qkv.QNorm, a.qkv.KNorm = l.layer(i, "attn_q_norm.weight"), l.layer(i, "attn_k_norm.weight")
	}
	if cfg.Sliding[i] {
		a.look.Window = cfg.SlidingWindow
		a.rope = ropeLocal
	}
	return a
}

// mlp loads the gated MLP of layer i.
func (l *loader) mlp(i int) feedForward {
	return feedForward{mlp: compute.MLP{
		Gate:     l.layer(i, "ffn_gate.weight"),       // [ffn, hidden]
		GateBias: l.layerOptional(i, "ffn_gate.bias"), // [ffn]
		Up:       l.layer(i, "ffn_up.weight"),         // [ffn, hidden]
		UpBias:   l.layerOptional(i, "ffn_up.bias"),   // [ffn]
		Down:     l.layer(i, "ffn_down.weight"),       // [hidden, ffn]
		DownBias: l.layerOptional(i, "ffn_down.bias"), // [hidden]
		Act:      activation(l.net.cfg),
	}}
}

func activation(cfg *weights.Config) compute.Activation {
	if cfg.Activation == weights.ActivationGELUTanh {
		return compute.GELUTanh
	}
	return compute.SiLU
}

// An architecture is the order in which a family of models applies its
// layers. Forward starts from the step's tokens and leaves the normed hidden
// state of every row in the network's h.
type architecture interface {
	forward(n *network)
}
