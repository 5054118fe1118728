package cuda

import (
	"fmt"

	"parley/compute"
)

func buf(b compute.Buffer) *buffer {
	p, _ := b.(*buffer)
	return p
}

func mat(w compute.Weight) *weight {
	p, _ := w.(*weight)
	return p
}

// Embed queues the lookup of the tokens' rows.
func (c *CUDA) Embed(dst compute.Buffer, table compute.Weight, scale float32) {
	c.enqueue(command{op: opEmbed, dst: buf(dst), w: mat(table), x: scale})
}

// Norm queues an RMS norm.
func (c *CUDA) Norm(dst, src compute.Buffer, w compute.Weight, eps, offset float32) {
	c.enqueue(command{
		op:  opNorm,
		dst: buf(dst),
		src: buf(src),
		w:   mat(w),
		x:   eps,
		y:   offset,
	})
}

// Linear queues projections of the same input.
func (c *CUDA) Linear(src compute.Buffer, ps []compute.Projection) {
	for len(ps) > 0 {
		q := command{op: opLinear, src: buf(src), count: min(len(ps), maxProjections)}
		for i, p := range ps[:q.count] {
			q.projections[i] = projection{buf(p.Out), mat(p.W), mat(p.Bias)}
		}
		c.enqueue(q)
		ps = ps[q.count:]
	}
}

// RopeStore queues the rotation and the storing of keys and values.
func (c *CUDA) RopeStore(layer, rope int, x *compute.QKV) {
	r := &c.step.ropes[rope]
	q := command{
		op:    opRopeStore,
		dst:   buf(x.Q),
		key:   buf(x.K),
		value: buf(x.V),
		w:     mat(x.QNorm),
		w2:    mat(x.KNorm),
		layer: layer,
		rope:  rope,
		x:     x.NormEps,
		y:     x.NormOffset,
		heads: x.Heads,
		half:  int32(len(r.InvFreq)),
	}
	if r.Interleaved {
		q.ropeKind = 1
	}
	c.enqueue(q)
}

// Attend queues attention.
func (c *CUDA) Attend(layer int, dst, q compute.Buffer, a *compute.Attention) {
	c.enqueue(command{
		op:     opAttend,
		dst:    buf(dst),
		src:    buf(q),
		layer:  layer,
		x:      a.Scale,
		heads:  a.Heads,
		window: a.Window,
	})
}

// GatedMLP queues an MLP.
func (c *CUDA) GatedMLP(dst, src compute.Buffer, m *compute.MLP) {
	c.enqueue(command{op: opMLP, dst: buf(dst), src: buf(src), mlp: mlpOf(m)})
}

func mlpOf(m *compute.MLP) mlp {
	return mlp{
		gate:     mat(m.Gate),
		up:       mat(m.Up),
		down:     mat(m.Down),
		gateBias: mat(m.GateBias),
		upBias:   mat(m.UpBias),
		downBias: mat(m.DownBias),
		act:      m.Act,
	}
}

// Mixture queues a mixture of experts.
func (c *CUDA) Mixture(dst, src compute.Buffer, e *compute.Experts) {
	c.enqueue(command{op: opMixture, dst: buf(dst), src: buf(src), experts: e})
}

// Add queues an addition.
func (c *CUDA) Add(dst, src compute.Buffer) {
	c.enqueue(command{op: opAdd, dst: buf(dst), src: buf(src)})
}

// Wait returns when everything that was asked for is done.
func (c *CUDA) Wait() {
	c.must(c.flush())
	c.must(c.driver.Synchronize())
	c.WaitCopies()
}

// ReadRows copies the step's rows.
func (c *CUDA) ReadRows(dst []float32, src compute.Buffer) {
	b := buf(src)
	c.must(c.flush())
	c.must(c.driver.Download(bytesOf(dst[:c.step.rows*b.cols]), b.at))
	c.must(c.driver.Synchronize())
}

// Logits computes table·x for each output row and waits for it.
func (c *CUDA) Logits(dst []float32, src compute.Buffer, table compute.Weight) {
	w := mat(table)
	if c.step.outputs == 0 {
		c.Wait()
		return
	}
	dst = dst[:c.step.outputs*w.rows]
	c.pinOnce(dst)
	c.enqueue(command{op: opLogits, src: buf(src), w: w})
	c.must(c.flush())
	c.must(c.driver.Download(bytesOf(dst), c.logits.at))
	c.must(c.driver.Synchronize())
}

// pinOnce pins the memory that logits go to: an engine uses the same for all
// its passes. Where that is not possible the copy takes longer.
func (c *CUDA) pinOnce(dst []float32) {
	whole := bytesOf(dst[:cap(dst)])
	if len(whole) < pinLeast || len(c.pinned) >= pinnedMost {
		return
	}
	if within(whole, c.pinned) {
		return
	}
	if c.driver.Pin(whole) == nil {
		c.pinned = append(c.pinned, whole)
	}
}

// Reserve takes the scratch memory for steps within the limits.
func (c *CUDA) Reserve(l compute.Limits) error {
	if min(l.Rows, l.Outputs, l.Width, l.Experts) < 0 || l.Rows > maxElements/max(1, l.Width)/max(1, l.Experts) {
		return fmt.Errorf("cuda: cannot reserve memory for %d rows and %d outputs of %d columns with %d experts each",
			l.Rows, l.Outputs, l.Width, l.Experts)
	}
	c.limits = l
	return c.reserve(l)
}

// Begin makes step the current one. What was begun before is computed first.
func (c *CUDA) Begin(step *compute.Step, ropes []compute.Rope) {
	c.must(c.flush())
	if len(c.choice.air) == 0 {
		c.must(c.driver.Synchronize()) // the memory of the step before is free
	}
	c.joinStep(step)
	c.must(c.reserveStep(stepInts(step, ropes)))
	c.step.turn = 1 - c.step.turn
	c.step.ints = view[int32](c.step.hosts[c.step.turn])[:0]
	c.step.fill(step, ropes)
	c.packed = packedRows{}
	c.queue = append(c.queue[:0], command{op: opAngles})
}

// Choose computes the scores of the output rows, draws a token for each, and returns
// before that is done.
func (c *CUDA) Choose(src compute.Buffer, table compute.Weight, draws []compute.Draw) {
	w := mat(table)
	if len(draws) != c.step.outputs || len(c.choice.air) > 1 {
		panic(fmt.Sprintf("cuda: %d draws for %d rows, with %d steps under way",
			len(draws), c.step.outputs, len(c.choice.air)))
	}
	if len(draws) > 0 {
		c.enqueue(command{op: opLogits, src: buf(src), w: w})
	}
	c.must(c.flush())
	c.drawTokens(draws, w.rows)
}
