package blocks

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"

	"parley/worker/kvwire"
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
	f := &fetch{
		client: &kvwire.Client{HTTP: &http.Client{Transport: kvwire.NewTransport(nil)}},
		url:    "http://" + fabric,
		format: format(size),
		to:     make([]byte, len(want)),
	}
	for i := range blocks {
		f.names = append(f.names, name(i))
	}
	if err := f.run(context.Background()); err != nil || !bytes.Equal(f.to, want) {
		t.Errorf("a fetch brings other bytes: %v", err)
	}
	r, err := measure(t.Context(), Options{BlockBytes: size, Blocks: blocks, Rounds: 1}, fabric, plain)
	if err != nil || r.Plain <= 0 || r.Fetch <= 0 || len(r.Ratios) != 1 {
		t.Errorf("%+v, %v", r, err)
	}
	f.client.HTTP.CloseIdleConnections()
	stop.Close()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
