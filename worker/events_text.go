package worker

import (
	"bufio"
	"bytes"
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
