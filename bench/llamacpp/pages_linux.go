package llamacpp

import "golang.org/x/sys/unix"

// largePages takes memory in pages of 2 MiB, as the weights of a model are kept:
// with small ones much of the time goes into finding where a page lies. It is
// kept until the process ends.
func largePages(bytes int) ([]byte, error) {
	m, err := unix.Mmap(-1, 0, bytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err == nil {
		_ = unix.Madvise(m, unix.MADV_HUGEPAGE) // a system without them has small ones
	}
	return m, err
}
