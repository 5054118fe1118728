package model

import "parley/compute"

// gemma3 is the text part of Gemma 3. Unlike Llama it scales the embeddings,
// norms the output of attention and feed-forward as well as their input, and
// gives five layers of six a sliding window with a rotary encoding of its own.
type gemma3 struct {
	layers []gemma3Layer
}

type gemma3Layer struct {
	attnNorm     compute.Weight // [hidden]
	attn         attention
	attnPostNorm compute.Weight // [hidden]
	ffnNorm      compute.Weight // [hidden]
	ffn          feedForward
	ffnPostNorm  compute.Weight // [hidden]
}

func loadGemma3(l *loader) (architecture, error) {
	m := &gemma3{layers: make([]gemma3Layer, l.net.cfg.Layers)}
	for i := range m.layers {
		m.layers[i] = gemma3Layer{
			attnNorm:     l.layer(i, "attn_norm.weight"),
			attn:         l.attention(i),
			attnPostNorm: l.layer(i, "post_attention_norm.weight"),
			ffnNorm:      l.layer(i, "ffn_norm.weight"),
			ffn:          l.mlp(i),
			ffnPostNorm:  l.layer(i, "post_ffw_norm.weight"),
		}
	}
	return m, l.err()
}

func (m *gemma3) forward(n *network) {
	n.be.Embed(n.x, n.embed, n.cfg.EmbedScale) // x [rows, hidden]
	for i := range m.layers {
		l := &m.layers[i]
		n.norm(n.h, n.x, l.attnNorm)
		l.attn.apply(n, i) // d = attention(norm(x))
		n.norm(n.d, n.d, l.attnPostNorm)
		n.be.Add(n.x, n.d) // x += norm(d)
		n.norm(n.h, n.x, l.ffnNorm)
		l.ffn.apply(n) // d = ffn(norm(x))
		n.norm(n.d, n.d, l.ffnPostNorm)
		n.be.Add(n.x, n.d) // x += norm(d)
	}
	n.norm(n.h, n.x, n.outNorm) // h [rows, hidden]
}
