package cpu

import (
	"sync"
	"syscall"
)

// askForTiles asks the system for the matrix unit's registers, which it does
// not save for programs that do not ask. It reports whether they may be used.
var askForTiles = sync.OnceValue(func() bool {
	const archRequestComponent, tileData = 0x1023, 18
	_, _, errno := syscall.RawSyscall(syscall.SYS_ARCH_PRCTL, archRequestComponent, tileData, 0)
	return errno == 0
})
