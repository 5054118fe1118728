package cpu

import "syscall"

// adviseHugePages asks for 2 MiB pages: weights are read from end to end for
// every token, and with small pages address translation costs bandwidth. The
// system may refuse, which changes nothing but speed.
func adviseHugePages(b []byte) {
	const madvHugepage = 14
	_ = syscall.Madvise(b, madvHugepage)
}
