//go:build amd64 || arm64

package kvindex

import "unsafe"

// prefetch asks for lines of memory without waiting for them. It is assembly
// because Go has no word for it, and an ordinary read makes all that follows
// wait.
//
//go:noescape
func prefetch(lines []unsafe.Pointer)
