package cuda

import (
	"fmt"
	"unsafe"

	"parley/compute"
)

type opcode uint8

const (
	opAngles opcode = iota
	opEmbed
	opNorm
	opLinear
	opRopeStore
	opAttend
	opMLP
	opMixture
	opAdd
	opLogits
)

// A command is an operation that waits to be run. Two that are equal launch
// the same kernels with the same arguments, given steps of the same size.
type command struct {
	op             opcode
	dst, src       *buffer
	key, value     *buffer
	w, w2          *weight
	projections    [maxProjections]projection
	count          int // of projections
	mlp            mlp
	experts        *compute.Experts
	layer, rope    int
	x, y           float32 // scale; eps and offset
	heads          compute.Heads
	window         int
	half, ropeKind int32
}

const maxProjections = 3

type projection struct {
	out     *buffer
	w, bias *weight
}

type mlp struct {
	gate, up, down             *weight
	gateBias, upBias, downBias *weight
	act                        compute.Activation
}

// buckets are the sizes of batch for which graphs are recorded.
var buckets = []int{1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512}

// A recording is the graph of a queue of commands.
type recording struct {
	queue []command
	graph graph
}

// bucketOf returns the size of graph for the step, or 0 if it has none: only
// steps in which every sequence has one row are recorded.
func (s *stepData) bucketOf() int {
	if !s.single || s.many > 0 {
		return 0
	}
	for _, b := range buckets {
		if s.rows <= b {
			return b
		}
	}
	return 0
}

// flush runs what is queued, as a graph if the same was recorded before. It
// does not wait.
func (c *CUDA) flush() error {
	if c.failed != nil {
		c.queue = c.queue[:0]
		return c.failed
	}
	if len(c.queue) == 0 {
		return nil
	}
	queue := c.queue
	c.queue = c.queue[:0]
	heads := headsOf(queue)
	c.step.divide(heads.Query/heads.KV, manyRows(c.pool.shape.HeadDim), fewBlocks*c.device.Multiprocessor/heads.KV)
	if err := c.driver.upload(c.step.device, bytesOf(c.step.ints)); err != nil {
		return err
	}
	c.feedTokens()
	bucket := c.step.bucketOf()
	whole := queue[0].op == opAngles && queue[len(queue)-1].op == opLogits && c.step.outputs == c.step.rows
	if bucket == 0 || bucket > min(c.limits.Rows, c.limits.Outputs) || !whole {
		c.run(queue, c.step.rows, c.step.outputs)
		return c.failed
	}
	return c.runGraph(queue, bucket)
}

// headsOf returns the heads of attention.
func headsOf(queue []command) compute.Heads {
	for i := range queue {
		if queue[i].op == opAttend {
			return queue[i].heads
		}
	}
	return compute.Heads{Query: 1, KV: 1}
}

// runGraph replays the graph of a bucket. If there is none, or one of other
// commands, it is recorded first.
func (c *CUDA) runGraph(queue []command, bucket int) error {
	r := c.graphs[bucket]
	if r == nil || !equal(r.queue, queue) {
		c.run(queue, bucket, bucket) // memory is taken and kernels are loaded before the recording
		if r != nil {
			c.fail(c.driver.forget(r.graph))
		}
		delete(c.graphs, bucket)
		return c.record(queue, bucket)
	}
	return c.driver.replay(r.graph)
}

// record makes a graph of the commands without running them.
func (c *CUDA) record(queue []command, bucket int) error {
	if c.failed != nil {
		return c.failed
	}
	if err := c.driver.beginCapture(); err != nil {
		return err
	}
	c.packed = packedRows{}
	c.run(queue, bucket, bucket)
	g, err := c.driver.endCapture()
	if err != nil || c.failed != nil {
		return first(c.failed, err)
	}
	c.graphs[bucket] = &recording{append([]command(nil), queue...), g}
	return nil
}

func equal(a, b []command) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

// forgetGraphs drops all graphs: what they refer to has moved.
func (c *CUDA) forgetGraphs() error {
	for b, r := range c.graphs {
		if err := c.driver.forget(r.graph); err != nil {
			return err
		}
		delete(c.graphs, b)
	}
	return nil
}

// run launches the kernels of commands, for as many rows and outputs as there may be.
func (c *CUDA) run(queue []command, rows, outputs int) {
	for i := 0; i < len(queue) && c.failed == nil; i++ {
		q, rest := &queue[i], queue[i+1:]
		switch q.op {
		case opAngles:
			c.runAngles(rows)
		case opEmbed:
			c.runEmbed(q, rows)
		case opAdd:
			if next := at(rest, 0); next.op == opNorm && next.src == q.dst {
				c.runNorm(next, q.src, rest[1:], rows)
				i++
				continue
			}
			c.runAdd(q, rows)
		case opNorm:
			c.runNorm(q, nil, rest, rows)
		case opLinear:
			c.runLinear(q, rows)
		case opRopeStore:
			c.runRopeStore(q, rows)
		case opAttend:
			c.runAttend(q, rest, rows)
		case opMLP:
			c.runMLP(q, rows)
		case opMixture:
			c.runMixture(q, rows)
		case opLogits:
			c.runLogits(q, outputs)
		}
	}
}

// at returns a command, an empty one where there is none.
func at(queue []command, i int) *command {
	if i < len(queue) {
		return &queue[i]
	}
	return &command{}
}

// overwritten reports whether commands write a buffer before they read it, so that
// nothing else sees what it holds.
func overwritten(b *buffer, queue []command) bool {
	for i := range queue {
		q := &queue[i]
		if q.src == b || q.op == opRopeStore && (q.dst == b || q.key == b || q.value == b) ||
			q.op == opAdd && q.dst == b {
			return false
		}
		if q.dst == b {
			return true
		}
		for _, p := range q.projections[:q.count] {
			if p.out == b {
				return true
			}
		}
	}
	return false
}

// enqueue queues a command.
func (c *CUDA) enqueue(q command) { c.queue = append(c.queue, q) }

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
	c.must(c.driver.synchronize())
}

// ReadRows copies the step's rows.
func (c *CUDA) ReadRows(dst []float32, src compute.Buffer) {
	b := buf(src)
	c.must(c.flush())
	c.must(c.driver.download(bytesOf(dst[:c.step.rows*b.cols]), b.at))
	c.must(c.driver.synchronize())
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
	c.must(c.driver.download(bytesOf(dst), c.logits.at))
	c.must(c.driver.synchronize())
}

// pinLeast is from which size on callers' memory is pinned, and pinnedMost how many pieces are.
const pinLeast, pinnedMost = 1 << 20, 4

// pinOnce pins the memory that logits go to: an engine uses the same for all
// its passes. Where that is not possible the copy takes longer.
func (c *CUDA) pinOnce(dst []float32) {
	whole := bytesOf(dst[:cap(dst)])
	if len(whole) < pinLeast || len(c.pinned) >= pinnedMost {
		return
	}
	first := unsafe.SliceData(whole)
	for _, p := range c.pinned {
		at := uintptr(unsafe.Pointer(first)) - uintptr(unsafe.Pointer(unsafe.SliceData(p)))
		if at < uintptr(len(p)) {
			return
		}
	}
	if c.driver.pin(whole) == nil {
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
