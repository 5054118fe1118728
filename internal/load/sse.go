package load

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
)

// eventBytesMax bounds one event. A piece of text is a few hundred bytes;
// this leaves room for log-probabilities and is far from hurting memory.
const eventBytesMax = 1 << 20

// Events yields the data of server-sent events, of which names, ids and
// comments are of no use here. The slice is valid until the next event. The
// end of r ends the sequence; an event that the end cuts off is dropped, as
// the standard says.
func Events(r io.Reader) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		lines := bufio.NewReaderSize(r, 16<<10)
		var data []byte
		var some bool
		for {
			line, err := readLine(lines)
			if errors.Is(err, io.EOF) {
				return
			}
			if err == nil && len(data)+len(line) > eventBytesMax {
				err = fmt.Errorf("an event of more than %d bytes", eventBytesMax)
			}
			if err != nil {
				yield(nil, err)
				return
			}
			switch value, ok := bytes.CutPrefix(line, []byte("data:")); {
			case len(line) == 0 && some:
				if !yield(data, nil) {
					return
				}
				data, some = data[:0], false
			case ok:
				if some {
					data = append(data, '\n')
				}
				data, some = append(data, bytes.TrimPrefix(value, []byte(" "))...), true
			}
		}
	}
}

// readLine returns the next line without its end, which may be LF or CRLF.
// Longer lines than an event may have are an error, before they are stored.
// The end of input is io.EOF, even in the middle of a line.
func readLine(r *bufio.Reader) ([]byte, error) {
	var long []byte
	for {
		piece, err := r.ReadSlice('\n')
		if errors.Is(err, bufio.ErrBufferFull) {
			if long = append(long, piece...); len(long) > eventBytesMax {
				return nil, fmt.Errorf("a line of more than %d bytes", eventBytesMax)
			}
			continue
		}
		if err != nil {
			return nil, err
		}
		if long != nil {
			piece = append(long, piece...)
		}
		return bytes.TrimSuffix(piece[:len(piece)-1], []byte("\r")), nil
	}
}
