// Package kv keeps account of the blocks of a key/value pool: which are free,
// and how many sequences hold each of the others. It only counts; the memory
// itself is the backend's.
//
// The law it keeps: a block is either free or held, and it is held exactly as
// often as it stands in the tables of sequences.
package kv

import "fmt"

// A Pool counts references to blocks. The zero value has no blocks.
type Pool struct {
	free []int32 // the last one is taken next
	refs []int32 // by block
}

// New returns a pool of so many free blocks.
func New(blocks int) *Pool {
	p := &Pool{free: make([]int32, blocks), refs: make([]int32, blocks)}
	for i := range p.free {
		p.free[i] = int32(blocks - 1 - i)
	}
	return p
}

// Total returns the number of blocks.
func (p *Pool) Total() int { return len(p.refs) }

// Free returns the number of blocks that nobody holds.
func (p *Pool) Free() int { return len(p.free) }

// Take appends n free blocks to table, or returns false and leaves it as it is
// when there are not so many.
func (p *Pool) Take(table []int32, n int) ([]int32, bool) {
	if n > len(p.free) {
		return table, false
	}
	for range n {
		b := p.free[len(p.free)-1]
		p.free = p.free[:len(p.free)-1]
		p.refs[b] = 1
		table = append(table, b)
	}
	return table, true
}

// Share adds a holder to each block.
func (p *Pool) Share(blocks []int32) {
	for _, b := range blocks {
		p.refs[b]++
	}
}

// Release takes a holder from each block; those without any become free.
func (p *Pool) Release(blocks []int32) {
	for _, b := range blocks {
		p.refs[b]--
		if p.refs[b] == 0 {
			p.free = append(p.free, b)
		}
	}
}

// Check reports where the account disagrees with the tables that hold blocks.
func (p *Pool) Check(tables [][]int32) error {
	held := make([]int32, len(p.refs))
	for _, table := range tables {
		for _, b := range table {
			held[b]++
		}
	}
	free := make([]bool, len(p.refs))
	for _, b := range p.free {
		if free[b] {
			return fmt.Errorf("kv: block %d is free twice", b)
		}
		free[b] = true
	}
	for b, n := range p.refs {
		if n != held[b] || free[b] != (n == 0) {
			return fmt.Errorf("kv: block %d has %d references and free=%t, but stands in %d tables", b, n, free[b], held[b])
		}
	}
	return nil
}
