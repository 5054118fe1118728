//go:build !linux && !darwin

package host

import "errors"

// AvailableBytes is not known on this system.
func AvailableBytes() (int64, error) {
	return 0, errors.New("the available memory is not known on this system")
}
