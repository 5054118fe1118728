package kvwire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"parley"
)

// The kinds of frames.
const (
	kindBlock  byte = 'B'
	kindShared byte = 'S'
	kindLast   byte = 'L'
	kindEnd    byte = 'E'
)

// Reasons of an end.
const (
	endWhole byte = iota // all blocks were sent
	endGone              // the next one is not held any more
)

// blockHead is how long a frame of a block is before its payload.
const blockHead = 1 + 4

var (
	errDamaged   = errors.New("a block is damaged")
	errGone      = errors.New("the worker does not hold the blocks any more")
	errMalformed = errors.New("a frame is malformed")
)

// castagnoli is the polynomial that processors have an instruction for.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// sumOf returns the checksum of a piece of a block that begins at an offset.
func sumOf(name *parley.BlockHash, at int, payload []byte) uint32 {
	head := binary.BigEndian.AppendUint32(append(make([]byte, 0, len(name)+4), name[:]...), uint32(at))
	return crc32.Update(crc32.Checksum(head, castagnoli), castagnoli, payload)
}

// writeBlock writes the frame of a piece of a block with a checksum, which is of the kind kindBlock if it has
// a payload.
func writeBlock(to io.Writer, kind byte, sum uint32, payload []byte) error {
	head := binary.BigEndian.AppendUint32(append(make([]byte, 0, blockHead), kind), sum)
	if _, err := to.Write(head); err != nil {
		return err
	}
	if kind != kindBlock {
		return nil
	}
	_, err := to.Write(payload)
	return err
}

// writeEnd writes the last frame.
func writeEnd(to io.Writer, reason byte) error {
	_, err := to.Write([]byte{kindEnd, reason})
	return err
}

// A source is where frames come from.
type source struct {
	io.Reader
	offer  *offer        // of shared memory; nil without
	shared *sharedReader // of pieces in it; nil until the first one
}

// readBlock reads the next frame, which must be a piece of a block with the size of payload, and
// returns the checksum that it was sent with. The error is errGone if the stream ends there,
// and io.ErrUnexpectedEOF if it was cut off.
func (s *source) readBlock(payload []byte) (sum uint32, err error) {
	var head [blockHead]byte
	if _, err := io.ReadFull(s, head[:1]); err != nil {
		return 0, cutOff(err)
	}
	if head[0] == kindEnd {
		return 0, errGone
	}
	if _, err := io.ReadFull(s, head[1:]); err != nil {
		return 0, cutOff(err)
	}
	switch head[0] {
	case kindBlock:
		_, err = io.ReadFull(s, payload)
	case kindShared, kindLast:
		err = s.readShared(payload, head[0] == kindLast)
	default:
		err = fmt.Errorf("%w: it is of the kind %#x", errMalformed, head[0])
	}
	return binary.BigEndian.Uint32(head[1:]), cutOff(err)
}

// readShared reads a piece from shared memory.
func (s *source) readShared(payload []byte, last bool) error {
	if s.shared == nil {
		if s.shared = s.offer.reader(); s.shared == nil {
			return fmt.Errorf("%w: its payload is in shared memory, which was not taken", errMalformed)
		}
	}
	return s.shared.read(payload, last)
}

// readEnd reads the last frame after all blocks, and the end of the response: only then is its connection used again.
func readEnd(from io.Reader) error {
	var end [2]byte
	if _, err := io.ReadFull(from, end[:]); err != nil {
		return cutOff(err)
	}
	if end != [2]byte{kindEnd, endWhole} {
		return fmt.Errorf("%w: %x is not the end of all blocks", errMalformed, end)
	}
	_, _ = io.ReadFull(from, end[:1]) // whatever comes, all blocks have
	return nil
}

func cutOff(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
