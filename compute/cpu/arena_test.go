package cpu

import (
	"errors"
	"math/rand/v2"
	"testing"
	"unsafe"
)

func TestArenaPiecesAreApart(t *testing.T) {
	var a arena
	defer func() {
		if err := errors.Join(a.give()...); err != nil || a.taken != nil {
			t.Errorf("given back with %v", err)
		}
	}()
	rng := rand.New(rand.NewPCG(1, 1))
	var pieces [][]byte
	for range 200 {
		n := 1 + rng.IntN(3<<rng.IntN(20))
		piece, err := a.take(int64(n))
		if err != nil || len(piece) != n || cap(piece) != n {
			t.Fatalf("%d bytes: got %d of %d, %v", n, len(piece), cap(piece), err)
		}
		if uintptr(unsafe.Pointer(&piece[0]))%cacheLine != 0 {
			t.Fatal("a piece begins within a cache line")
		}
		piece[0]++
		piece[n-1]++
		pieces = append(pieces, piece)
	}
	for _, p := range pieces {
		if want := byte(1); len(p) > 1 && (p[0] != want || p[len(p)-1] != want) {
			t.Fatal("two pieces lie in one place")
		}
	}
	if len(a.taken) > 5 {
		t.Errorf("the system was asked %d times", len(a.taken))
	}
}

// TestLargePiecesLeaveTheChunk asks for more than a chunk between two small
// pieces, which must still lie side by side.
func TestLargePiecesLeaveTheChunk(t *testing.T) {
	var a arena
	defer a.give()
	first, _ := a.take(1000)
	large, err := a.take(arenaChunk + 1<<20)
	if err != nil || uintptr(unsafe.Pointer(&large[0]))%hugePage != 0 {
		t.Fatalf("a large piece does not begin at a large page (%v)", err)
	}
	second, _ := a.take(10)
	if distance := uintptr(unsafe.Pointer(&second[0])) - uintptr(unsafe.Pointer(&first[0])); distance != 1024 {
		t.Errorf("the second piece lies %d bytes behind the first", distance)
	}
}
