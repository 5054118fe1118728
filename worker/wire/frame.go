package wire

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
)

const (
	// Path makes a connection one of the wire; see [Server].
	Path = "/parley/v1/generate"
	// Protocol is what a connection is upgraded to, from HTTP/1.1.
	Protocol = "parley-wire/7"
	// frameMax bounds a frame: a request with the longest prompts there are, or the
	// log-probabilities of one.
	frameMax = 256 << 20
	// roomKept is how much room for long frames is kept for the next.
	roomKept = 1 << 20
	// ioBytes is how much is read from a connection at once. What came together, for
	// many answers, costs one call of the system.
	ioBytes = 64 << 10
	// headBytes is the length that a frame begins with.
	headBytes = 4
)

// The kinds of frames.
const (
	// kindRequest is a request; see appendRequest. From the client.
	kindRequest byte = 'R'
	// kindAck is how many tokens were read, a uvarint. From the client.
	kindAck byte = 'A'
	// kindCancel ends a request. From the client.
	kindCancel byte = 'C'
	// kindWithdraw ends a request that has not begun, with an error of the code
	// [parley.Withdrawn]; any other is not concerned. From the client.
	kindWithdraw byte = 'W'
	// kindPing asks for a pong. From the client, about the connection.
	kindPing byte = 'P'
	// kindPong answers a ping. From the worker.
	kindPong byte = 'Q'
	// kindTokens is a delta of nothing but tokens of the first choice: uvarints. Nearly
	// all deltas are. From the worker.
	kindTokens byte = 'T'
	// kindDelta is any other delta; see appendDelta. From the worker.
	kindDelta byte = 'D'
	// kindError ends an answer; see appendError. From the worker.
	kindError byte = 'E'
)

var (
	errFrameTooLong = errors.New("a frame exceeds the limit of the protocol")
	errMalformed    = errors.New("a frame is malformed")
)

// A frame is one as it was read. The payload is valid until the next one is.
type frame struct {
	kind    byte
	id      uint64
	payload []byte
}

// beginFrame appends the beginning of a frame. Its payload is appended next, and
// then endFrame is called with the length of to.
func beginFrame(to []byte, kind byte, id uint64) []byte {
	return binary.AppendUvarint(append(to, 0, 0, 0, 0, kind), id)
}

// endFrame completes the frame that begins at start.
func endFrame(frame []byte, start int) []byte {
	binary.BigEndian.PutUint32(frame[start:], uint32(len(frame)-start-headBytes))
	return frame
}

// shortFrame is a frame with a small payload, or none.
func shortFrame(kind byte, id uint64, payload ...byte) []byte {
	return endFrame(append(beginFrame(nil, kind, id), payload...), 0)
}

// readFrame reads the next frame, which must not be longer than most. Memory for
// long ones, which room keeps, is taken as bytes come and not as they are announced.
func readFrame(from *bufio.Reader, most int, room *[]byte) (f frame, err error) {
	if cap(*room) > roomKept {
		*room = nil
	}
	head, err := from.Peek(headBytes)
	if err != nil {
		if len(head) > 0 && errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return f, err
	}
	size := int(binary.BigEndian.Uint32(head))
	if size > most {
		return f, fmt.Errorf("%w: %d bytes, at most %d", errFrameTooLong, size, most)
	}
	body, err := readBody(from, size, room)
	if err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return f, err
	}
	if len(body) == 0 {
		return f, errMalformed
	}
	id, n := binary.Uvarint(body[1:])
	if n <= 0 {
		return f, errMalformed
	}
	return frame{body[0], id, body[1+n:]}, nil
}

// readBody reads what follows the head of a frame.
func readBody(from *bufio.Reader, size int, room *[]byte) ([]byte, error) {
	if whole := headBytes + size; whole <= from.Size() {
		all, err := from.Peek(whole)
		if err != nil {
			return nil, err
		}
		_, err = from.Discard(whole) // which leaves the bytes where they are
		return all[headBytes:], err
	}
	if _, err := from.Discard(headBytes); err != nil {
		return nil, err
	}
	body := (*room)[:0]
	for len(body) < size {
		at := len(body)
		body = slices.Grow(body, min(size-at, ioBytes))[:min(size, at+ioBytes)]
		if _, err := io.ReadFull(from, body[at:]); err != nil {
			return nil, err
		}
	}
	*room = body
	return body, nil
}
