package cpu

import (
	"math"

	"parley/compute"
)

// row returns the cosines and sines of one row.
func (a *angles) row(r int) (cos, sin []float32) {
	return a.cos[r*a.half:][:a.half], a.sin[r*a.half:][:a.half]
}

// computeAngles computes the rotations of the step's rows.
func (c *CPU) computeAngles() {
	for len(c.angles) < len(c.ropes) {
		c.angles = append(c.angles, angles{})
	}
	const costOfOne = 64 // in elements of simple loops
	for i := range c.ropes {
		half := len(c.ropes[i].InvFreq)
		a := &c.angles[i]
		a.half = half
		need := max(cap(c.rows), 1) * half
		grow(&a.cos, need)
		grow(&a.sin, need)
		c.jobs.angle = angleJob{c, i}
		c.overRows(&c.jobs.angle, len(c.rows), half*costOfOne)
	}
}

func (j *angleJob) run(_, from, to int) {
	rope, a := &j.c.ropes[j.rope], &j.c.angles[j.rope]
	for r := from; r < to; r++ {
		cos, sin := a.row(r)
		pos := float32(j.c.rows[r].pos)
		for i, f := range rope.InvFreq {
			s, c := math.Sincos(float64(pos * f))
			cos[i], sin[i] = float32(c)*rope.Scale, float32(s)*rope.Scale
		}
	}
}

// RopeStore normalises and rotates queries and keys, and stores keys and values.
func (c *CPU) RopeStore(layer, rope int, x *compute.QKV) {
	j := &c.jobs.rope
	*j = ropeJob{c: c, layer: layer, rope: rope, x: x}
	if x.QNorm != nil {
		j.qNorm = x.QNorm.(*weight).vector
	}
	if x.KNorm != nil {
		j.kNorm = x.KNorm.(*weight).vector
	}
	c.overRows(j, len(c.rows), (x.Heads.Query+2*x.Heads.KV)*x.Heads.Dim)
}

func (j *ropeJob) run(worker, from, to int) {
	h := j.x.Heads
	q, k, v := j.x.Q.(*buffer), j.x.K.(*buffer), j.x.V.(*buffer)
	sums := j.c.workers[worker].sums[:]
	for r := from; r < to; r++ {
		j.prefetch(r + 1)
		for i := range h.Query {
			j.turn(q.row(r)[i*h.Dim:][:h.Dim], j.qNorm, r, sums)
		}
		at := &j.c.rows[r]
		for i := range h.KV {
			key := k.row(r)[i*h.Dim:][:h.Dim]
			j.turn(key, j.kNorm, r, sums)
			j.c.kv.store(at, j.layer, i, key, v.row(r)[i*h.Dim:][:h.Dim])
		}
	}
}

// prefetch asks for where the keys of a row will be stored, if that is not
// the block of the row before: a token of one is a part of every line.
func (j *ropeJob) prefetch(row int) {
	if row >= len(j.c.rows) || j.c.rows[row].seq == j.c.rows[row-1].seq {
		return
	}
	at := &j.c.rows[row]
	for head := range j.x.Heads.KV {
		keys, _ := j.c.kv.head(at.seq.Blocks[at.pos/compute.BlockTokens], j.layer, head)
		prefetch(keys)
	}
}

// turn normalises one head, if there is a norm, and rotates it.
func (j *ropeJob) turn(head, norm []float32, row int, sums []float32) {
	if norm != nil {
		j.c.kernels.norm(head, head, norm, sums, j.x.NormEps, j.x.NormOffset)
	}
	cos, sin := j.c.angles[j.rope].row(row)
	half := len(cos)
	if j.c.ropes[j.rope].Interleaved {
		j.c.kernels.turnPairs(head[:2*half], cos, sin)
	} else {
		j.c.kernels.turn(head[:half], head[half:2*half], cos, sin)
	}
}
