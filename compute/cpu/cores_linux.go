package cpu

import (
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// currentCore returns the core that this thread runs on.
func currentCore() int32 {
	var core uint32
	if _, _, err := unix.RawSyscall(unix.SYS_GETCPU, uintptr(unsafe.Pointer(&core)), 0, 0); err != 0 {
		return -1
	}
	return int32(core)
}

// leaveCore moves this thread to another core if it runs on the given one. To
// the system it makes no difference which of three threads have to share two
// cores, but two that work for one another must not.
func leaveCore(core int32) {
	if core < 0 || currentCore() != core {
		return
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var mine, others unix.CPUSet
	if unix.SchedGetaffinity(0, &mine) != nil {
		return
	}
	others = mine
	others.Clear(int(core))
	if others.Count() > 0 && unix.SchedSetaffinity(0, &others) == nil {
		_ = unix.SchedSetaffinity(0, &mine) // it was allowed before
	}
}
