package blocks

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"

	"parley"
	"parley/worker/kvwire"
)

// A store has blocks of random bytes in memory.
type store struct {
	format kvwire.Format
	data   []byte
}

func newStore(blockBytes, blocks int) *store {
	s := &store{format: format(blockBytes), data: make([]byte, blockBytes*blocks)}
	x := uint64(1)
	for i := 0; i+8 <= len(s.data); i += 8 {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
		binary.LittleEndian.PutUint64(s.data[i:], x)
	}
	return s
}

func format(blockBytes int) kvwire.Format {
	return kvwire.Format{Version: kvwire.Version, BlockTokens: 16, BlockBytes: blockBytes}
}

// name returns the name of a block by its number.
func name(i int) (h parley.BlockHash) {
	binary.LittleEndian.PutUint64(h[:], uint64(i))
	return h
}

// read copies blocks as an engine does; see [kvwire.Holder].
func (s *store) read(_ context.Context, names []parley.BlockHash, at int, room []byte) (bytes int, err error) {
	size := s.format.BlockBytes
	for ; len(names) > 0 && bytes < len(room); names, at = names[1:], 0 {
		first := int(binary.LittleEndian.Uint64(names[0][:])) * size
		if first+size > len(s.data) {
			break
		}
		bytes += copy(room[bytes:], s.data[first+at:first+size])
	}
	return bytes, nil
}

// Serve gives blocks until from ends: over HTTP as workers do, and as a plain copy to every
// connection that sends a byte. It writes both addresses to out.
func Serve(from io.Reader, out io.Writer, blockBytes, blocks int) error {
	s := newStore(blockBytes, blocks)
	fabric, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	plain, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return errors.Join(err, fabric.Close())
	}
	var server kvwire.Server
	front := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := server.Serve(w, r, kvwire.Holder{Format: s.format, Read: s.read}); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
		}
	})}
	go func() { _ = front.Serve(fabric) }()
	go s.copyTo(plain)
	fmt.Fprintln(out, fabric.Addr(), plain.Addr())
	_, err = io.Copy(io.Discard, from)
	return errors.Join(err, front.Close(), plain.Close())
}

// copyTo writes all blocks to each connection whenever it sends a byte.
func (s *store) copyTo(l net.Listener) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer conn.Close()
			in := bufio.NewReader(conn)
			for {
				if _, err := in.ReadByte(); err != nil {
					return
				}
				if _, err := conn.Write(s.data); err != nil {
					return
				}
			}
		}()
	}
}
