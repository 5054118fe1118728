package sim

import (
	"errors"
	"fmt"

	"parley/sim/cost"
	"parley/sim/plan"
)

// A machine is what one worker of a pool can do.
type machine struct {
	cost   *cost.Model
	blocks int
	price  float64 // of an hour
	gpus   int
	// blockBytes is the size of a block; 0 if it is not known.
	blockBytes int
}

// machine works out what a worker is from the planner's sheet.
func (p *PoolSpec) machine() (machine, error) {
	settings := plan.Settings{}
	for name, value := range p.Replica {
		settings[name] = fmt.Sprint(value)
	}
	if p.Cost != nil && len(settings) == 0 {
		if p.Blocks == 0 {
			return machine{}, errors.New("blocks is 0: a pool with a cost and no replica must say how many it has")
		}
		if p.Prefill != nil && p.BlockBytes == 0 {
			return machine{}, errors.New("block_bytes is 0: a pool with prefill and no replica must say how large " +
				"blocks are")
		}
		return machine{
			cost:       p.Cost,
			blocks:     p.Blocks,
			price:      p.Price,
			gpus:       1,
			blockBytes: p.BlockBytes,
		}, nil
	}
	result, err := plan.New().Plan(settings)
	if err != nil {
		return machine{}, fmt.Errorf("replica: %w", err)
	}
	of := result.Values
	m := machine{
		cost:       p.Cost,
		blocks:     p.Blocks,
		price:      p.Price,
		gpus:       int(of["gpus"]),
		blockBytes: p.BlockBytes,
	}
	setDefault(&m.blockBytes, int(of["kv_token"]*blockTokens))
	if m.price == 0 {
		m.price = of["price"] * of["gpus"]
	}
	if m.blocks == 0 {
		m.blocks = int(of["kv_room"] / (of["kv_token"] * blockTokens))
	}
	if m.blocks < 1 {
		return machine{}, fmt.Errorf("replica: %s", result.Sentence)
	}
	if m.cost == nil {
		m.cost, err = cost.Roofline(cost.Device{
			PrefillRate: of["prefill_rate"],
			ReadRate:    of["read_rate"],
			WeightBytes: of["weights_total"],
			KVBytes:     of["kv_token"],
			Overhead:    p.Overhead,
		})
	}
	return m, err
}

// prefillRate returns how many tokens of prompts a worker computes in a second, in passes of rows.
func (m *machine) prefillRate(rows int) float64 {
	took, _ := m.cost.Time(cost.Pass{}.Add(rows, 0))
	return float64(rows) / took.Seconds()
}
