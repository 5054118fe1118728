package hijack

import (
	"bytes"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// A ResponseWriter writes an answer to a connection that was taken from the HTTP
// server, as HTTP/1.1. What is written goes out with the next flush, headers and
// all in one piece; between flushes it has no memory.
type ResponseWriter struct {
	conn   net.Conn
	header http.Header
	// status was sent, or is with the next flush; a chunked body has no length.
	status  int
	chunked bool
	// room has what is to be written; nil while there is nothing.
	room *bytes.Buffer
	err  error
}

// rooms has buffers for all answers, as only who writes has one.
var rooms = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// roomMax is how large a buffer may be that is kept, and how much may wait.
const roomMax = 16 << 10

// Header returns the headers, which can be changed until the status is written.
// They are not kept after that.
func (w *ResponseWriter) Header() http.Header {
	if w.header == nil {
		w.header = http.Header{}
	}
	return w.header
}

func (w *ResponseWriter) buffer() *bytes.Buffer {
	if w.room == nil {
		w.room = rooms.Get().(*bytes.Buffer)
	}
	return w.room
}

// WriteHeader begins the answer.
func (w *ResponseWriter) WriteHeader(status int) {
	if w.status != 0 {
		return
	}
	w.status = status
	b := w.buffer()
	b.WriteString("HTTP/1.1 ")
	b.WriteString(strconv.Itoa(status))
	b.WriteByte(' ')
	b.WriteString(http.StatusText(status))
	b.WriteString("\r\n")
	_ = w.header.Write(b) // a buffer takes all
	b.WriteString("Date: ")
	b.Write(time.Now().UTC().AppendFormat(b.AvailableBuffer(), http.TimeFormat))
	b.WriteString("\r\n")
	if w.chunked = w.header.Get("Content-Length") == ""; w.chunked {
		b.WriteString("Transfer-Encoding: chunked\r\n")
	}
	b.WriteString("\r\n")
	w.header = nil
}

// Write adds to the body.
func (w *ResponseWriter) Write(p []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	if w.err != nil || len(p) == 0 {
		return 0, w.err
	}
	b := w.buffer()
	if w.chunked {
		b.Write(strconv.AppendInt(b.AvailableBuffer(), int64(len(p)), 16))
		b.WriteString("\r\n")
	}
	b.Write(p)
	if w.chunked {
		b.WriteString("\r\n")
	}
	if b.Len() > roomMax {
		return len(p), w.FlushError()
	}
	return len(p), nil
}

// FlushError sends what was written. Once that has failed nothing more is sent.
func (w *ResponseWriter) FlushError() error {
	if w.room == nil {
		return w.err
	}
	b := w.room
	w.room = nil
	if w.err == nil {
		_, w.err = w.conn.Write(b.Bytes())
	}
	keepRoom(b)
	return w.err
}

func keepRoom(b *bytes.Buffer) {
	if b.Cap() <= roomMax {
		b.Reset()
		rooms.Put(b)
	}
}

// SetWriteDeadline bounds how long a flush may take.
func (w *ResponseWriter) SetWriteDeadline(at time.Time) error { return w.conn.SetWriteDeadline(at) }

// end completes the body.
func (w *ResponseWriter) end() error {
	if w.status == 0 {
		return net.ErrClosed // the client left before there was anything to say
	}
	if w.chunked {
		w.buffer().WriteString("0\r\n\r\n")
	}
	return w.FlushError()
}
