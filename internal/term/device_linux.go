package term

import "golang.org/x/sys/unix"

// The requests that read and set how a terminal behaves; setting waits until
// all output was shown.
const (
	getTermios = unix.TCGETS
	setTermios = unix.TCSETSW
)
