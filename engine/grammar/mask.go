package grammar

import (
	"encoding/binary"
	"math"
	"math/bits"
	"slices"

	"parley"
)

// A Mask is the set of tokens that may come next. It is shared and must not be
// changed.
type Mask struct {
	words []uint64
	size  int
}

// Allows reports whether the token is in the set.
func (m *Mask) Allows(t parley.Token) bool {
	return t >= 0 && int(t) < m.size && m.words[t>>6]>>(uint(t)&63)&1 != 0
}

// Word returns 64 tokens of the set as bits, from token 64*i on.
func (m *Mask) Word(i int) uint64 { return m.words[i] }

// Words returns the set as bits, bit t%64 of word t/64 for token t. They must not be changed.
func (m *Mask) Words() []uint64 { return m.words }

// Count returns the size of the set.
func (m *Mask) Count() (n int) {
	for _, w := range m.words {
		n += bits.OnesCount64(w)
	}
	return n
}

// Apply writes scores to dst, and minus infinity for every token that is not in
// the set. dst may be scores itself. Both have one score for each token.
func (m *Mask) Apply(dst, scores []float32) {
	for i, w := range m.words {
		from, to := 64*i, min(64*i+64, m.size)
		d := dst[from:to]
		if bits.OnesCount64(w) <= 16 {
			m.pick(d, scores[from:to], w)
			continue
		}
		copy(d, scores[from:to])
		for out := ^w; out != 0; out &= out - 1 {
			if j := bits.TrailingZeros64(out); j < len(d) {
				d[j] = nevers[0]
			}
		}
	}
}

// nevers are the scores of 64 tokens that are not allowed.
var nevers = func() (scores [64]float32) {
	for i := range scores {
		scores[i] = float32(math.Inf(-1))
	}
	return scores
}()

// pick writes the few scores that are allowed.
func (m *Mask) pick(d, scores []float32, w uint64) {
	var kept [16]float32
	n := 0
	for in := w; in != 0; in &= in - 1 {
		kept[n] = scores[bits.TrailingZeros64(in)]
		n++
	}
	copy(d, nevers[:])
	n = 0
	for in := w; in != 0; in &= in - 1 {
		d[bits.TrailingZeros64(in)] = kept[n]
		n++
	}
}

// A walker follows a program down the trie.
type walker struct {
	runner
	v *Vocabulary
	// spare are the needs where some bytes have no token of their own, nil if all
	// have one.
	spare []uint8
}

// walk adds to out the tokens below a node that the places between from and to
// take.
func (w *walker) walk(at int32, from, to int, out *partial) {
	end := w.v.nodes[at].end
	for child := at + 1; child < end; {
		node := &w.v.nodes[child]
		if node.height == 0 && w.spare == nil {
			if w.takes(from, to, node.b) {
				w.includeAll(out, node.first, w.v.nodes[child+1].first)
			}
		} else if places, frames := len(w.places), len(w.frames); w.step(from, to, node.b) {
			w.take(child, places, out)
			w.drop(places, frames)
		}
		child = node.end
	}
}

// takes reports whether some place between from and to takes b. Where it leads
// does not matter for a token that ends there: every node that is reached in
// the room that is left can be completed.
func (w *walker) takes(from, to int, b byte) bool {
	for i := from; i < to; i++ {
		at := w.places[i]
		if next := w.p.next(at.node, b); next >= 0 && w.depth(at.frame)+int32(w.p.needs[next]) <= w.room {
			return true
		}
	}
	return false
}

// includeAll adds the tokens from first up to end in the order of the trie.
func (w *walker) includeAll(out *partial, first, end int32) {
	for _, t := range w.v.tokens[first:end] {
		out.words[t>>6] |= 1 << (uint(t) & 63)
	}
}

// take adds the tokens of a node, with the places from top on.
func (w *walker) take(at int32, top int, out *partial) {
	node, next := &w.v.nodes[at], &w.v.nodes[at+1]
	if w.covers(top, node) {
		w.includeAll(out, node.first, w.v.nodes[node.end].first)
		return
	}
	if next.first > node.first && (w.complete || w.hopeful(top)) {
		w.includeAll(out, node.first, next.first)
	}
	if node.height > 0 {
		if w.complete {
			out.exits = append(out.exits, at)
		}
		w.walk(at, top, len(w.places), out)
	}
}

// covers reports whether some place from top on takes every token below node.
func (w *walker) covers(top int, node *trieNode) bool {
	for _, at := range w.places[top:] {
		n := &w.p.nodes[at.node]
		if node.below&^n.loops == 0 && n.loops != 0 {
			return w.spare == nil || w.hopeful(top)
		}
		if n.single == 0 || node.below&^n.single != 0 || at.frame == bottom {
			continue
		}
		f := w.frames[at.frame]
		if again := &w.p.nodes[f.node]; again.repeat != nil && again.body == at.node {
			if most := again.repeat.most; most == 0 || int32(node.characters) <= most-f.count+1 {
				return w.spare == nil || w.hopeful(top)
			}
		}
	}
	return false
}

// hopeful reports whether some place from top on can be completed with the
// bytes that are tokens.
func (w *walker) hopeful(top int) bool {
	if w.spare == nil {
		return len(w.places) > top
	}
	return slices.ContainsFunc(w.places[top:], w.completable)
}

func (w *walker) completable(at parserState) bool {
	if w.depth(at.frame)+int32(w.spare[at.node]) > w.room {
		return false
	}
	for f := at.frame; f != bottom; f = w.frames[f].parent {
		if to := w.frames[f]; to.depth-1+int32(w.spare[to.node]) > w.room {
			return false
		}
	}
	return true
}

// A segment is the part of a place's stack that its partial mask depends on:
// its node and, up to the first frame that is not a repetition, the frames it
// returns to. Left is the frame after them.
type segment struct {
	frames []int32
	left   int32
}

// segmentOf cuts the stack of a place. A rule that is repeated is short, so the
// frames of repetitions belong to it, and the one under them, in which most
// tokens end.
func (w *walker) segmentOf(at parserState, buffer []int32) segment {
	s := segment{frames: buffer[:0], left: at.frame}
	if s.left == bottom || w.p.nodes[w.frames[s.left].node].repeat == nil {
		return s
	}
	for s.left != bottom {
		f := w.frames[s.left]
		s.frames = append(s.frames, s.left)
		s.left = f.parent
		if w.p.nodes[f.node].repeat == nil {
			break
		}
	}
	return s
}

// count returns a frame's count, or one that no token of that many bytes can
// tell from it.
func (w *walker) count(f *frame, bytes int) int32 {
	again := w.p.nodes[f.node].repeat
	if again == nil {
		return 0
	}
	reach := int32(bytes) + 1
	switch {
	case f.count < again.least-reach:
		return 1
	case f.count > again.least && again.most > 0 && f.count < again.most-reach:
		return again.least + 1
	}
	return f.count
}

// appendKey appends what a partial mask depends on.
func (w *walker) appendKey(key []byte, at parserState, s segment) []byte {
	key = binary.AppendUvarint(key, uint64(at.node))
	calm := w.p.nodes[at.node].calm
	for _, i := range s.frames {
		f := &w.frames[i]
		calm = calm && w.p.nodes[f.node].calm
		key = binary.AppendUvarint(key, uint64(f.node))
		key = binary.AppendUvarint(key, uint64(w.count(f, shortBytesMax)))
	}
	if calm {
		return key
	}
	return append(key, 0xFF, byte(w.room-w.depth(s.left)))
}

// partial computes the partial mask of a place.
func (w *walker) partial(at parserState, s segment) *partial {
	out := &partial{words: make([]uint64, w.v.words)}
	places, frames, room := len(w.places), len(w.frames), w.room
	w.room -= w.depth(s.left)
	parent := bottom
	for i := len(s.frames) - 1; i >= 0; i-- {
		f := w.frames[s.frames[i]]
		parent = w.push(f.node, parent, w.count(&f, shortBytesMax))
	}
	w.places = append(w.places, parserState{at.node, parent})
	w.walk(0, places, places+1, out)
	w.drop(places, frames)
	w.room = room
	return out
}

// follow takes text from the places from top on, and reports whether what it
// leads to can be completed.
func (w *walker) follow(top int, text []byte) (int, bool) {
	for _, b := range text {
		to := len(w.places)
		if !w.step(top, to, b) {
			return 0, false
		}
		top = to
	}
	return top, w.complete || w.hopeful(top)
}
