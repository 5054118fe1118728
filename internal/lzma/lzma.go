// Package lzma unpacks files in the format of `xz --format=lzma`.
//
// It exists for the size of the program. The compiled GPU kernels repeat
// themselves over megabytes, and the formats of the standard library look back
// at most 32 KB: they need two and a half times the space. A module that reads
// this format also writes it and the formats around it, and would cost a part of
// what is saved; the decoder alone is this file. Files are packed by xz when the
// kernels are compiled.
//
// The format is described in the "LZMA specification" of the LZMA SDK: a range
// decoder with adaptive probabilities reads literals, and matches that copy what
// was written before.
package lzma

import (
	"encoding/binary"
	"errors"
	"fmt"
)

const headerBytes = 13

var (
	errShort   = errors.New("lzma: the data ends too early")
	errDamaged = errors.New("lzma: the data is damaged")
)

// Decode unpacks the first limit bytes of packed, or all of them if there are fewer. Memory
// is taken for limit bytes, whatever the header of packed says. The bytes it returns with an
// error are those before the damage.
func Decode(packed []byte, limit int) ([]byte, error) {
	if len(packed) < headerBytes+5 {
		return nil, errShort
	}
	properties := int(packed[0])
	lc, lp, pb := properties%9, properties/9%5, properties/45
	if pb > 4 || lc+lp > 4 {
		return nil, fmt.Errorf("lzma: properties %d are not supported", properties)
	}
	endless := true // an end marker follows the last byte
	if size := binary.LittleEndian.Uint64(packed[5:]); size != 1<<64-1 {
		endless = false
		limit = int(min(size, uint64(limit)))
	}
	if packed[headerBytes] != 0 {
		return nil, errDamaged
	}
	d := newDecoder(lc, lp, pb, limit)
	d.code = binary.BigEndian.Uint32(packed[headerBytes+1:])
	d.in = packed[headerBytes+5:]
	for len(d.out) < limit {
		ended, err := d.next()
		if err != nil {
			return d.out, err
		}
		if ended {
			if !endless {
				return d.out, errShort
			}
			break
		}
	}
	return d.out, nil
}

// A prob is the probability of a bit being 0, of 1<<probBits.
type prob = uint16

const (
	probBits  = 11
	probHalf  = 1 << (probBits - 1)
	adaptBits = 5
	states    = 12
	// literalStates are those that follow a literal.
	literalStates = 7
	distanceSlots = 64
	// nearSlots are the slots of distances whose lower bits have probabilities of their own.
	nearSlots = 14
	alignBits = 4
	matchMin  = 2
	endMarker = 1<<32 - 1
)

// lengths are the probabilities of the length of a match.
type lengths struct {
	choice, choice2 prob
	low, mid        [16][8]prob
	high            [256]prob
}

type decoder struct {
	in   []byte
	out  []byte
	full int  // length of out at which decoding stops
	past bool // more was read than there is

	width, code uint32 // of the range

	lc                        int
	literalMask, placeMask    int
	state                     int
	distances                 [4]uint32 // of the last matches, less 1; the newest first
	match, longRepeat         [states][16]prob
	repeat, older, old2, old3 [states]prob
	literal                   []prob
	slot                      [4][distanceSlots]prob
	near                      [115]prob
	align                     [1 << alignBits]prob
	length, repeatLength      lengths
}

func newDecoder(lc, lp, pb, limit int) *decoder {
	d := &decoder{
		out:         make([]byte, 0, limit),
		full:        limit,
		width:       1<<32 - 1,
		lc:          lc,
		literalMask: 1<<lp - 1,
		placeMask:   1<<pb - 1,
		literal:     make([]prob, 0x300<<(lc+lp)),
	}
	for i := range states {
		half(d.match[i][:])
		half(d.longRepeat[i][:])
	}
	for _, list := range [][]prob{d.repeat[:], d.older[:], d.old2[:], d.old3[:], d.literal, d.near[:], d.align[:]} {
		half(list)
	}
	for i := range d.slot {
		half(d.slot[i][:])
	}
	for _, l := range []*lengths{&d.length, &d.repeatLength} {
		l.choice, l.choice2 = probHalf, probHalf
		for i := range l.low {
			half(l.low[i][:])
			half(l.mid[i][:])
		}
		half(l.high[:])
	}
	return d
}

func half(list []prob) {
	for i := range list {
		list[i] = probHalf
	}
}

// next decodes a literal or a match. ended reports the end marker.
func (d *decoder) next() (ended bool, err error) {
	place := len(d.out) & d.placeMask
	if d.bit(&d.match[d.state][place]) == 0 {
		d.readLiteral()
		return false, d.check()
	}
	var length int
	if d.bit(&d.repeat[d.state]) == 0 {
		length = d.readLength(&d.length, place)
		copy(d.distances[1:], d.distances[:3])
		d.distances[0] = d.readDistance(length)
		d.state = after(d.state, 7, 10)
		if d.distances[0] == endMarker {
			return true, d.check()
		}
	} else {
		length = d.readRepeat(place)
	}
	if err := d.check(); err != nil {
		return false, err
	}
	return false, d.copyMatch(int(d.distances[0])+1, length)
}

func (d *decoder) check() error {
	if d.past {
		return errShort
	}
	return nil
}

// after returns the state that follows: one of two, by whether a literal came before.
func after(state, literal, other int) int {
	if state < literalStates {
		return literal
	}
	return other
}

// readRepeat reads a match at one of the last distances, moves that to the front and
// returns the length.
func (d *decoder) readRepeat(place int) int {
	if d.bit(&d.older[d.state]) == 0 {
		if d.bit(&d.longRepeat[d.state][place]) == 0 {
			d.state = after(d.state, 9, 11)
			return 1
		}
	} else {
		i := 1
		if d.bit(&d.old2[d.state]) != 0 {
			i = 2 + int(d.bit(&d.old3[d.state]))
		}
		distance := d.distances[i]
		copy(d.distances[1:i+1], d.distances[:i])
		d.distances[0] = distance
	}
	length := d.readLength(&d.repeatLength, place)
	d.state = after(d.state, 8, 11)
	return length
}

func (d *decoder) copyMatch(distance, length int) error {
	if distance > len(d.out) {
		return errDamaged
	}
	for length = min(length, d.full-len(d.out)); length > 0; {
		// A match may overlap what it writes, so at most distance bytes are there to copy.
		n := min(length, distance)
		from := len(d.out) - distance
		d.out = append(d.out, d.out[from:from+n]...)
		length -= n
	}
	return nil
}

func (d *decoder) readLiteral() {
	before := byte(0)
	if n := len(d.out); n > 0 {
		before = d.out[n-1]
	}
	context := (len(d.out)&d.literalMask)<<d.lc | int(before)>>(8-d.lc)
	probs := d.literal[context*0x300:][:0x300]
	symbol := uint32(1)
	if d.state >= literalStates && int(d.distances[0]) < len(d.out) {
		// After a match, the byte that would have continued it says which probabilities count,
		// as long as the bits agree with it.
		expected := uint32(d.out[len(d.out)-int(d.distances[0])-1])
		for symbol < 0x100 {
			expected <<= 1
			want := expected & 0x100
			bit := d.bit(&probs[0x100+want+symbol])
			symbol = symbol<<1 | bit
			if want>>8 != bit {
				break
			}
		}
	}
	for symbol < 0x100 {
		symbol = symbol<<1 | d.bit(&probs[symbol])
	}
	d.out = append(d.out, byte(symbol))
	switch {
	case d.state < 4:
		d.state = 0
	case d.state < 10:
		d.state -= 3
	default:
		d.state -= 6
	}
}

func (d *decoder) readLength(l *lengths, place int) int {
	if d.bit(&l.choice) == 0 {
		return matchMin + int(d.tree(l.low[place][:], 3))
	}
	if d.bit(&l.choice2) == 0 {
		return matchMin + 8 + int(d.tree(l.mid[place][:], 3))
	}
	return matchMin + 16 + int(d.tree(l.high[:], 8))
}

// readDistance reads a distance less 1. A slot gives its two highest bits and how many follow.
func (d *decoder) readDistance(length int) uint32 {
	slot := d.tree(d.slot[min(length-matchMin, len(d.slot)-1)][:], 6)
	if slot < 4 {
		return slot
	}
	bits := int(slot>>1 - 1)
	distance := (2 | slot&1) << bits
	if slot < nearSlots {
		return distance + d.reverseTree(d.near[distance-slot:], bits)
	}
	for i := bits - 1; i >= alignBits; i-- {
		distance += d.evenBit() << i
	}
	return distance + d.reverseTree(d.align[:], alignBits)
}

// tree reads a number of the given bits, the highest first, each with a probability that
// depends on those before it.
func (d *decoder) tree(probs []prob, bits int) uint32 {
	node := uint32(1)
	for range bits {
		node = node<<1 | d.bit(&probs[node])
	}
	return node - 1<<bits
}

// reverseTree is tree with the lowest bit first.
func (d *decoder) reverseTree(probs []prob, bits int) uint32 {
	node, number := uint32(1), uint32(0)
	for i := range bits {
		bit := d.bit(&probs[node])
		node = node<<1 | bit
		number |= bit << i
	}
	return number
}

// bit reads a bit and adapts its probability.
func (d *decoder) bit(p *prob) uint32 {
	d.refill()
	bound := d.width >> probBits * uint32(*p)
	if d.code < bound {
		d.width = bound
		*p += (1<<probBits - *p) >> adaptBits
		return 0
	}
	d.width -= bound
	d.code -= bound
	*p -= *p >> adaptBits
	return 1
}

// evenBit reads a bit that is 0 or 1 with the same probability.
func (d *decoder) evenBit() uint32 {
	d.refill()
	d.width >>= 1
	if d.code < d.width {
		return 0
	}
	d.code -= d.width
	return 1
}

// refill keeps at least 24 bits in the range.
func (d *decoder) refill() {
	if d.width >= 1<<24 {
		return
	}
	d.width <<= 8
	d.code <<= 8
	if len(d.in) == 0 {
		d.past = true
		return
	}
	d.code |= uint32(d.in[0])
	d.in = d.in[1:]
}
