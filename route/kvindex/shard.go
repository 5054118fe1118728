package kvindex

import (
	"cmp"
	"math/bits"
	"slices"
	"unsafe"

	"parley/internal/largepage"
)

// A shard is a part of an open table from tags to numbers. A worker's batch finds
// its shards forgotten by the processor's caches, so they are small: no slice, and no
// count of what is in them.
type shard struct {
	lines *line  // the first of them; noLine if there are none
	count uint32 // lines
}

// A line is what memory delivers at once: eight entries. An entry is a number and
// some bits of its tag: the uppermost 16, the next 8, and seven in its mark. Byte i
// of marks belongs to entry i. Its lower bits are the mark, or 0 if the entry is empty,
// so that one operation on a word finds the entries that are worth a look.
//
// An entry stands in the line where it belongs or, if that is full, in the next
// one that is not. Entries stay where they are until the shard is resized: a line
// counts the entries that passed it on the way to their place, and a search continues
// only from a line that some have passed. It counts them apart in two groups, by a bit
// of their tags, so that few searches do. The upper bits of bytes 0 to 3 are the count
// of one group and those of 4 to 7 that of the other; at 15 it counts no more, and stays.
type line struct {
	marks   uint64
	numbers [lineEntries]uint32
	tags    [lineEntries]uint16
	more    [lineEntries]uint8
}

const (
	lineEntries = 8
	passedMost  = 15

	homeBits  = 24 // of a tag say where it belongs: the uppermost, which an entry has
	markShift = 27 // the seven bits of a tag from here on are its mark

	everyByte = 0x0101010101010101
	upperBits = 0x8080808080808080
	groupBits = 0x80808080
	lowerBits = 0x7f7f7f7f7f7f7f7f
)

// noLine is that of shards which have none. It is never written to: something seems
// to have passed it, so that a search always continues.
var noLine = line{marks: upperBits}

// A shardTag is where something belongs: in which shard, and its tag there.
type shardTag struct {
	*shard
	tag uint64
}

// An aim is the line where something belongs, and its tag there. It is good until a
// shard is resized.
type aim struct {
	line *line
	tag  uint64
}

func (p shardTag) aim() aim { return aim{p.at(p.home(p.tag)), p.tag} }

// A spot is where an entry stands.
type spot struct {
	shardTag
	line *line
	i    int
}

// home returns the number of the line where a tag belongs. It depends on the
// uppermost bits, so that a shard that is resized is read and written in order.
func (s *shard) home(tag uint64) int {
	return int(tag >> (64 - homeBits) * uint64(s.count) >> homeBits)
}

// at returns a line by its number, which must be that of one.
func (s *shard) at(number int) *line {
	return (*line)(unsafe.Add(unsafe.Pointer(s.lines), number*int(unsafe.Sizeof(line{}))))
}

func (s *shard) all() []line { return unsafe.Slice(s.lines, s.count) }

func (s *shard) after(at int) int {
	if at++; at == int(s.count) {
		return 0
	}
	return at
}

// mark is that of an entry with a tag. It is not 0.
func mark(tag uint64) uint64 { return max(tag>>markShift&127, 1) }

// like returns a bit for each entry that has the mark of a tag, and for no other:
// bit 8*i+7 for entry i.
func (l *line) like(tag uint64) uint64 {
	return (upperBits - (l.marks&lowerBits ^ mark(tag)*everyByte)) & upperBits
}

// empty returns such bits of the entries that are empty.
func (l *line) empty() uint64 { return (upperBits - l.marks&lowerBits) & upperBits }

func (l *line) taken() uint64 { return l.empty() ^ upperBits }

// group returns the bits of a line's marks that count what has the group of a tag.
func group(tag uint64) uint64 { return groupBits << (tag >> (64 - homeBits) % 2 * 32) }

// passed reports whether something with a tag may stand in a later line.
func (l *line) passed(tag uint64) bool { return l.marks&group(tag) != 0 }

// unseen returns the empty entries of the line where a tag belongs; none at all if
// something that may have the tag is there, or may stand elsewhere.
func (l *line) unseen(tag uint64) uint64 {
	if l.marks&group(tag) != 0 {
		return 0
	}
	if found := l.like(tag); found != 0 && l.has(found, tag) {
		return 0
	}
	return l.empty()
}

// has reports whether one of the entries that have the mark of a tag may have the tag.
func (l *line) has(found, tag uint64) bool {
	for ; found != 0; found &= found - 1 {
		if l.agrees(first(found), tag) {
			return true
		}
	}
	return false
}

// first returns the number of the first entry among such bits; 0 if there is none.
func first(found uint64) int { return bits.TrailingZeros64(found) / 8 % lineEntries }

// tag returns the bits of an entry's tag that say where it belongs, and its mark.
func (l *line) tag(i int) uint64 {
	return uint64(l.tags[i])<<48 | uint64(l.more[i])<<40 | l.marks>>(8*i)&127<<markShift
}

// agrees reports whether an entry has the tag that says where it belongs.
func (l *line) agrees(i int, tag uint64) bool {
	return l.tags[i] == uint16(tag>>48) && l.more[i] == uint8(tag>>40)
}

// fill puts an entry in the first of the empty ones.
func (l *line) fill(empty uint64, number uint32, tag uint64) {
	i := first(empty)
	l.marks |= mark(tag) << (8 * i)
	l.numbers[i], l.tags[i], l.more[i] = number, uint16(tag>>48), uint8(tag>>40)
}

// clear empties an entry.
func (l *line) clear(i int) { l.marks &^= 127 << (8 * i) }

// passes returns how many entries with the group of a tag passed the line, as far as
// it counts.
func (l *line) passes(tag uint64) (n uint64) {
	for bits := group(tag); bits != 0; bits &= bits - 1 {
		n = 2*n + min(l.marks&bits&-bits, 1)
	}
	return n
}

// pass notes that one entry more passed the line, or one less.
func (l *line) pass(tag uint64, by int) {
	n := l.passes(tag)
	if n == passedMost {
		return
	}
	n += uint64(by)
	bits := group(tag)
	for l.marks &^= bits; bits != 0; bits &= bits - 1 {
		l.marks |= n >> 3 & 1 * (bits & -bits)
		n <<= 1
	}
}

// put places a new entry, and reports whether there was room.
func (s *shard) put(number uint32, tag uint64) bool {
	at := s.home(tag)
	for range s.count {
		l := s.at(at)
		if empty := l.empty(); empty != 0 {
			l.fill(empty, number, tag)
			return true
		}
		l.pass(tag, 1)
		at = s.after(at)
	}
	return false
}

// take removes the entry in a spot.
func (p *spot) take() {
	for at := p.home(p.tag); p.at(at) != p.line; at = p.after(at) {
		p.at(at).pass(p.tag, -1)
	}
	p.line.clear(p.i)
}

// resize moves the entries to another number of lines, or a few more: as many as
// there is room for in the memory that Go gives for them. It reports whether they have
// room there, and does nothing if not.
func (s *shard) resize(count uint32) bool {
	lines := append([]line(nil), make([]line, count)...)
	lines = lines[:cap(lines)]
	largepage.Ask(lines)
	to := shard{lines: &lines[0], count: uint32(len(lines))}
	old := s.all()
	for i := range old {
		for taken := old[i].taken(); taken != 0; taken &= taken - 1 {
			at := first(taken)
			if !to.put(old[i].numbers[at], old[i].tag(at)) {
				return false
			}
		}
	}
	*s = to
	return true
}

// size is how large an open table is. It grows and shrinks one shard at a time, so
// that no operation waits for the whole to be moved. Its shards have about as many lines
// each, and about as many entries: the clients that choose the content do not know
// where it belongs.
type size struct {
	entries, lines int
	moves          int // how often a shard was resized
}

// On average a line has at most entriesMost/entriesOf entries, and not less than one.
const (
	entriesMost = 7
	entriesOf   = 2
)

// fits reports whether a table of the given number of shards is as large as it should
// be.
func (z *size) fits(shards int) bool {
	return entriesOf*z.entries <= entriesMost*z.lines && (z.entries >= z.lines || z.lines <= shards)
}

// fit makes the table as large as it should be.
func (z *size) fit(shards []shard) {
	for entriesOf*z.entries > entriesMost*z.lines {
		smallest := slices.MinFunc(shards, byLines)
		z.grow(&shards[slices.Index(shards, smallest)])
	}
	for z.entries < z.lines && z.lines > len(shards) {
		largest := slices.MaxFunc(shards, byLines)
		if !z.resize(&shards[slices.Index(shards, largest)], largest.count/2) {
			return
		}
	}
}

// grow adds a quarter to a shard.
func (z *size) grow(s *shard) { z.resize(s, max(s.count+(s.count+3)/4, 1)) }

func byLines(a, b shard) int { return cmp.Compare(a.count, b.count) }

func (z *size) resize(s *shard, count uint32) bool {
	was := s.count
	if !s.resize(count) {
		return false
	}
	z.lines += int(s.count) - int(was)
	z.moves++
	return true
}

// add places a new entry.
func (z *size) add(p shardTag, number uint32) {
	for !p.put(number, p.tag) {
		z.grow(p.shard)
	}
	z.entries++
}

// reset makes a table empty.
func (z *size) reset(shards []shard) {
	*z = size{moves: z.moves + 1}
	for i := range shards {
		shards[i] = shard{lines: &noLine}
	}
}

// mix spreads the bits of x over the whole word.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
