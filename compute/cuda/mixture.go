package cuda

import (
	"fmt"

	"parley/compute"
	"parley/compute/libcuda"
	"parley/model/weights"
)

type (
	routeArgs struct {
		scores, chosen, weights, step libcuda.Address
		experts, topk, norm           int32
	}
	slotArgs struct {
		chosen, slots, sources, tiles, count, step libcuda.Address
		experts, topk, tile                        int32
	}
	mixArgs struct {
		dst, out, slots, weights, step libcuda.Address
		cols, topk                     int32
	}
)

// maxExperts is how many experts the kernels can choose among, and maxChosen how many a row may use.
const maxExperts, maxChosen = 1024, 32

// mixtureTiles are the rows of an expert that are computed together.
var mixtureTiles = []int{8, 32}

// tablesOf writes the addresses of a mixture's matrices to the device once.
func (c *CUDA) tablesOf(e *compute.Experts) (*expertTables, error) {
	if t := c.mixture.tables[e]; t != nil {
		return t, nil
	}
	if len(e.MLPs) > maxExperts || e.TopK > maxChosen {
		return nil, fmt.Errorf("a mixture of %d experts of which %d are used is too large: at most %d and %d",
			len(e.MLPs), e.TopK, maxExperts, maxChosen)
	}
	of := func(pick func(m *mlp) *weight) (job, error) {
		m := mlpOf(&e.MLPs[0])
		w := pick(&m)
		if w == nil {
			return job{}, nil
		}
		at, err := c.addresses(e, w.kind, pick)
		return job{kind: w.kind, w: at, rows: w.rows, cols: w.cols}, err
	}
	t := &expertTables{act: e.MLPs[0].Act, experts: len(e.MLPs), topK: min(e.TopK, len(e.MLPs))}
	if e.NormTopK {
		t.norm = 1
	}
	var errs [7]error
	t.router, errs[6] = c.widened(mat(e.Router))
	var biases [3]job
	t.gate, errs[0] = of(func(m *mlp) *weight { return m.gate })
	t.up, errs[1] = of(func(m *mlp) *weight { return m.up })
	t.down, errs[2] = of(func(m *mlp) *weight { return m.down })
	biases[0], errs[3] = of(func(m *mlp) *weight { return m.gateBias })
	biases[1], errs[4] = of(func(m *mlp) *weight { return m.upBias })
	biases[2], errs[5] = of(func(m *mlp) *weight { return m.downBias })
	t.gate.bias, t.up.bias, t.down.bias = biases[0].w, biases[1].w, biases[2].w
	if c.mixture.tables == nil {
		c.mixture.tables = map[*compute.Experts]*expertTables{}
	}
	c.mixture.tables[e] = t
	return t, first(errs[:]...)
}

// widened returns a matrix as float32. The choice of experts is not to depend
// on the rounding of what is multiplied.
func (c *CUDA) widened(w *weight) (*weight, error) {
	if w.kind == weights.F32 {
		return w, nil
	}
	at, err := c.take(4*int64(w.rows)*int64(w.cols), "the router of a mixture")
	if err != nil {
		return nil, err
	}
	args := widenArgs{at, w.at, int32(w.rows), int32(w.cols), int32(w.kind)}
	start(c, &c.widen, c.blocksFor(w.rows*w.cols), 1, &args)
	return &weight{
		kind: weights.F32,
		rows: w.rows,
		cols: w.cols,
		at:   at,
		name: w.name,
	}, nil
}

// addresses writes where one matrix of each expert lies to the device.
func (c *CUDA) addresses(e *compute.Experts, kind weights.DType, pick func(m *mlp) *weight) (libcuda.Address, error) {
	table := make([]libcuda.Address, len(e.MLPs))
	for i := range e.MLPs {
		m := mlpOf(&e.MLPs[i])
		w := pick(&m)
		if w.kind != kind {
			return 0, fmt.Errorf("expert %d has weights of type %v, expert 0 of %v: convert the model", i, w.kind, kind)
		}
		table[i] = w.at
	}
	at, err := c.take(8*int64(len(table)), "the addresses of experts")
	if err != nil {
		return 0, err
	}
	return at, first(c.driver.Upload(at, bytesOf(table)), c.driver.Synchronize())
}

// runMixture routes rows to experts, computes each expert's rows side by side, and adds up.
func (c *CUDA) runMixture(q *command, rows int) {
	t, err := c.tablesOf(q.experts)
	if err != nil {
		c.fail(err)
		return
	}
	tile, slots := c.runRoute(q, t, rows)
	m := &c.mixture
	in := input{
		at:    q.src.at,
		cols:  q.src.cols,
		count: m.number.at,
		rows:  slots,
		list:  m.sources.at,
		tiles: m.tiles.at,
		tile:  tile,
	}
	room := t.slots(max(rows, c.limits.Rows), mixtureTiles[1])
	out := c.grow(&m.out, 4*int64(room)*int64(q.dst.cols), "the results of experts")
	down := t.down
	down.out, down.ld = out, q.dst.cols
	c.gated(&in, t.gate, t.up, down, int32(t.act), room)
	c.packed = packedRows{}
	args := mixArgs{q.dst.at, out, m.slots.at, m.weights.at, c.step.device, int32(q.dst.cols), int32(t.topK)}
	start(c, &c.mix, rows, (q.dst.cols+255)/256, &args)
}

// slots bounds how many slots the choices of the given rows take.
func (t *expertTables) slots(rows, tile int) int {
	choices := rows * t.topK
	return roundUp(choices+min(choices, t.experts)*(tile-1), tile)
}

// runRoute chooses experts and gives slots to the choices. It returns the rows
// of a tile and the most slots there may be.
func (c *CUDA) runRoute(q *command, t *expertTables, rows int) (tile, slots int) {
	m, choices := &c.mixture, rows*t.topK
	tile = mixtureTiles[0]
	float := t.gate.kind == weights.F32 || t.up.kind == weights.F32 || t.down.kind == weights.F32
	if choices > 4*t.experts && !float {
		tile = mixtureTiles[1]
	}
	slots = t.slots(rows, tile)
	room := max(rows, c.limits.Rows)
	most, roomy := 4*int64(room*t.topK), 4*int64(t.slots(room, mixtureTiles[1]))
	scores := c.grow(&m.scores, 4*int64(room)*int64(t.experts), "scores of experts")
	chosen := c.grow(&m.chosen, most, "choices of experts")
	factors := c.grow(&m.weights, most, "weights of experts")
	in := c.rowsOf(q.src, rows)
	c.product(&in, []job{jobOf(t.router, nil, scores, t.experts)})
	c.packed = in.packed
	start(c, &c.route, rows, 1,
		&routeArgs{scores, chosen, factors, c.step.device, int32(t.experts), int32(t.topK), t.norm})
	args := slotArgs{
		chosen:  chosen,
		slots:   c.grow(&m.slots, most, "slots of experts"),
		sources: c.grow(&m.sources, roomy, "slots of experts"),
		tiles:   c.grow(&m.tiles, roomy, "slots of experts"),
		count:   c.grow(&m.number, 4, "slots of experts"),
		step:    c.step.device,
		experts: int32(t.experts),
		topk:    int32(t.topK),
		tile:    int32(tile),
	}
	start(c, &c.slots, 1, 1, &args)
	return tile, slots
}
