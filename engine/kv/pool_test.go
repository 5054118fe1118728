package kv

import (
	"math/rand/v2"
	"slices"
	"testing"
)

func TestRandomUseKeepsTheLaw(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	const blocks = 40
	p := New(blocks)
	var tables [][]int32
	for step := range 5000 {
		switch rng.IntN(3) {
		case 0:
			n, free := rng.IntN(12), p.Free()
			table, ok := p.Take(nil, n)
			if ok != (n <= free) {
				t.Fatalf("step %d: taking %d of %d free blocks gave %t", step, n, free, ok)
			}
			if ok {
				tables = append(tables, table)
			}
		case 1:
			if len(tables) > 0 {
				table := tables[rng.IntN(len(tables))]
				shared := slices.Clone(table[:rng.IntN(len(table)+1)])
				p.Share(shared)
				tables = append(tables, shared)
			}
		case 2:
			if len(tables) > 0 {
				i := rng.IntN(len(tables))
				p.Release(tables[i])
				tables = slices.Delete(tables, i, i+1)
			}
		}
		if err := p.Check(tables); err != nil {
			t.Fatalf("step %d: %v", step, err)
		}
	}
	for _, table := range tables {
		p.Release(table)
	}
	if p.Free() != blocks || p.Total() != blocks {
		t.Errorf("%d of %d blocks are free at the end", p.Free(), p.Total())
	}
}

func TestCheckFindsALostBlock(t *testing.T) {
	p := New(4)
	table, _ := p.Take(nil, 2)
	if p.Check(nil) == nil {
		t.Error("two held blocks in no table went unnoticed")
	}
	p.Release(table[:1])
	if p.Check([][]int32{table}) == nil {
		t.Error("a free block in a table went unnoticed")
	}
}
