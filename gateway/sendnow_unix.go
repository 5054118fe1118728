//go:build unix && !linux

package gateway

import "syscall"

// sendNow writes to a socket, which does not wait, what it takes at once.
func sendNow(fd int, p []byte) (int, error) { return syscall.Write(fd, p) }
