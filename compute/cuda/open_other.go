//go:build !linux || !(amd64 || arm64)

package cuda

import (
	"fmt"
	"runtime"

	"parley/compute/libcuda"
)

// Devices says why there are no GPUs to compute on.
func Devices() ([]libcuda.Device, error) {
	return nil, fmt.Errorf("cuda: NVIDIA GPUs are used on Linux alone, not on %s/%s", runtime.GOOS, runtime.GOARCH)
}

func openDriver(int) (driver, error) {
	_, err := Devices()
	return nil, err
}
