package cpu

// redoRows is up to how many rows multiplications are repeatable. With more
// of them there is more to copy and less to wait for.
const redoRows = 16

// repeats reports whether a worker that is held up in the multiplication can
// be overtaken. Plain kernels must not be: what one of them reads is written
// meanwhile, which is harmless, but a data race by Go's memory model.
func (c *CPU) repeats(j *multiplyJob) bool {
	if c.kernels == &plainKernels {
		return false
	}
	for i := range j.spans {
		if j.spans[i].in.rows > redoRows {
			return false
		}
	}
	return true
}

func (j *multiplyJob) take(worker, item int) {
	b, it := &j.c.workers[worker].beside, j.items[item]
	b.span, b.from, b.to = j.spans[it.span], it.from, it.to
	b.target = b.span.first
	b.redirect(&b.span.first, &b.outputs[0])
	if b.span.gated {
		b.redirect(&b.span.second, &b.outputs[1])
	}
}

// redirect lets a product write its panels to memory of the worker's own.
func (b *redoScratch) redirect(p *product, own *[]float32) {
	p.left, p.stride = b.from*panelOutputs, (b.to-b.from)*panelOutputs
	p.out = grow(own, b.span.in.rows*p.stride)
}

func (j *multiplyJob) compute(worker int) {
	w := j.c.workers[worker]
	j.c.computeSpan(w, &w.beside.span, w.beside.from, w.beside.to)
}

func (j *multiplyJob) deliver(worker int) {
	b := &j.c.workers[worker].beside
	left, right := b.from*panelOutputs, min(b.to*panelOutputs, b.target.w.rows)
	for r := range b.span.in.rows {
		copy(b.target.from(b.from, r)[:right-left], b.span.first.from(b.from, r))
	}
}
