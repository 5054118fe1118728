//go:build unix

package cpu

import (
	"fmt"
	"syscall"
)

// takeMemory returns zeroed memory that the system provides page by page when it is first
// touched. It lies outside the Go heap, so that giving gigabytes back does not
// wait for a garbage collection.
func takeMemory(bytes int64) ([]byte, error) {
	if bytes == 0 {
		return nil, nil
	}
	b, err := syscall.Mmap(-1, 0, int(bytes), syscall.PROT_READ|syscall.PROT_WRITE,
		syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		return nil, fmt.Errorf("cpu: cannot take %d MiB of memory: %w", bytes>>20, err)
	}
	adviseHugePages(b)
	return b, nil
}

func giveMemory(b []byte) error {
	if len(b) == 0 {
		return nil
	}
	return syscall.Munmap(b)
}
