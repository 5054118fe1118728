package cuda

import (
	"errors"
	"fmt"
	"math"

	"parley/compute"
)

// The numbers at the beginning of a step in device memory, as in kernels/common.cuh.
const (
	stepRows = iota
	stepOutputs
	stepFewItems
	stepManyItems
	stepCombines
	atTokens
	atPositions
	atSlots
	atOutputs
	atFewItems
	atManyItems
	atCombines
	atRopes
	atTables
	stepFields
)

func (s *stepData) close(d driver) error {
	var errs []error
	for i, host := range s.hosts {
		if host != nil {
			errs = append(errs, d.ReleasePinned(host))
		}
		s.hosts[i] = nil
	}
	s.ints = nil
	return errors.Join(errs...)
}

// stepBytesLeast is the least memory that is taken for a step's data.
const stepBytesLeast = 1 << 20

// reserveStep makes room for ints integers.
func (c *CUDA) reserveStep(ints int) error {
	s := &c.step
	if ints <= s.capacity {
		return nil
	}
	bytes := max(stepBytesLeast, 2*4*ints)
	if err := first(c.driver.Synchronize(), c.forgetGraphs(), s.close(c.driver), c.give(s.device)); err != nil {
		return err
	}
	s.capacity = 0
	for i := range s.hosts {
		host, err := c.driver.AllocatePinned(bytes)
		if err != nil {
			return fmt.Errorf("no %d KiB of pinned memory for a step: %w", bytes>>10, err)
		}
		s.hosts[i] = host
	}
	at, err := c.take(int64(bytes), "the data of a step")
	if err != nil {
		return err
	}
	s.device, s.capacity = at, bytes/4
	return nil
}

// stepInts bounds how many integers a step takes.
func stepInts(step *compute.Step, ropes []compute.Rope) int {
	n := stepFields + len(step.Outputs) + 3*len(step.Tokens) + 4*len(step.Tokens)
	for i := range step.Seqs {
		q := &step.Seqs[i]
		parts := (q.Past+q.Rows)/partition + 1
		n += len(q.Blocks) + 24*(parts+q.Rows*maxGroup/queryRows+1)
	}
	for i := range ropes {
		n += 3 + len(ropes[i].InvFreq)
	}
	return n
}

// maxGroup is the most query heads that share a key: more would need more than
// one warp for a token.
const maxGroup = 256

// fill writes all of a step but the items of attention.
func (s *stepData) fill(step *compute.Step, ropes []compute.Rope) {
	s.rows, s.outputs, s.ropes = len(step.Tokens), len(step.Outputs), ropes
	s.single = true
	s.ints = s.ints[:stepFields]
	at := func(field int) { s.ints[field] = int32(len(s.ints)) }
	at(atOutputs) // always at the same place: kernels are given its address
	s.ints = append(s.ints, step.Outputs...)
	at(atTokens)
	s.fed = false
	for _, t := range step.Tokens {
		s.ints = append(s.ints, int32(t))
		s.fed = s.fed || t < 0
	}
	at(atPositions)
	s.places(step, func(_ *compute.Seq, position int) int32 { return int32(position) })
	at(atSlots)
	s.places(step, func(q *compute.Seq, position int) int32 {
		return q.Blocks[position/compute.BlockTokens]*compute.BlockTokens + int32(position%compute.BlockTokens)
	})
	at(atTables)
	s.seqs = s.seqs[:0]
	for i := range step.Seqs {
		q := &step.Seqs[i]
		s.seqs = append(s.seqs, seqPlace{q.Row, q.Rows, q.Past, len(s.ints)})
		s.ints = append(s.ints, q.Blocks...)
	}
	at(atRopes)
	s.fillRopes(ropes)
	s.ints[stepRows], s.ints[stepOutputs] = int32(s.rows), int32(s.outputs)
	s.base = len(s.ints)
}

// divide appends the items of attention with group query heads to a key, manyRows
// query rows to an item of a prompt, and the given blocks of threads for each key head. In some layers of a model with
// windows rows do not look at all of their context.
func (s *stepData) divide(group, manyRows, blocks int, windows bool) {
	blocks = max(1, blocks)
	s.ints = s.ints[:s.base]
	s.findRuns(group, blocks, windows)
	s.layOut(group, manyRows, blocks)
	at := func(field int) { s.ints[field] = int32(len(s.ints)) }
	at(atFewItems)
	s.few = s.appendFew(s.items[0])
	at(atManyItems)
	s.many = s.append8(s.items[1])
	at(atCombines)
	for _, u := range s.unions {
		s.ints = append(s.ints, u[:]...)
	}
	s.combines = len(s.unions)
	s.ints[stepFewItems], s.ints[stepManyItems], s.ints[stepCombines] = int32(s.few), int32(s.many), int32(s.combines)
}

func (s *stepData) append8(items [][8]int32) int {
	for _, it := range items {
		s.ints = append(s.ints, it[:]...)
	}
	return len(items)
}

// appendFew appends items with the blocks of their first partition.
func (s *stepData) appendFew(items [][8]int32) int {
	for _, it := range items {
		s.ints = append(s.ints, it[:]...)
		end := (int(it[1]+it[2]) + compute.BlockTokens - 1) / compute.BlockTokens
		for b := range partitionBlocks {
			if at := int(it[5])*partitionBlocks + b; at < end {
				s.ints = append(s.ints, s.ints[int(it[3])+at])
			} else {
				s.ints = append(s.ints, 0)
			}
		}
	}
	return len(items)
}

// places appends a number for each row.
func (s *stepData) places(step *compute.Step, of func(q *compute.Seq, position int) int32) {
	for i := range step.Seqs {
		q := &step.Seqs[i]
		s.single = s.single && q.Rows == 1
		for j := range q.Rows {
			s.ints = append(s.ints, of(q, q.Past+j))
		}
	}
}

func (s *stepData) fillRopes(ropes []compute.Rope) {
	first := len(s.ints) + 3*len(ropes)
	for i := range ropes {
		s.ints = append(s.ints, int32(len(ropes[i].InvFreq)), int32(math.Float32bits(ropes[i].Scale)), int32(first))
		first += len(ropes[i].InvFreq)
	}
	for i := range ropes {
		for _, f := range ropes[i].InvFreq {
			s.ints = append(s.ints, int32(math.Float32bits(f)))
		}
	}
}

// layOut divides attention into items. A sequence with few query rows has one
// item for each partition of its context, whose results are united afterwards,
// as long as there is room for them and that spreads the work, and sequences that share
// partitions have these together; others have one for each
// manyRows query rows. All give the same bits.
func (s *stepData) layOut(group, manyRows, blocks int) {
	s.items[0], s.items[1], s.unions = s.items[0][:0], s.items[1][:0], s.unions[:0]
	s.fewRows = 0
	each := s.partitionsEach(group, blocks)
	partials := s.layOutShared(group, each)
	for i := range s.runs {
		run := &s.runs[i]
		if run.parts > 0 {
			continue
		}
		for j := range run.seqs {
			partials = s.layOutAlone(&s.seqs[run.first+j], group, manyRows, each, partials)
		}
	}
	s.longestFirst()
}

// layOutAlone appends the items of a sequence that shares nothing, and returns how many results are kept then.
func (s *stepData) layOutAlone(q *seqPlace, group, manyRows, each, partials int) int {
	parts := q.parts()
	item := [8]int32{int32(q.row), int32(q.rows), int32(q.past), int32(q.table), 0, 0, int32(parts), -1}
	if !q.few(group) {
		for row := 0; row < q.rows*group; row += manyRows {
			item[4] = int32(row)
			s.items[1] = append(s.items[1], item)
		}
		return partials
	}
	s.fewRows = max(s.fewRows, q.rows*group)
	if parts > each && partials+parts*q.rows <= maxPartials {
		return s.split(item, q, parts, partials)
	}
	s.items[0] = append(s.items[0], item)
	for r := range q.rows {
		s.unions = append(s.unions, [4]int32{int32(q.row + r)})
	}
	return partials
}

// parts is how many partitions the context of a sequence has after the step.
func (q *seqPlace) parts() int { return (q.past + q.rows + partition - 1) / partition }

// few reports whether the kernel for few query rows takes those of a sequence.
func (q *seqPlace) few(group int) bool { return q.rows*group <= queryRows }

// partitions is how many partitions are read for sequences with few query rows, if none are shared.
func (s *stepData) partitions(group int) int {
	all := 0
	for i := range s.seqs {
		if q := &s.seqs[i]; q.few(group) {
			all += q.parts()
		}
	}
	return all
}

// partitionsEach is how many partitions of few query rows there are for each of the
// blocks of threads.
func (s *stepData) partitionsEach(group, blocks int) int {
	all := s.partitions(group)
	for _, run := range s.runs {
		all -= (run.seqs - 1) * run.parts
	}
	return max(1, (all+blocks-1)/blocks)
}

// split makes an item for each partition, and a union for each row.
func (s *stepData) split(item [8]int32, q *seqPlace, parts, partials int) int {
	for p := range parts {
		item[5], item[6], item[7] = int32(p), int32(p+1), int32(partials+p*q.rows)
		s.items[0] = append(s.items[0], item)
	}
	for r := range q.rows {
		s.unions = append(s.unions, [4]int32{int32(q.row + r), int32(partials + r), int32(q.rows), int32(parts)})
	}
	return partials + parts*q.rows
}

// longestFirst turns the items of prompts around, as the last rows look back farthest.
func (s *stepData) longestFirst() {
	m := s.items[1]
	for i, j := 0, len(m)-1; i < j; i, j = i+1, j-1 {
		m[i], m[j] = m[j], m[i]
	}
}

// partitionBlocks is how many blocks a partition has.
const partitionBlocks = partition / compute.BlockTokens

// maxPartials bounds the results of partitions that are kept in a step.
const maxPartials = 8192

// fewBlocks is how many blocks of threads of the kernel for few query rows a
// multiprocessor is given in a graph.
const fewBlocks = 2
