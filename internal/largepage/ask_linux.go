package largepage

import "golang.org/x/sys/unix"

// ask ignores what the system says: it may have no large pages, or be told not to
// give any.
func ask(from, bytes uintptr) {
	_, _, _ = unix.Syscall(unix.SYS_MADVISE, from, bytes, unix.MADV_HUGEPAGE)
}
