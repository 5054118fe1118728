package blocks

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"testing"
)

// TestBothWaysBringTheSameBytes copies and fetches blocks, and wants those of the store.
func TestBothWaysBringTheSameBytes(t *testing.T) {
	const size, blocks = 4096, 33
	stdin, stop := io.Pipe()
	lines, stdout := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- Serve(stdin, stdout, size, blocks) }()
	var fabric, plain string
	if _, err := fmt.Fscan(lines, &fabric, &plain); err != nil {
		t.Fatal(err)
	}
	want := newStore(size, blocks).data
	conn, err := net.Dial("tcp", plain)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	got := make([]byte, len(want))
	if err := copyPlain(conn, got); err != nil || !bytes.Equal(got, want) {
		t.Errorf("a plain copy brings other bytes: %v", err)
	}
	f := newFetch(fabric, Options{BlockBytes: size, Blocks: blocks}, make([]byte, len(want)))
	for _, share := range []int64{0, 1} {
		clear(f.to)
		f.client.ShareFrom = share
		if err := f.run(context.Background()); err != nil || !bytes.Equal(f.to, want) {
			t.Errorf("a fetch brings other bytes: %v", err)
		}
	}
	r, err := measure(t.Context(), Options{BlockBytes: size, Blocks: blocks, Rounds: 1}, fabric, plain)
	if err != nil || r.Plain <= 0 || r.Fetch <= 0 || r.Shared <= 0 || r.OverTCP <= 0 || r.InMemory <= 0 {
		t.Errorf("%+v, %v", r, err)
	}
	f.client.HTTP.CloseIdleConnections()
	stop.Close()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
