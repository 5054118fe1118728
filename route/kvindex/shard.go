package kvindex

import (
	"math/bits"
	"unsafe"

	"parley/internal/largepage"
)

// A shard is an open table from tags to numbers. It grows by half before more than
// five eighths of its places are taken: hardly an entry then stands elsewhere than
// where it belongs. It shrinks to a half when less than a sixth are.
//
// An entry stands in the line where it belongs or, if that is full, in the next
// one that is not. Entries stay where they are until the shard is resized:
// a line counts the entries that passed it on the way to their place, and a search
// goes on only from a line that some have passed.
type shard struct {
	lines []line
	n     int32 // entries
	most  int32 // of them before it grows
}

// A line is what memory delivers at once. Byte i of marks belongs to entry i: 0 if
// it is empty, and otherwise 128 and seven bits of its tag, so that one operation
// on a word tells which entries are worth a look. The last byte counts the entries
// that passed this line; at 255 it counts no more, and stays.
type line struct {
	marks   uint64
	entries [lineEntries]entry
}

// An entry is the tag of what was put here, in its upper bits, and a number.
type entry uint64

const (
	lineEntries = 7
	everyByte   = 0x0101010101010101
	takenBits   = 0x0080808080808080 // of the entries of a line
	passedShift = 56
	passedMost  = 255
)

// A place is where something belongs: in which shard, and its tag there.
type place struct {
	shard *shard
	tag   uint64
}

// line returns the one where it belongs.
func (p place) line() *line { return p.shard.line(p.tag) }

// A spot is where an entry stands.
type spot struct {
	shard *shard
	line  *line
	at    int
	far   bool // it is not the line where the entry belongs
}

// home returns the number of the line where a tag belongs. It depends on the
// uppermost bits, so that a shard that is resized is read and written in order.
func (s *shard) home(tag uint64) int { return int(tag >> 32 * uint64(len(s.lines)) >> 32) }

// line returns the line where a tag belongs; of a shard without lines, an empty one.
func (s *shard) line(tag uint64) *line {
	if at := s.home(tag); at < len(s.lines) {
		return &s.lines[at]
	}
	return &noLine
}

// noLine is never written to.
var noLine line

// asked are addresses whose memory a later step needs.
type asked [step]unsafe.Pointer

// mark is the byte of an entry with a tag.
func mark(tag uint64) uint64 { return tag>>32&127 | 128 }

// like returns a bit for each entry that may have a tag, all those that do among
// them: entry i if bit 8*i+7 is set.
func (l *line) like(tag uint64) uint64 {
	differ := l.marks ^ mark(tag)*everyByte
	return (differ - everyByte) &^ differ & takenBits
}

// empty returns such bits of the entries that are empty.
func (l *line) empty() uint64 { return ^l.marks & takenBits }

func (l *line) passed() bool { return l.marks>>passedShift != 0 }

// first returns the number of the first entry among such bits.
func first(found uint64) int { return bits.TrailingZeros64(found) / 8 }

// put places a new entry, for which there is room.
func (s *shard) put(e entry) {
	at := s.home(uint64(e))
	for s.lines[at].empty() == 0 {
		if l := &s.lines[at]; l.marks>>passedShift < passedMost {
			l.marks += 1 << passedShift
		}
		at = s.after(at)
	}
	s.lines[at].fill(e)
}

// fill puts an entry in a line that is not full.
func (l *line) fill(e entry) {
	i := first(l.empty())
	l.entries[i] = e
	l.marks |= mark(uint64(e)) << (8 * i)
}

func (s *shard) after(at int) int {
	if at++; at == len(s.lines) {
		return 0
	}
	return at
}

// take removes the entry in a spot.
func (p *spot) take() {
	if p.far {
		p.shard.unpass(p.shard.home(uint64(p.line.entries[p.at])), p.line)
	}
	p.line.marks &^= 0xff << (8 * p.at)
	p.shard.n--
	if p.shard.n < p.shard.most/4 {
		p.shard.shrink()
	}
}

// unpass notes that one entry less passed the lines from home to where it stands.
func (s *shard) unpass(home int, l *line) {
	for ; &s.lines[home] != l; home = s.after(home) {
		if passed := &s.lines[home].marks; *passed>>passedShift < passedMost {
			*passed -= 1 << passedShift
		}
	}
}

// add places a new entry, and makes room for it. l is the line where it belongs.
func (s *shard) add(l *line, e entry) {
	if s.n++; s.n > s.most {
		s.resize(len(s.lines) + (len(s.lines)+1)/2)
		s.put(e)
	} else if l.empty() == 0 {
		s.put(e)
	} else {
		l.fill(e)
	}
}

// shrink gives memory back that is not needed.
func (s *shard) shrink() {
	if len(s.lines) > 1 {
		s.resize(len(s.lines) / 2)
	}
}

// resize moves the entries to another number of lines.
func (s *shard) resize(lines int) {
	old := s.lines
	s.lines = make([]line, max(lines, 1))
	largepage.Ask(s.lines)
	s.most = int32(len(s.lines) * lineEntries * 5 / 8)
	for i := range old {
		for taken := old[i].marks & takenBits; taken != 0; taken &= taken - 1 {
			s.put(old[i].entries[first(taken)])
		}
	}
}
