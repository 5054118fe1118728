package host

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// AvailableBytes returns how much memory the process may take: three quarters
// of the machine's, because the system does not tell what it could free.
func AvailableBytes() (int64, error) {
	total, err := unix.SysctlUint64("hw.memsize")
	if err != nil {
		return 0, fmt.Errorf("hw.memsize: %w", err)
	}
	return int64(total / 4 * 3), nil
}
