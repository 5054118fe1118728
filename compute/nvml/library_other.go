//go:build !linux || !(amd64 || arm64)

package nvml

import (
	"fmt"
	"runtime"
)

func openLibrary() (library, error) {
	return nil, fmt.Errorf("nvml: NVIDIA GPUs are used on Linux alone, not on %s/%s", runtime.GOOS, runtime.GOARCH)
}
