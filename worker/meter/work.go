package meter

import (
	"math"

	"parley/compute"
	"parley/model/weights"
)

// A Load is what forward passes need: the bytes they must read and the multiplications and
// additions they must do.
type Load struct{ Bytes, Operations float64 }

func (l Load) plus(o Load) Load { return Load{l.Bytes + o.Bytes, l.Operations + o.Operations} }

// A Network is what the work of a pass depends on. A pass reads weights once, those of experts
// as far as tokens are expected to choose them, and the keys and values of each sequence once.
// A token takes two operations for each parameter it goes through, and four for each position it
// attends to and each number of a query. Activations are left out: they are small.
type Network struct {
	// Dense, Experts and Output are the layers without experts, all experts, and what is
	// multiplied with for logits.
	dense, experts, output matrices
	// chosen is the share of the experts that a token goes through.
	chosen float64
	// full and sliding layers see all positions and the last window ones.
	full, sliding float64
	window        int
	// positionBytes are the keys and values of a position in one layer, queryDim the numbers
	// of a query.
	positionBytes, queryDim float64
}

// Matrices are a part of the weights.
type matrices struct{ bytes, parameters float64 }

// NewNetwork describes the network of a checkpoint whose weights take weightBytes on the device, and
// keys and values blockBytes for a block of all layers. Weights that take less or more there than in
// the file, such as those rounded to FP8, are taken to be those of the layers.
func NewNetwork(s *weights.Summary, weightBytes, blockBytes int64) Network {
	c := &s.Config
	n := Network{
		window:        c.SlidingWindow,
		positionBytes: float64(blockBytes) / float64(compute.BlockTokens*c.Layers),
		queryDim:      float64(c.QueryDim()),
	}
	if c.Experts > 0 {
		n.chosen = float64(c.ExpertsPerToken) / float64(c.Experts)
	}
	for _, share := range s.Classes {
		p := matrices{float64(share.Bytes), float64(share.Parameters)}
		switch share.Name {
		case "experts":
			n.experts = p
		case "output":
			n.output = p
		case "embedding": // one row for each token
			if c.TieEmbeddings {
				n.output = p
			}
		case "other":
		default:
			n.dense.bytes += p.bytes
			n.dense.parameters += p.parameters
		}
	}
	if stored := n.dense.bytes + n.experts.bytes; stored > 0 {
		scale := max(0, stored+float64(weightBytes-s.Bytes)) / stored
		n.dense.bytes *= scale
		n.experts.bytes *= scale
	}
	for layer := range c.Layers {
		if c.SlidingWindow > 0 && layer < len(c.Sliding) && c.Sliding[layer] {
			n.sliding++
		} else {
			n.full++
		}
	}
	return n
}

// Of returns the work of a step.
func (n *Network) Of(step *compute.Step) Load {
	rows, outputs := float64(len(step.Tokens)), float64(len(step.Outputs))
	l := Load{
		Bytes:      n.dense.bytes + n.experts.bytes*(1-math.Pow(1-n.chosen, rows)),
		Operations: 2*rows*(n.dense.parameters+n.chosen*n.experts.parameters) + 2*outputs*n.output.parameters,
	}
	if outputs > 0 {
		l.Bytes += n.output.bytes
	}
	for _, q := range step.Seqs {
		read, seen := float64(q.Past+q.Rows), lookback(q, math.MaxInt)
		l.Bytes += n.full * n.positionBytes * read
		l.Operations += 4 * n.full * n.queryDim * seen
		if n.sliding > 0 {
			l.Bytes += n.sliding * n.positionBytes * min(read, float64(n.window+q.Rows-1))
			l.Operations += 4 * n.sliding * n.queryDim * lookback(q, n.window)
		}
	}
	return l
}

// lookback counts the positions that the rows of a sequence see, each row itself and those before
// it, at most window.
func lookback(q compute.Seq, window int) float64 {
	growing := min(max(window-q.Past, 0), q.Rows) // rows that see everything before them
	g := float64(growing)
	return g*float64(q.Past) + g*(g+1)/2 + float64(q.Rows-growing)*float64(window)
}
