//go:build unix

package cpu

import "syscall"

// switches returns how often the system has taken a thread of this process off
// its core although it had more to do.
func switches() int64 {
	var use syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &use); err != nil {
		return 0
	}
	return int64(use.Nivcsw)
}
