package cpu

import (
	"fmt"
	"strings"

	"parley/compute"
)

// NewKV takes the memory of the pool. The system provides it as it is first used.
func (c *CPU) NewKV(s compute.KVShape) error {
	if c.kv.data != nil {
		return fmt.Errorf("cpu: the backend has a pool already")
	}
	if !s.Type.Valid() {
		return fmt.Errorf("cpu: a pool of type %v is not possible: use one of %s", s.Type,
			strings.Join(compute.KVTypeNames(), ", "))
	}
	if s.Layers < 1 || s.KVHeads < 1 || s.Blocks < 1 || s.HeadDim < 2 || s.HeadDim%2 != 0 {
		return fmt.Errorf(
			"cpu: a pool of %d blocks for %d layers, %d heads of %d is not possible: all must be positive, the "+
				"last one even", s.Blocks, s.Layers, s.KVHeads, s.HeadDim)
	}
	if s.Layers > maxElements/2/s.KVHeads/s.HeadDim/compute.BlockTokens/s.Blocks {
		return fmt.Errorf("cpu: a pool of %d blocks for %d layers, %d heads of %d is too large", s.Blocks, s.Layers,
			s.KVHeads, s.HeadDim)
	}
	memory, err := c.memory.take(s.Bytes())
	if err != nil {
		return fmt.Errorf("%w for %d blocks of the key/value pool: use fewer", err, s.Blocks)
	}
	c.kv = kvPool{shape: s, data: memory}
	return nil
}

// CopyBlocks copies whole blocks.
func (c *CPU) CopyBlocks(dst, src []int32) { copyBlocks(c.kv.data, c.kv.shape, dst, src) }

// ReadBlock copies bytes of a block into dst.
func (c *CPU) ReadBlock(dst []byte, block int32, at int) {
	copy(dst, partOf(blockOf(c.kv.data, c.kv.shape, block), at, len(dst)))
}

// WriteBlock copies bytes that were read into the pool.
func (c *CPU) WriteBlock(block int32, at int, src []byte) {
	copy(partOf(blockOf(c.kv.data, c.kv.shape, block), at, len(src)), src)
}

// blockOf returns the bytes of one block of a pool.
func blockOf(pool []byte, s compute.KVShape, block int32) []byte {
	n := int(s.BlockBytes())
	return pool[int(block)*n:][:n:n]
}

func copyBlocks(pool []byte, s compute.KVShape, dst, src []int32) {
	for i := range dst {
		copy(blockOf(pool, s, dst[i]), blockOf(pool, s, src[i]))
	}
}

// partOf returns bytes of a block. What reaches beyond it is not of one sequence.
func partOf(block []byte, at, bytes int) []byte {
	if at < 0 || bytes > len(block)-at {
		panic(fmt.Sprintf("cpu: a block of %d has not %d bytes from %d on", len(block), bytes, at))
	}
	return block[at:][:bytes]
}

// head returns the keys and values of one head in one block.
func (p *kvPool) head(block int32, layer, head int) (keys, values []byte) {
	n := p.shape.PartBytes()
	part := p.shape.KVHeads * n
	at := (int(block)*p.shape.Layers+layer)*2*part + head*n
	return p.data[at:][:n:n], p.data[at+part:][:n:n]
}

// from returns the pool from the keys of a head in its first block on, and how
// far behind its keys the values of a head lie.
func (p *kvPool) from(layer, head int) (keys []byte, valuesAt int) {
	n := p.shape.PartBytes()
	part := p.shape.KVHeads * n
	return p.data[layer*2*part+head*n:], part
}

// store keeps the key and value of one head at the place's position.
func (p *kvPool) store(at *rowPosition, layer, head int, key, value []float32) {
	keys, values := p.head(at.seq.Blocks[at.pos/compute.BlockTokens], layer, head)
	token := at.pos % compute.BlockTokens
	narrow(p.shape.Type, keys, token, token, compute.BlockTokens, key)
	narrow(p.shape.Type, values, token, token*len(value), 1, value)
}
