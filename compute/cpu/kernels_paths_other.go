//go:build !amd64 && !arm64

package cpu

import "runtime"

// paths returns what there is for other processors: the plain kernels.
func paths() []path { return []path{{&plainKernels, true}} }

// pause lets other goroutines run: there is no cheaper way to wait here.
func pause(int) { runtime.Gosched() }

// prefetch does nothing: the processor finds out by itself what comes next.
func prefetch([]byte) {}
