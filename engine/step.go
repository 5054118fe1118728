package engine

import (
	"time"

	"parley/compute"
	"parley/engine/sched"
)

// assemble writes the plan as a step for the device.
func (l *loop) assemble(plan []sched.Part, now time.Time) {
	s := &l.buffers.step
	s.Tokens, s.Seqs, s.Outputs, s.Hidden = s.Tokens[:0], s.Seqs[:0], s.Outputs[:0], nil
	for _, p := range plan {
		c := l.owner[p.Seq]
		if c.job.req.Embed {
			s.Hidden = l.hiddenRows()
		}
		if c.job.times.started.IsZero() {
			c.job.times.started = now
		}
		from := p.Seq.Computed
		s.Seqs = append(s.Seqs, compute.Seq{Row: len(s.Tokens), Rows: p.Tokens, Past: from, Blocks: p.Seq.Table.Blocks})
		s.Tokens = append(s.Tokens, c.seq.Tokens[from:from+p.Tokens-p.Draft]...)
		if c.seq.Coming > 0 {
			s.Tokens[len(s.Tokens)-1] = compute.Chosen(c.output)
		}
		s.Tokens = append(s.Tokens, c.spec.Guess[:p.Draft]...)
		for i := range p.Outputs {
			s.Outputs = append(s.Outputs, int32(len(s.Tokens)-p.Outputs+i))
		}
	}
}

func (l *loop) count(p StepReport) {
	l.cache.arrivals = arrivals{most: time.Duration(arrivalShare * float64(p.Took))}
	l.stats.step(p.Rows, p.Took)
	l.cfg.Observe.step(p)
}

// passOf describes the assembled step, which began at a time.
func (l *loop) passOf(work sched.Work, began time.Time) StepReport {
	p := StepReport{Sequences: len(l.buffers.step.Seqs), Work: work}
	for i := range l.buffers.step.Seqs {
		p.Read += l.buffers.step.Seqs[i].Past
	}
	p.Gap = max(0, l.sinceEnded(began))
	return p
}
