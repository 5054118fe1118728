//go:build !amd64 && !arm64

package kvindex

import "unsafe"

func prefetch(unsafe.Pointer, int) {}
