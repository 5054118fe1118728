package cuda

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"testing"

	"parley/compute"
	"parley/compute/libcuda"
)

// A pinnedOnly driver copies late: uploads are made when they are waited for, from what the memory has then, and
// only memory that is pinned may be copied.
type pinnedOnly struct {
	*interpreter
	late []func() error
	bad  int // copies of other memory
}

func (d *pinnedOnly) check(memory []byte) {
	if d.Mapped(memory) == 0 {
		d.bad++
	}
}

func (d *pinnedOnly) Upload(to libcuda.Address, from []byte) error {
	d.check(from)
	d.late = append(d.late, func() error { return d.interpreter.Upload(to, from) })
	return nil
}

func (d *pinnedOnly) Download(to []byte, from libcuda.Address) error {
	d.check(to)
	d.late = append(d.late, func() error { return d.interpreter.Download(to, from) })
	return nil
}

func (d *pinnedOnly) Synchronize() (err error) {
	for _, copied := range d.late {
		err = errors.Join(err, copied())
	}
	d.late = nil
	return errors.Join(err, d.interpreter.Synchronize())
}

// TestBlocksGoThroughPinnedMemory writes and reads blocks of the pool in pieces, as workers that exchange them do,
// with memory of the Go heap: the device copies pinned memory alone, and the bytes are the same.
func TestBlocksGoThroughPinnedMemory(t *testing.T) {
	c := newBackend(t)
	inner, ok := c.driver.(*interpreter)
	if !ok {
		t.Skip("NOT RUN: a device copies when it likes: the interpreter is as late as it may be")
	}
	const blocks = 3
	shape := compute.KVShape{Layers: 24, KVHeads: 8, HeadDim: 128, Blocks: blocks, Type: compute.KVBF16}
	if err := c.NewKV(shape); err != nil {
		t.Fatal(err)
	}
	d := &pinnedOnly{interpreter: inner}
	c.driver = d
	size := int(shape.BlockBytes())
	if size <= 2*bounceBytes {
		t.Fatalf("a block has %d bytes: too few to be copied in several pieces", size)
	}
	rng := rand.New(rand.NewPCG(24, 6))
	for _, piece := range []int{size, 512 << 10, 512<<10 - 4, 3 << 18} {
		want := make([][]byte, blocks)
		for b := range want {
			want[b] = make([]byte, size)
			for i := range want[b] {
				want[b][i] = byte(rng.Uint32())
			}
			for at := 0; at < size; at += piece {
				part := bytes.Clone(want[b][at:min(at+piece, size)])
				c.WriteBlock(int32(b), at, part)
				clear(part) // it may be used again
			}
		}
		for b := range want {
			got := make([]byte, size)
			for at := 0; at < size; at += piece {
				c.ReadBlock(got[at:min(at+piece, size)], int32(b), at)
			}
			if !bytes.Equal(got, want[b]) {
				t.Errorf("pieces of %d bytes: block %d has other bytes", piece, b)
			}
		}
	}
	if d.bad > 0 {
		t.Errorf("%d copies of memory that is not pinned", d.bad)
	}
	c.driver = inner
}
