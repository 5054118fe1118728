package cpu

import "parley/compute"

func (j *embedJob) run(_, from, to int) {
	for r := from; r < to; r++ {
		row := j.dst.row(r)
		j.table.readRow(row, int(j.c.step.Tokens[r]))
		if j.scale != 1 {
			for i := range row {
				row[i] *= j.scale
			}
		}
	}
}

// Embed reads the tokens' rows where the table is stored.
func (c *CPU) Embed(dst compute.Buffer, table compute.Weight, scale float32) {
	j := &c.jobs.embed
	j.c, j.dst, j.table, j.scale = c, dst.(*buffer), table.(*weight), scale
	c.overRows(j, len(c.rows), j.dst.cols)
}

func (j *normJob) run(worker, from, to int) {
	for r := from; r < to; r++ {
		j.c.kernels.norm(j.dst.row(r), j.src.row(r), j.w, j.c.workers[worker].sums[:], j.eps, j.offset)
	}
}

// Norm computes the RMS norm of each row.
func (c *CPU) Norm(dst, src compute.Buffer, w compute.Weight, eps, offset float32) {
	j := &c.jobs.norm
	j.c, j.dst, j.src, j.w, j.eps, j.offset = c, dst.(*buffer), src.(*buffer), w.(*weight).vector, eps, offset
	c.overRows(j, len(c.rows), j.src.cols)
}

func (j *addJob) run(_, from, to int) {
	for r := from; r < to; r++ {
		j.c.kernels.add(j.dst.row(r), j.src.row(r))
	}
}

// Add adds src to dst.
func (c *CPU) Add(dst, src compute.Buffer) {
	j := &c.jobs.add
	j.c, j.dst, j.src = c, dst.(*buffer), src.(*buffer)
	c.overRows(j, len(c.rows), j.dst.cols)
}
