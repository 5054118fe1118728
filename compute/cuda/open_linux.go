//go:build linux && (amd64 || arm64)

package cuda

import "parley/compute/libcuda"

// Devices lists the GPUs of this machine. The error says why there are none.
func Devices() ([]libcuda.Device, error) { return libcuda.Devices() }

func openDriver(index int) (driver, error) { return libcuda.Open(index) }
