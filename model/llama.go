package model

import "parley/compute"

// llama is the plain decoder of Llama 2 and 3.x: each layer adds its attention
// and then its feed-forward to the residual stream, both on a normed input.
// Mistral, Qwen2 and Qwen3 are the same network with other parts in it.
type llama struct {
	layers []llamaLayer
}

type llamaLayer struct {
	attnNorm compute.Weight // [hidden]
	attn     attention
	ffnNorm  compute.Weight // [hidden]
	ffn      feedForward
}

func loadLlama(l *loader) (architecture, error) {
	return loadDecoder(l, l.mlp)
}

// loadDecoder loads a decoder of llama's shape whose feed-forwards come from ffn.
func loadDecoder(l *loader, ffn func(layer int) feedForward) (architecture, error) {
	m := &llama{layers: make([]llamaLayer, l.net.cfg.Layers)}
	for i := range m.layers {
		m.layers[i] = llamaLayer{
			attnNorm: l.layer(i, "attn_norm.weight"),
			attn:     l.attention(i),
			ffnNorm:  l.layer(i, "ffn_norm.weight"),
			ffn:      ffn(i),
		}
	}
	return m, l.err()
}

func (m *llama) forward(n *network) {
	n.be.Embed(n.x, n.embed, n.cfg.EmbedScale) // x [rows, hidden]
	for i := range m.layers {
		l := &m.layers[i]
		n.norm(n.h, n.x, l.attnNorm)
		l.attn.apply(n, i) // d = attention(norm(x))
		n.be.Add(n.x, n.d) // x += d
		n.norm(n.h, n.x, l.ffnNorm)
		l.ffn.apply(n)     // d = ffn(norm(x))
		n.be.Add(n.x, n.d) // x += d
	}
	n.norm(n.h, n.x, n.outNorm) // h [rows, hidden]
}
