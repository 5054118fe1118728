package cuda

import "slices"

// Sequences with one row each that stand next to each other in a step may begin with the same
// blocks: a system prompt, or samples of one prompt. The keys and values of partitions that all of
// them have in common are read once for all. To the kernel for few query rows such sequences are one
// sequence with a row for each, which all see every key. What follows the common
// partitions is computed for each sequence, and united in the order of the context, as always. So
// sharing changes no bits.

// A sharedRun is a run of neighbouring sequences of a step that begin with the same partitions.
type sharedRun struct {
	first, seqs int
	parts       int // that they share; 0 if there is nothing to gain
	pieces      int // items of the shared partitions
	partials    int // where the results of the run begin
}

// savedLeast is how many partitions a run must save to be read, each for one sequence: results of
// partitions must be written and united.
const savedLeast = 4

// findRuns divides the sequences into runs, which share where that pays: not if all partitions together are too few
// to give work to the blocks of threads, and not in a model with windows, whose rows do not see every key.
func (s *stepData) findRuns(group, blocks int, windows bool) {
	s.runs = s.runs[:0]
	most := queryRows / 2 / group // as many as the kernel for few rows takes in its narrower form
	if windows || s.partitions(group) <= blocks {
		most = 1
	}
	for i := 0; i < len(s.seqs); {
		run := s.runFrom(i, most)
		s.runs = append(s.runs, run)
		i += run.seqs
	}
}

// runFrom returns the run of at most most sequences that saves most from a sequence on.
func (s *stepData) runFrom(first, most int) sharedRun {
	best, saved := sharedRun{first: first, seqs: 1}, savedLeast-1
	parts := s.seqs[first].complete()
	for n := 2; n <= min(most, len(s.seqs)-first); n++ {
		parts = s.sameParts(first, first+n-1, parts)
		if (n-1)*parts > saved {
			best, saved = sharedRun{first: first, seqs: n, parts: parts}, (n-1)*parts
		}
	}
	return best
}

// complete is how many partitions earlier steps have filled, of a sequence with one row.
func (q *seqPlace) complete() int {
	if q.rows != 1 {
		return 0
	}
	return q.past / partition
}

// sameParts returns how many of the first partitions two sequences share, at most most.
func (s *stepData) sameParts(a, b, most int) int {
	most = min(most, s.seqs[b].complete())
	for p := range most {
		at := p * partitionBlocks
		if !slices.Equal(s.ints[s.seqs[a].table+at:][:partitionBlocks], s.ints[s.seqs[b].table+at:][:partitionBlocks]) {
			return p
		}
	}
	return most
}

// layOutShared appends the items of runs that share partitions, as long as there is room for their results: an item
// for each partition if that spreads the work, else one for all, and then those of each sequence by
// itself. It returns how many results are kept. Those of a run that found no room share nothing.
func (s *stepData) layOutShared(group, each int) (partials int) {
	for i := range s.runs {
		run := &s.runs[i]
		if run.parts == 0 {
			continue
		}
		if run.pieces = run.parts; run.parts <= each || partials+s.partialsOf(run) > maxPartials {
			run.pieces = 1
		}
		if partials+s.partialsOf(run) > maxPartials {
			run.parts = 0
			continue
		}
		run.partials = partials
		partials += s.partialsOf(run)
		s.appendShared(group, run)
	}
	for i := range s.runs {
		if s.runs[i].parts > 0 {
			s.appendRests(&s.runs[i])
		}
	}
	return partials
}

// partialsOf returns how many results of parts of contexts a run has.
func (s *stepData) partialsOf(run *sharedRun) int {
	longest := 0
	for i := range run.seqs {
		longest = max(longest, s.seqs[run.first+i].parts())
	}
	return run.seqs * (run.pieces + longest - run.parts)
}

// appendShared appends the items of the partitions that a run shares.
func (s *stepData) appendShared(group int, run *sharedRun) {
	q := &s.seqs[run.first]
	s.fewRows = max(s.fewRows, run.seqs*group)
	each := run.parts / run.pieces
	item := [8]int32{int32(q.row), int32(run.seqs), int32(run.parts * partition), int32(q.table)}
	for p := range run.pieces {
		item[5], item[6], item[7] = int32(p*each), int32(p*each+each), int32(run.partials+p*run.seqs)
		s.items[0] = append(s.items[0], item)
	}
}

// appendRests appends what the sequences of a run do not share, and unites it with what they do.
func (s *stepData) appendRests(run *sharedRun) {
	for i := range run.seqs {
		q := &s.seqs[run.first+i]
		item := [8]int32{int32(q.row), 1, int32(q.past), int32(q.table)}
		at, count := run.partials+i, run.pieces
		for p := run.parts; p < q.parts(); p++ {
			item[5], item[6], item[7] = int32(p), int32(p+1), int32(at+count*run.seqs)
			s.items[0] = append(s.items[0], item)
			count++
		}
		s.unions = append(s.unions, [4]int32{int32(q.row), int32(at), int32(run.seqs), int32(count)})
	}
}
