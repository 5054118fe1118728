package kvwire

import "parley"

// pieceBytes is how much of a block a frame has at most. What is larger would not stay in the
// processor's cache until it is passed on.
const pieceBytes = 512 << 10

// A cursor goes through blocks in the pieces that frames have.
type cursor struct {
	block  int // bytes of a block
	number int // of blocks before the present one
	at     int // bytes of it before the next piece
}

// piece returns how many bytes the next frame has.
func (c *cursor) piece() int { return min(c.block-c.at, pieceBytes) }

// pieces returns how many pieces are left of the present block.
func (c *cursor) pieces() int { return (c.block - c.at + pieceBytes - 1) / pieceBytes }

// pass goes past the next piece. It reports whether that was the last one of a block.
func (c *cursor) pass() (whole bool) {
	if c.at += c.piece(); c.at == c.block {
		c.number, c.at = c.number+1, 0
		return true
	}
	return false
}

// span returns how many bytes the next pieces have that fit together into a number of bytes.
func (c *cursor) span(bytes int) (n int) {
	if c.block <= pieceBytes {
		return bytes / c.block * c.block
	}
	for ahead := *c; n+ahead.piece() <= bytes; {
		n += ahead.piece()
		ahead.pass()
	}
	return n
}

// sums goes past data, and returns the checksums of its pieces.
func (c *cursor) sums(names []parley.BlockHash, data []byte) (sums []uint32) {
	for ; len(data) > 0; c.pass() {
		piece := c.piece()
		sums = append(sums, sumOf(&names[c.number], c.at, data[:piece]))
		data = data[piece:]
	}
	return sums
}
