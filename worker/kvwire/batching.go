package kvwire

import "time"

// Reads are made larger below slowRead and smaller from quickRead on, in bytes a second.
const slowRead, quickRead = 1e9, 2e9

// A batching is how much is read at once. Each read waits until the engine has ended its pass. Small
// reads are best as long as that is soon, because the processor's cache holds them until they are
// sent; large ones where each costs a pass.
type batching struct {
	block, most int // bytes of a block, and of the largest read
	now         int // bytes of the next one; 0 at the beginning
}

// size returns how many bytes are to be read next: whole blocks, or pieces of one that is larger.
func (b *batching) size() int {
	unit := min(b.block, pieceBytes)
	return unit * max(1, min(b.most, max(b.now, pieceBytes))/unit)
}

// read notes how long a read took.
func (b *batching) read(bytes int, took time.Duration) {
	switch speed := float64(bytes) / max(took.Seconds(), 1e-9); {
	case speed < slowRead && bytes >= b.size():
		b.now = min(2*b.size(), b.most)
	case speed > quickRead:
		b.now = b.size() / 2
	}
}
