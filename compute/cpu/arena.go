package cpu

import "unsafe"

const (
	// hugePage is the size of a large page.
	hugePage = 2 << 20
	// arenaChunk is how much an arena takes from the system at once. What is not
	// used of it is never provided.
	arenaChunk = 64 << 20
)

// An arena is memory that is given back all at once. Pieces lie side by side,
// so that also those that are smaller than a large page are in one: weights
// are read from end to end for every token, and with small pages the processor
// spends the time on addresses.
type arena struct {
	taken [][]byte // from the system
	rest  []byte   // of the last chunk
}

// take returns zeroed memory that begins at a cache line.
func (a *arena) take(bytes int64) ([]byte, error) {
	room := (bytes + cacheLine - 1) / cacheLine * cacheLine
	if room > int64(len(a.rest)) {
		chunk, err := a.chunk(max(room, arenaChunk))
		if err != nil {
			return nil, err
		}
		if room == int64(len(chunk)) { // the rest of the last chunk may still serve smaller ones
			return chunk[:bytes:bytes], nil
		}
		a.rest = chunk
	}
	piece := a.rest[:bytes:bytes]
	a.rest = a.rest[room:]
	return piece, nil
}

// chunk takes memory from the system that begins at a large page.
func (a *arena) chunk(bytes int64) ([]byte, error) {
	b, err := takeMemory(bytes + hugePage)
	if err != nil {
		return nil, err
	}
	a.taken = append(a.taken, b)
	skip := -uintptr(unsafe.Pointer(unsafe.SliceData(b))) & (hugePage - 1)
	return b[skip:][:bytes], nil
}

// give gives everything back.
func (a *arena) give() (errs []error) {
	for _, b := range a.taken {
		errs = append(errs, giveMemory(b))
	}
	*a = arena{}
	return errs
}

const cacheLine = 64

// largeBytes is from which size on memory is taken from the system, in large pages where it has them.
const largeBytes = 2 << 20
