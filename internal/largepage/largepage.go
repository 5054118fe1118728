// Package largepage has memory backed by large pages. A program that jumps about in
// a hundred megabytes of small ones spends more time on finding out where they are
// than on what is in them.
package largepage

import (
	"sync"
	"unsafe"
)

// chunk is how the Go runtime takes memory from the system: in units of this size, at
// multiples of it.
const chunk = 4 << 20

// Worthwhile is the size from which on a slice should be asked for.
const Worthwhile = 4 << 10

// asked counts the requests for large pages in each chunk. The system is
// asked when the number has doubled: it may have had none before, or the runtime has
// given parts back meanwhile.
var asked = struct {
	sync.Mutex
	chunks map[uintptr]uint
}{chunks: map[uintptr]uint{}}

// Ask asks the system for large pages under a slice that was just made, and under
// what lies around it in the same chunks: most pages will be shared with
// neighbours. It changes nothing but speed. Memory that the program has used before,
// in small pages, is copied to large ones, which takes some tenths of a millisecond
// for two megabytes.
func Ask[T any](s []T) {
	bytes := uintptr(cap(s)) * unsafe.Sizeof(*new(T))
	if bytes < Worthwhile {
		return
	}
	begin := uintptr(unsafe.Pointer(unsafe.SliceData(s)))
	for at := begin &^ (chunk - 1); at < begin+bytes; at += chunk {
		if due(at) {
			ask(at, chunk)
		}
	}
}

// due notes one more request for large pages in a chunk, and reports whether the system
// is to be asked.
func due(at uintptr) bool {
	asked.Lock()
	defer asked.Unlock()
	asked.chunks[at]++
	n := asked.chunks[at]
	return n&(n-1) == 0
}
