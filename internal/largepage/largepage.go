// Package largepage has memory backed by large pages. A program that jumps about in
// a hundred megabytes of small ones spends more time on finding out where they are
// than on what is in them.
package largepage

import "unsafe"

// chunk is how the Go runtime takes memory from the system: so much at once, at a
// multiple of it.
const chunk = 4 << 20

// Worthwhile is the size from which on a slice should be asked for.
const Worthwhile = 16 << 10

// Ask asks the system for large pages under a slice that was just made, and under
// what lies around it in the same chunks: most pages will be shared with
// neighbours. It changes nothing but speed. What the program had used before gets
// large pages later, when the system finds the time.
func Ask[T any](s []T) {
	if bytes := uintptr(cap(s)) * unsafe.Sizeof(*new(T)); bytes >= Worthwhile {
		begin := uintptr(unsafe.Pointer(unsafe.SliceData(s)))
		from := begin &^ (chunk - 1)
		ask(from, (begin+bytes+chunk-1)&^(chunk-1)-from)
	}
}
