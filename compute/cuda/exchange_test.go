package cuda

import (
	"bytes"
	"context"
	"encoding/binary"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"runtime"
	"testing"

	"parley"
	"parley/compute"
	"parley/worker/kvwire"
)

// TestBlocksMoveBetweenDevicePools moves blocks from the pool of one device to that of another, over TCP and through
// shared memory, in pieces: all bytes are the same.
func TestBlocksMoveBetweenDevicePools(t *testing.T) {
	const blocks = 5
	shape := compute.KVShape{Layers: 12, KVHeads: 8, HeadDim: 128, Blocks: blocks, Type: compute.KVBF16}
	from, to := newBackend(t), newBackend(t)
	for _, c := range []*CUDA{from, to} {
		if err := c.NewKV(shape); err != nil {
			t.Fatal(err)
		}
	}
	size := int(shape.BlockBytes())
	format := kvwire.Format{Version: kvwire.Version, BlockTokens: compute.BlockTokens, BlockBytes: size}
	names := make([]parley.BlockHash, blocks)
	want := make([]byte, blocks*size)
	rng := rand.New(rand.NewPCG(24, 7))
	for i := range want {
		want[i] = byte(rng.Uint32())
	}
	for b := range names {
		binary.LittleEndian.PutUint64(names[b][:], uint64(b))
		from.WriteBlock(int32(b), 0, want[b*size:(b+1)*size])
	}
	read := func(_ context.Context, names []parley.BlockHash, at int, room []byte) (n int, err error) {
		for ; len(names) > 0 && n < len(room); names, at = names[1:], 0 {
			part := room[n:][:min(size-at, len(room)-n)]
			from.ReadBlock(part, int32(binary.LittleEndian.Uint64(names[0][:])), at)
			n += len(part)
		}
		return n, nil
	}
	var server kvwire.Server
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := server.Serve(w, r, kvwire.Holder{Format: format, Read: read}); err != nil {
			t.Error(err)
		}
	}))
	defer front.Close()
	for _, share := range []int64{0, 1} {
		came := 0
		put := func(_ context.Context, data ...[]byte) error {
			for _, piece := range data {
				to.WriteBlock(int32(came/size), came%size, piece)
				came += len(piece)
			}
			return nil
		}
		f := &kvwire.Fetch{URL: front.URL, Format: format, Names: names, Put: put}
		client := kvwire.Client{HTTP: &http.Client{Transport: kvwire.NewTransport(nil)},
			Config: kvwire.Config{ShareFrom: share}}
		n, err := client.Run(t.Context(), f)
		if err != nil || n != blocks || f.Shared != (share > 0 && runtime.GOOS == "linux") {
			t.Errorf("%d blocks came, through shared memory: %t, %v", n, f.Shared, err)
		}
		client.HTTP.CloseIdleConnections()
		got := make([]byte, size)
		for b := range names {
			if to.ReadBlock(got, int32(b), 0); !bytes.Equal(got, want[b*size:(b+1)*size]) {
				t.Errorf("shared memory %t: block %d has other bytes", f.Shared, b)
			}
			to.WriteBlock(int32(b), 0, make([]byte, size))
		}
	}
}
