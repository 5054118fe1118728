package largepage

import "golang.org/x/sys/unix"

// ask ignores what the system says: it may have no large pages, be told not to
// give any, or not know the second word, by which small pages become large ones at
// once and not when the system finds the time.
func ask(from, bytes uintptr) {
	for _, advice := range []uintptr{unix.MADV_HUGEPAGE, unix.MADV_COLLAPSE} {
		_, _, _ = unix.Syscall(unix.SYS_MADVISE, from, bytes, advice)
	}
}
