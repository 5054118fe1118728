package cuda

import (
	"fmt"
	"slices"
	"strings"
	"unsafe"

	"parley/compute"
	"parley/compute/libcuda"
)

// view returns memory as a slice of another type.
func view[T any](b []byte) []T {
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/int(unsafe.Sizeof(*new(T))))
}

func (p *pool) args() poolArgs {
	return poolArgs{
		data:         p.at,
		layers:       int32(p.shape.Layers),
		heads:        int32(p.shape.KVHeads),
		dim:          int32(p.shape.HeadDim),
		typ:          int32(p.shape.Type),
		partBytes:    int32(p.shape.PartBytes()),
		elementBytes: int32(p.shape.Type.ElementBytes()),
	}
}

// NewKV takes the memory of the pool.
func (c *CUDA) NewKV(s compute.KVShape) error {
	if c.pool.at != 0 {
		return fmt.Errorf("cuda: the backend has a pool already")
	}
	if !s.Type.Valid() {
		return fmt.Errorf("cuda: a pool of type %v is not possible: use one of %s", s.Type,
			strings.Join(compute.KVTypeNames(), ", "))
	}
	widest := headWidths[len(headWidths)-1]
	if s.Layers < 1 || s.KVHeads < 1 || s.Blocks < 1 || s.HeadDim < 2 || s.HeadDim%2 != 0 || s.HeadDim > widest {
		return fmt.Errorf(
			"cuda: a pool of %d blocks for %d layers, %d heads of %d is not possible: all must be positive, the "+
				"last one even and at most %d",
			s.Blocks, s.Layers, s.KVHeads, s.HeadDim, widest)
	}
	if s.Layers > maxElements/2/s.KVHeads/s.HeadDim/compute.BlockTokens/s.Blocks ||
		s.Blocks > 1<<31/compute.BlockTokens-1 {
		return fmt.Errorf("cuda: a pool of %d blocks for %d layers, %d heads of %d is too large", s.Blocks, s.Layers,
			s.KVHeads, s.HeadDim)
	}
	at, err := c.take(s.Bytes(), fmt.Sprintf("%d blocks of the key/value pool: use fewer", s.Blocks))
	if err != nil {
		return err
	}
	if s.Type == compute.KVFP8 { // products meet the rest of a block with zeros, and not every code is a number
		if err := c.driver.Clear(at, s.Bytes()); err != nil {
			return err
		}
	}
	c.pool = pool{shape: s, at: at, aside: aside{moving: map[int32]struct{}{}}}
	if err := c.pool.bounce.open(c.driver); err != nil {
		return fmt.Errorf("cuda: no %d KiB of pinned memory for copies of blocks: %w", 2*bounceBytes>>10, err)
	}
	return c.loadAttend(s.HeadDim)
}

// loadAttend loads the kernels for heads of that width.
func (c *CUDA) loadAttend(dim int) (err error) {
	width := headWidth(dim)
	module := fmt.Sprintf("attend_%d", width)
	if t := c.pool.shape.Type; (t == compute.KVInt8 || t == compute.KVFP8) && width < 256 {
		module += "_codes"
	}
	c.attend, err = c.loadShapes(module, attendShapes(dim, c.pool.shape.Type, c.hopper()))
	return err
}

func (c *CUDA) block(i int32) libcuda.Address {
	return c.pool.at + libcuda.Address(int64(i)*c.pool.shape.BlockBytes())
}

// CopyBlocks copies whole blocks.
func (c *CUDA) CopyBlocks(dst, src []int32) {
	c.must(c.flush())
	c.join(dst)
	c.join(src)
	for i := range dst {
		c.must(c.driver.CopyWithin(c.block(dst[i]), c.block(src[i]), c.pool.shape.BlockBytes()))
	}
}

// ReadBlock copies bytes of a block into dst.
func (c *CUDA) ReadBlock(dst []byte, block int32, at int) {
	from := c.partOf(block, at, len(dst))
	c.must(c.flush())
	if within(dst, c.arenas) {
		c.goAside(block)
		c.must(c.driver.DownloadAside(dst, from))
		return
	}
	c.join([]int32{block})
	c.downloadBounced(dst, from)
}

// WriteBlock copies bytes that were read into the pool.
func (c *CUDA) WriteBlock(block int32, at int, src []byte) {
	to := c.partOf(block, at, len(src))
	c.must(c.flush())
	if within(src, c.arenas) {
		c.goAside(block)
		c.must(c.driver.UploadAside(to, src))
		return
	}
	c.join([]int32{block})
	c.uploadBounced(to, src)
}

// Pin lets blocks be copied to and from memory outside the Go heap while steps are computed:
// ReadBlock and WriteBlock return before they are done, and WaitCopies when they are. Steps that
// use the blocks wait for them. It ends with Close.
func (c *CUDA) Pin(memory []byte) error {
	if err := c.driver.Pin(memory); err != nil {
		return fmt.Errorf("cuda: %s: %w", c.device.Name, err)
	}
	c.arenas = append(c.arenas, memory)
	return nil
}

// within reports whether memory begins in one of the pieces.
func within(memory []byte, pieces [][]byte) bool {
	address := func(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }
	return slices.ContainsFunc(pieces, func(p []byte) bool {
		return address(memory)-address(p) < uintptr(len(p))
	})
}

// partOf returns where bytes of a block are. What reaches beyond it is not of one sequence.
func (c *CUDA) partOf(block int32, at, bytes int) libcuda.Address {
	if size := c.pool.shape.BlockBytes(); at < 0 || int64(bytes) > size-int64(at) {
		panic(fmt.Sprintf("cuda: a block of %d has not %d bytes from %d on", size, bytes, at))
	}
	return c.block(block) + libcuda.Address(at)
}
