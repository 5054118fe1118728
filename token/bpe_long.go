package token

import "slices"

// A longMerge joins the pairs of a long word. Merges run in the order of their ranks and, within a rank, from left to
// right. One queue of all pairs would cost a cache miss at every step, so pairs wait in one bucket per rank and the
// queue holds only the ranks in use: a word of one repeated letter has a million pairs but about ten ranks.
//
// A vocabulary may make a pair ready whose rank is not above the one being worked on. Those few pairs go to a small
// queue that is served first.
type longMerge struct {
	symbols []longSymbol
	head    []int32 // per rank: the newest waiting entry, or missing
	waiting []waitingPair
	ranks   []uint32 // heap of ranks with waiting entries
	urgent  []uint64 // heap of rank<<32 | position
	bucket  []int32  // positions of the rank being worked on, sorted
	current uint32   // that rank
	busy    bool     // whether a bucket is being worked on
}

type longSymbol struct {
	id         int32 // missing once joined to the symbol before
	prev, next int32
	pair       merge // with the next symbol
}

type waitingPair struct{ position, next int32 }

// run returns the joined symbols, reusing their slice. first holds the merge of each neighbouring pair.
func (l *longMerge) run(m *mergeRules, symbols []int32, first []merge) []int32 {
	l.reset(m, symbols)
	for i, pair := range first {
		l.symbols[i].pair = pair
		l.push(pair.rank, int32(i))
	}
	for {
		for i := 0; i < len(l.bucket); {
			if len(l.urgent) > 0 && l.urgent[0] < urgentKey(l.current, l.bucket[i]) {
				l.popUrgent(m)
				continue
			}
			l.join(m, l.bucket[i], l.current)
			i++
		}
		for len(l.urgent) > 0 && uint32(l.urgent[0]>>32) <= l.current {
			l.popUrgent(m)
		}
		l.busy = false
		if !l.nextBucket() {
			break
		}
	}
	return l.collect(symbols[:0])
}

func (l *longMerge) reset(m *mergeRules, symbols []int32) {
	for len(l.head) < m.ranks {
		l.head = append(l.head, missing)
	}
	l.waiting, l.ranks = l.waiting[:0], l.ranks[:0]
	l.urgent, l.bucket = l.urgent[:0], l.bucket[:0]
	l.busy, l.current = false, 0
	l.symbols = slices.Grow(l.symbols[:0], len(symbols))[:len(symbols)]
	for i, id := range symbols {
		l.symbols[i] = longSymbol{id, int32(i) - 1, int32(i) + 1, merge{noRank, missing}}
	}
	l.symbols[len(symbols)-1].next = missing
}

func urgentKey(rank uint32, position int32) uint64 { return uint64(rank)<<32 | uint64(position) }

func (l *longMerge) push(rank uint32, position int32) {
	if rank == noRank {
		return
	}
	if l.busy && rank <= l.current {
		heapPush(&l.urgent, urgentKey(rank, position))
		return
	}
	if l.head[rank] == missing {
		heapPush(&l.ranks, rank)
	}
	l.waiting = append(l.waiting, waitingPair{position, l.head[rank]})
	l.head[rank] = int32(len(l.waiting) - 1)
}

func (l *longMerge) popUrgent(m *mergeRules) {
	key := heapPop(&l.urgent)
	l.join(m, int32(uint32(key)), uint32(key>>32))
}

// nextBucket loads the positions of the lowest waiting rank.
func (l *longMerge) nextBucket() bool {
	l.bucket = l.bucket[:0]
	if len(l.ranks) == 0 {
		return false
	}
	l.current, l.busy = heapPop(&l.ranks), true
	for w := l.head[l.current]; w != missing; w = l.waiting[w].next {
		l.bucket = append(l.bucket, l.waiting[w].position)
	}
	l.head[l.current] = missing
	slices.Reverse(l.bucket)
	if !slices.IsSorted(l.bucket) {
		slices.Sort(l.bucket)
	}
	return true
}

// join merges the pair that begins at position if it still has this rank.
func (l *longMerge) join(m *mergeRules, position int32, rank uint32) {
	left := &l.symbols[position]
	if left.id == missing || left.pair.rank != rank {
		return
	}
	right := &l.symbols[left.next]
	left.id, left.next = left.pair.id, right.next
	right.id = missing
	left.pair = merge{noRank, missing}
	if left.next != missing {
		after := &l.symbols[left.next]
		after.prev = position
		l.pairWith(m, left, after, position, rank)
	}
	if left.prev != missing {
		before := &l.symbols[left.prev]
		before.pair = m.pairs.find(before.id, left.id)
		l.push(before.pair.rank, left.prev)
	}
}

// pairWith notes the pair of a symbol just merged and the one after it. That one is skipped when it is about to be
// merged itself: it has the same rank and lies to the right, and the new pair, of a higher rank, will be gone by the
// time its turn comes.
func (l *longMerge) pairWith(m *mergeRules, left, after *longSymbol, position int32, rank uint32) {
	if after.pair.rank != rank {
		left.pair = m.pairs.find(left.id, after.id)
		l.push(left.pair.rank, position)
		return
	}
	if m.ordered {
		return
	}
	if left.pair = m.pairs.find(left.id, after.id); left.pair.rank <= rank {
		l.push(left.pair.rank, position)
	}
}

func (l *longMerge) collect(dst []int32) []int32 {
	for i := int32(0); i != missing; i = l.symbols[i].next {
		dst = append(dst, l.symbols[i].id)
	}
	return dst
}

// heapPush and heapPop keep a binary heap with the smallest value first. container/heap would cost an interface call
// per comparison.
func heapPush[T uint32 | uint64](heap *[]T, v T) {
	h := append(*heap, v)
	i := len(h) - 1
	for i > 0 && h[(i-1)/2] > v {
		h[i] = h[(i-1)/2]
		i = (i - 1) / 2
	}
	h[i] = v
	*heap = h
}

func heapPop[T uint32 | uint64](heap *[]T) T {
	h := *heap
	top, v := h[0], h[len(h)-1]
	h = h[:len(h)-1]
	for i := 0; len(h) > 0; {
		child := 2*i + 1
		if child < len(h)-1 && h[child+1] < h[child] {
			child++
		}
		if child >= len(h) || h[child] >= v {
			h[i] = v
			break
		}
		h[i] = h[child]
		i = child
	}
	*heap = h
	return top
}
