package grammar

import (
	"encoding/binary"
	"math"

	"parley/engine/automaton"
)

// programsMax bounds how many programs a masker knows at once.
const programsMax = 256

// A Masker computes the masks of all matchers of one goroutine, and remembers
// them. It must not be used by two goroutines at once, and neither may its
// matchers.
type Masker struct {
	walker
	masks    cache[*Mask]
	partials cache[*partial]
	programs cache[*vocabularyProgram]
	links    uint32
	key      []byte
	stack    []int32
	stats    Stats
}

// Stats count how often a mask was asked for, and how often it, and a part of
// it, had to be computed.
type Stats struct {
	Masks, MaskMisses, PartMisses uint64
}

// A vocabularyProgram program is one in use with the vocabulary.
type vocabularyProgram struct {
	*Program
	id    uint32
	spare []uint8
}

// NewMasker returns a masker for a vocabulary that remembers at most about
// cacheBytes of masks.
func NewMasker(v *Vocabulary, cacheBytes int) *Masker {
	entries := max(8, cacheBytes/(8*v.words+128))
	return &Masker{
		walker:   walker{v: v},
		masks:    newCache[*Mask](entries / 2),
		partials: newCache[*partial](entries / 2),
		programs: newCache[*vocabularyProgram](programsMax),
	}
}

// Stats returns the counts so far.
func (m *Masker) Stats() Stats { return m.stats }

func (m *Masker) link(p *Program) *vocabularyProgram {
	if l, ok := m.programs.get(p.key[:]); ok {
		return l
	}
	m.links++
	l := &vocabularyProgram{Program: p, id: m.links}
	if !m.v.spelledAll {
		l.spare = p.countNeeds(&automaton.Meter{}, &m.v.spelled)
	}
	m.programs.put(p.key[:], l)
	return l
}

// ready readies the runner for a program.
func (m *Masker) ready(l *vocabularyProgram) {
	m.reset(l.Program)
	m.spare = l.spare
}

// mask returns the mask of the places that the runner holds.
func (m *Masker) mask(l *vocabularyProgram, complete bool) *Mask {
	m.stats.Masks++
	m.key = m.stateKey(m.key[:0], l, complete)
	if mask, ok := m.masks.get(m.key); ok {
		return mask
	}
	m.stats.MaskMisses++
	key := string(m.key)
	mask := &Mask{words: make([]uint64, m.v.words), size: m.v.size}
	for i, n := 0, len(m.places); i < n; i++ {
		m.addPlace(l, m.places[i], mask)
	}
	m.addLong(mask)
	if complete {
		all := partial{words: mask.words}
		for _, t := range m.v.ends {
			all.include(t)
		}
	}
	m.masks.put([]byte(key), mask)
	return mask
}

// stateKey names everything that a mask depends on.
func (m *Masker) stateKey(key []byte, l *vocabularyProgram, complete bool) []byte {
	key = binary.LittleEndian.AppendUint32(key, l.id)
	if complete {
		key = append(key, 1)
	}
	for _, at := range m.places {
		key = binary.AppendUvarint(key, uint64(at.node)+2)
		for f := at.frame; f != bottom; f = m.frames[f].parent {
			key = binary.AppendUvarint(key, uint64(m.frames[f].node)+2)
			key = binary.AppendUvarint(key, uint64(m.count(&m.frames[f], m.v.longest)))
		}
		key = append(key, 0)
	}
	return key
}

// addPlace adds what one place takes: what it decides by itself, and beyond
// its exits what its stack takes.
func (m *Masker) addPlace(l *vocabularyProgram, at parserState, mask *Mask) {
	s := m.segmentOf(at, m.stack)
	m.stack = s.frames
	part := m.part(l, at, s)
	for i, w := range part.words {
		mask.words[i] |= w
	}
	if s.left == bottom || len(part.exits) == 0 {
		return
	}
	out := &partial{words: mask.words}
	places, frames := len(m.places), len(m.frames)
	m.leave(places, s.left)
	m.settle(places)
	for _, exit := range part.exits {
		m.walk(exit, places, len(m.places), out)
	}
	m.drop(places, frames)
}

// addLong adds the tokens that are not in the trie.
func (m *Masker) addLong(mask *Mask) {
	out := partial{words: mask.words}
	places, frames := len(m.places), len(m.frames)
	for i := range m.v.long {
		long := &m.v.long[i]
		ok := m.covers(0, &long.trieNode)
		if !ok {
			_, ok = m.follow(0, m.v.spell[long.token])
		}
		if ok {
			out.include(long.token)
		}
		m.drop(places, frames)
	}
}

// part returns the partial mask of a place. What lies within the built-in
// rules and calls nothing is the same for all programs.
func (m *Masker) part(l *vocabularyProgram, at parserState, s segment) *partial {
	if left, ok := m.inText(at, s); ok {
		if left < len(m.v.short) {
			return m.v.short[left]
		}
		at, s.frames = parserState{l.inside, bottom}, nil // no token reaches the end
	}
	if at.node < l.builtin && len(s.frames) == 0 && l.nodes[at.node].calm {
		if part, ok := m.v.texts[string(m.appendKey(nil, at, s))]; ok {
			return part
		}
	}
	key := m.appendKey(binary.LittleEndian.AppendUint32(make([]byte, 0, 32), l.id), at, s)
	if part, ok := m.partials.get(key); ok {
		return part
	}
	m.stats.PartMisses++
	part := m.partial(at, s)
	m.partials.put(key, part)
	return part
}

// inText reports whether a place is at a character of a counted string that may
// end there, and how many characters may follow at most. What the string takes is
// then what any string takes of which that much is left.
func (m *Masker) inText(at parserState, s segment) (left int, ok bool) {
	if len(s.frames) != 2 || at.node != m.p.char {
		return 0, false
	}
	count, after := &m.frames[s.frames[0]], &m.p.nodes[m.frames[s.frames[1]].node]
	again := m.p.nodes[count.node].repeat
	if count.count <= again.least || m.p.nodes[count.node].body != at.node || !closesText(m.p, after) {
		return 0, false
	}
	if again.most == 0 {
		return math.MaxInt, true
	}
	left = int(again.most - count.count + 1)
	return left, left > shortBytesMax || left < len(m.v.short)
}

// closesText reports whether a node takes the quote that ends a string, and its
// rule ends there.
func closesText(p *Program, n *node) bool {
	return len(n.edges) == 1 && n.edges[0].Lo == '"' && n.edges[0].Hi == '"' && p.nodes[n.edges[0].To].pure &&
		!n.accept && len(n.calls) == 0
}
