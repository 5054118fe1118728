//go:build linux && (amd64 || arm64)

package nvml

import (
	"errors"
	"sync"

	"github.com/ebitengine/purego"
)

var openLibrary = sync.OnceValues(func() (library, error) {
	handle, err := purego.Dlopen("libnvidia-ml.so.1", purego.RTLD_NOW|purego.RTLD_GLOBAL)
	if err != nil {
		return nil, errors.New("nvml: libnvidia-ml.so.1 was not found: install NVIDIA's driver with its management " +
			"library to see clocks, power and temperature")
	}
	l := library{}
	for _, name := range symbols {
		if at, err := purego.Dlsym(handle, name); err == nil {
			l[name] = func(args ...uintptr) int32 {
				status, _, _ := purego.SyscallN(at, args...)
				return int32(status)
			}
		}
	}
	return l, l.start()
})
