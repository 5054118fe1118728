package foreign

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"iter"
)

// eventMax bounds one event of a stream: log-probabilities make them long.
const eventMax = 16 << 20

// events yields the data of the server-sent events of a stream, up to [DONE].
// The data is valid until the next one. A stream that ends without [DONE]
// yields io.ErrUnexpectedEOF.
func events(from io.Reader) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		lines, room := bufio.NewReader(from), []byte(nil)
		for {
			line, err := readLine(lines, eventMax, &room)
			if err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			if err != nil {
				yield(nil, err)
				return
			}
			data, found := bytes.CutPrefix(bytes.TrimRight(line, "\r"), []byte("data:"))
			if !found {
				continue // a comment, an empty line, the name of an event
			}
			data = bytes.TrimSpace(data)
			if string(data) == "[DONE]" || !yield(data, nil) {
				return
			}
		}
	}
}

// objects yields the lines of a stream of JSON objects.
func objects(from io.Reader) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		lines, room := bufio.NewReader(from), []byte(nil)
		for {
			line, err := readLine(lines, eventMax, &room)
			if err == io.EOF {
				return
			}
			if err != nil {
				yield(nil, err)
				return
			}
			if len(bytes.TrimSpace(line)) > 0 && !yield(line, nil) {
				return
			}
		}
	}
}

var errLineTooLong = errors.New("a line exceeds the limit of the protocol")

// roomKept is how much room for long lines is kept for the next.
const roomKept = 1 << 20

// readLine returns the next line without its end, which must not be longer
// than most. It is valid until the next call.
func readLine(r *bufio.Reader, most int, room *[]byte) ([]byte, error) {
	line, err := r.ReadSlice('\n')
	if err == nil {
		if cap(*room) > roomKept {
			*room = nil
		}
		return line[:len(line)-1], nil
	}
	*room = (*room)[:0]
	for {
		if len(*room)+len(line) > most {
			return nil, errLineTooLong
		}
		*room = append(*room, line...)
		switch {
		case err == nil:
			return (*room)[:len(*room)-1], nil
		case errors.Is(err, io.EOF) && len(*room) > 0:
			return nil, io.ErrUnexpectedEOF
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, err
		}
		line, err = r.ReadSlice('\n')
	}
}
