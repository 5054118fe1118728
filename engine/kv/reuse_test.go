package kv

import (
	"bytes"
	"testing"
)

// observing returns a cache that has observed some uses of blocks.
func observing(t testing.TB) *Cache {
	c, err := NewCache(Config{Blocks: 4})
	if err != nil {
		t.Fatal(err)
	}
	l := c.learn
	for range 500 {
		l.arrive(kindKnown, 3)
		for k := range uint8(5) {
			l.grow(kindKnown, k, 3)
		}
		l.reuse(kindKnown, 5)
		l.reuse(kindKnown, 5)
		l.lose(kindKnown, 5)
	}
	return c
}

// TestCachesLearnFromEachOther gives what one cache has observed to one that has seen nothing: it
// expects about the same of blocks. What it was given is forgotten when it is given nothing.
func TestCachesLearnFromEachOther(t *testing.T) {
	from := observing(t)
	from.LearnFrom(nil) // brings its estimates up to date
	data, err := from.Reuse().MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	var travelled Reuse
	if err := travelled.UnmarshalBinary(data); err != nil {
		t.Fatal(err)
	}
	to, err := NewCache(Config{Blocks: 4})
	if err != nil {
		t.Fatal(err)
	}
	fresh := to.learn.later[kindKnown][3]
	to.LearnFrom([]*Reuse{&travelled})
	got, want := to.learn.later[kindKnown][3], from.learn.later[kindKnown][3]
	if want < 0.6 || got < want-0.05 || got > want+0.05 || got < fresh+0.1 {
		t.Errorf("the chance of being used again is %.3f; the other cache says %.3f, without it %.3f", got, want, fresh)
	}
	if own := to.Reuse(); own.ended != (Reuse{}).ended {
		t.Error("what was given counts as observed")
	}
	to.LearnFrom(nil)
	if got := to.learn.later[kindKnown][3]; got != fresh {
		t.Errorf("%.3f, want %.3f as before", got, fresh)
	}
}

// FuzzReuse reads any bytes: what is taken is written as the same bytes.
func FuzzReuse(f *testing.F) {
	data, err := observing(f).Reuse().MarshalBinary()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add(data[:len(data)-1])
	f.Add([]byte(reuseMagic))
	f.Fuzz(func(t *testing.T, data []byte) {
		var r Reuse
		if r.UnmarshalBinary(data) != nil {
			if r != (Reuse{}) {
				t.Fatal("a part of what was refused is kept")
			}
			return
		}
		again, err := r.MarshalBinary()
		if err != nil {
			t.Fatal(err)
		}
		var second Reuse
		if err := second.UnmarshalBinary(again); err != nil || second != r {
			t.Fatalf("not the same after travelling: %v, %v", err, bytes.Equal(data, again))
		}
	})
}
