//go:build amd64 || arm64

package kvindex

import "unsafe"

// prefetch asks for lines of memory without waiting for them. Their addresses are
// the first words of n pairs. It is assembly because Go has no intrinsic for it, and
// an ordinary read makes all that follows wait.
//
//go:noescape
func prefetch(pairs unsafe.Pointer, n int)
