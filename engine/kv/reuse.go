package kv

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// A Reuse is what a cache has observed of how soon blocks are used again, by their kind and age.
// Caches of several workers which serve the same load learn sooner from what all of them have
// observed: each gives its own with [Cache.Reuse], and takes those of the others with
// [Cache.LearnFrom]. It has counts alone, and nothing of names, tokens or tenants.
type Reuse struct {
	again, ended, waiting [kinds][buckets]float64
}

// nothing is what was observed by no cache. It never changes.
var nothing Reuse

// Reuse returns what the cache itself has observed.
func (c *Cache) Reuse() *Reuse {
	l := c.learn
	return &Reuse{l.again, l.ended, l.waiting}
}

// LearnFrom has the cache learn from what others have observed, in place of what it was given
// before.
func (c *Cache) LearnFrom(others []*Reuse) {
	c.learn.others = &nothing
	if len(others) > 0 {
		c.learn.others = &Reuse{}
	}
	for _, o := range others {
		c.learn.others.add(o)
	}
	for kind := range kinds {
		c.learn.estimate(kind)
	}
}

func (r *Reuse) add(other *Reuse) {
	for kind := range kinds {
		for k := range buckets {
			r.again[kind][k] += other.again[kind][k]
			r.ended[kind][k] += other.ended[kind][k]
			r.waiting[kind][k] += other.waiting[kind][k]
		}
	}
}

// reuseMagic begins a Reuse as bytes. It changes when kinds or ages change their meaning.
const reuseMagic = "parley reuse 1\n"

// reuseNumbers is how many numbers follow, each a float32.
const reuseNumbers = 3 * kinds * buckets

// tables returns what travels.
func (r *Reuse) tables() [3]*[kinds][buckets]float64 {
	return [...]*[kinds][buckets]float64{&r.again, &r.ended, &r.waiting}
}

// MarshalBinary returns the counts as they travel between workers.
func (r *Reuse) MarshalBinary() ([]byte, error) {
	out := append(make([]byte, 0, len(reuseMagic)+4*reuseNumbers), reuseMagic...)
	for _, table := range r.tables() {
		for kind := range table {
			for _, n := range table[kind] {
				out = binary.LittleEndian.AppendUint32(out, math.Float32bits(float32(max(0, n))))
			}
		}
	}
	return out, nil
}

// UnmarshalBinary reads counts that have travelled.
func (r *Reuse) UnmarshalBinary(data []byte) error {
	if len(data) != len(reuseMagic)+4*reuseNumbers || string(data[:len(reuseMagic)]) != reuseMagic {
		return fmt.Errorf("kv: %d bytes are not what a cache of this version has observed", len(data))
	}
	data = data[len(reuseMagic):]
	*r = Reuse{}
	for _, table := range r.tables() {
		for kind := range table {
			for k := range table[kind] {
				n := float64(math.Float32frombits(binary.LittleEndian.Uint32(data)))
				if !(n >= 0 && n <= reuseMost) {
					*r = Reuse{}
					return errors.New("kv: a count of what a cache has observed is out of range")
				}
				table[kind][k], data = n, data[4:]
			}
		}
	}
	return nil
}

// reuseMost bounds a count: more blocks than a cache can have.
const reuseMost = 1 << 40
