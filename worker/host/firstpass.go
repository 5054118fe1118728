package host

import (
	"parley"
	"parley/compute"
	"parley/model"
	"parley/model/weights"
)

// firstPass computes a pass of as many tokens as a pass may have, of which nothing is kept. The first such pass on a
// GPU takes half as long again as the next, which no request should wait for.
func (p *Plan) firstPass(network *model.Model) (err error) {
	defer func() {
		if recovered := recover(); recovered != nil {
			err = weights.PanicError(recovered)
		}
	}()
	rows := min(p.cfg.StepTokens, p.ContextTokens, p.blocks()*compute.BlockTokens)
	blocks := make([]int32, (rows+compute.BlockTokens-1)/compute.BlockTokens)
	for i := range blocks {
		blocks[i] = int32(i)
	}
	step := compute.Step{
		Tokens:  make([]parley.Token, rows),
		Outputs: []int32{int32(rows - 1)},
		Seqs:    []compute.Seq{{Rows: rows, Blocks: blocks}},
	}
	network.Forward(&step, make([]float32, network.Vocab()))
	return nil
}
