package kvwire

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"time"
)

const (
	// ShareFrom is from how many bytes on shared memory is faster: smaller fetches take longer to arrange it than
	// it saves.
	ShareFrom = 4 << 20
	// sharedBuffers is into how many parts shared memory is divided: one is written while the other is read.
	sharedBuffers = 2
	// meetMax is how long the giving side may take to get the memory, once it has reached the taking side.
	meetMax = time.Second
)

// A Rendezvous is where the taking side offers shared memory to a process on the same host.
type Rendezvous struct {
	// Socket names a unix socket in the abstract namespace, and Secret is what must be shown there. Processes
	// can list the names of all sockets, so the name alone is not a right.
	Socket string `json:"socket"`
	Secret string `json:"secret"`
}

// secretBytes is how much randomness the name of a socket and a secret have.
const secretBytes = 16

// valid reports whether a meeting has the form of those that this package arranges, so that a peer
// cannot have this process connect to other programs.
func (m *Rendezvous) valid() bool {
	for _, s := range []string{m.Socket, m.Secret} {
		if b, err := base64.RawURLEncoding.DecodeString(s); err != nil || len(b) != secretBytes {
			return false
		}
	}
	return true
}

// errUnsafe says that memory which a peer offers cannot be used.
var errUnsafe = errors.New("the shared memory cannot be used")

// A sharedReader reads pieces that the other side has put into shared memory. Frames do not say where in it
// they are: they follow each other in one of the buffers until the last one of it.
type sharedReader struct {
	buffers [sharedBuffers][]byte
	turn    int // of the buffer that is read
	at      int // bytes of it that were read
	freed   io.Writer
}

// read copies the next piece. What the other side writes there later does not change the copy. After
// the last piece of a buffer the other side may write to it again.
func (r *sharedReader) read(piece []byte, last bool) error {
	from := r.buffers[r.turn][r.at:]
	if len(piece) > len(from) {
		return fmt.Errorf("%w: a piece of %d bytes reaches beyond its buffer", errMalformed, len(piece))
	}
	r.at += copy(piece, from)
	if !last {
		return nil
	}
	r.turn, r.at = (r.turn+1)%sharedBuffers, 0
	_, _ = r.freed.Write([]byte{0}) // a side that has ended does not write to it again
	return nil
}

// divide returns the parts of shared memory.
func divide(memory []byte) (buffers [sharedBuffers][]byte) {
	size := len(memory) / sharedBuffers
	for i := range buffers {
		buffers[i] = memory[i*size:][:size:size]
	}
	return buffers
}
