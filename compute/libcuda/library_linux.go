//go:build linux && (amd64 || arm64)

package libcuda

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/ebitengine/purego"
)

// A library is libcuda, opened once for the process.
type library struct {
	handle  uintptr
	version int
	calls   map[string]uintptr
}

// symbols are the functions of libcuda that are used. Those that exist in two
// versions are named with the one whose arguments are used here.
var symbols = []string{
	"cuInit", "cuDriverGetVersion", "cuDeviceGetCount", "cuDeviceGet", "cuDeviceGetName", "cuDeviceTotalMem_v2",
	"cuDeviceGetAttribute", "cuDeviceGetPCIBusId", "cuDevicePrimaryCtxRetain", "cuDevicePrimaryCtxRelease_v2",
	"cuCtxSetCurrent", "cuGetErrorName",
	"cuGetErrorString", "cuMemGetInfo_v2", "cuMemAlloc_v2", "cuMemFree_v2", "cuMemAllocHost_v2", "cuMemFreeHost",
	"cuMemHostRegister_v2", "cuMemHostUnregister", "cuMemcpyHtoDAsync_v2", "cuMemcpyDtoHAsync_v2",
	"cuMemcpyDtoDAsync_v2",
	"cuMemsetD8Async",
	"cuStreamCreate", "cuStreamDestroy_v2", "cuStreamSynchronize", "cuStreamBeginCapture_v2",
	"cuStreamEndCapture", "cuGraphInstantiateWithFlags", "cuGraphLaunch", "cuGraphDestroy", "cuGraphExecDestroy",
	"cuEventCreate", "cuEventRecord", "cuEventSynchronize", "cuEventDestroy_v2", "cuStreamWaitEvent", "cuEventQuery",
	"cuEventElapsedTime",
	"cuModuleLoadDataEx", "cuModuleUnload", "cuModuleGetFunction", "cuFuncSetAttribute", "cuLaunchKernelEx",
}

// driverLeast is the oldest driver whose compiler takes our PTX: that of CUDA 12.3.
const driverLeast = 12030

var openLibrary = sync.OnceValues(func() (*library, error) {
	keepCompiled()
	handle, err := purego.Dlopen("libcuda.so.1", purego.RTLD_NOW|purego.RTLD_GLOBAL)
	if err != nil {
		return nil,
			fmt.Errorf("cuda: there is no NVIDIA driver here (libcuda.so.1 was not found): install one to use a GPU")
	}
	l := &library{handle: handle, calls: map[string]uintptr{}}
	for _, name := range symbols {
		at, err := purego.Dlsym(handle, name)
		if err != nil {
			return nil, fmt.Errorf("cuda: the NVIDIA driver lacks %s: install version 545 (CUDA 12.3) or newer", name)
		}
		l.calls[name] = at
	}
	if err := l.call("cuInit", 0); err != nil {
		return nil, fmt.Errorf("cuda: the NVIDIA driver does not start: %w", err)
	}
	var version int32
	if err := l.call("cuDriverGetVersion", word(&version)); err != nil {
		return nil, err
	}
	l.version = int(version)
	if l.version < driverLeast {
		return nil, fmt.Errorf("cuda: the NVIDIA driver is for CUDA %d.%d: install version 545 (CUDA 12.3) or newer",
			version/1000, version%1000/10)
	}
	return l, nil
})

// keepCompiled makes the driver keep what it compiles in the user's cache
// folder, unless the user has said where. The variable must be set in the C
// library, where the driver looks.
func keepCompiled() {
	cache, err := os.UserCacheDir()
	if err != nil || os.Getenv("CUDA_CACHE_PATH") != "" {
		return
	}
	libc, err := purego.Dlopen("libc.so.6", purego.RTLD_NOW)
	if err != nil {
		return
	}
	if set, err := purego.Dlsym(libc, "setenv"); err == nil {
		name, path := []byte("CUDA_CACHE_PATH\x00"), []byte(filepath.Join(cache, "parley", "cuda")+"\x00")
		_, _, _ = purego.SyscallN(set, word(&name[0]), word(&path[0]), 0)
		runtime.KeepAlive(name)
		runtime.KeepAlive(path)
	}
}

// word passes a pointer to the library. What it points to must live on the
// heap, where nothing moves; escape makes sure of it.
func word[T any](p *T) uintptr {
	atomic.StorePointer(&escape, unsafe.Pointer(p))
	return uintptr(unsafe.Pointer(p))
}

var escape unsafe.Pointer

// call calls a function and turns its status into an error.
func (l *library) call(name string, args ...uintptr) error {
	status, _, _ := purego.SyscallN(l.calls[name], args...)
	if status == 0 {
		return nil
	}
	return l.failure(name, int(int32(status)))
}

// A driverError is a status of the library other than success.
type driverError struct {
	call, name, text string
	code             int
}

func (e *driverError) Error() string { return fmt.Sprintf("%s: %s (%s)", e.call, e.text, e.name) }

func (l *library) failure(call string, code int) error {
	var name, text uintptr
	_, _, _ = purego.SyscallN(l.calls["cuGetErrorName"], uintptr(code), word(&name))
	_, _, _ = purego.SyscallN(l.calls["cuGetErrorString"], uintptr(code), word(&text))
	return &driverError{call: call, name: cString(name), text: cString(text), code: code}
}

// cString reads a string of the library.
func cString(at uintptr) string {
	if at == 0 {
		return "unknown"
	}
	p := *(*unsafe.Pointer)(unsafe.Pointer(&at))
	n := 0
	for *(*byte)(unsafe.Add(p, n)) != 0 {
		n++
	}
	return string(unsafe.Slice((*byte)(p), n))
}

// Attributes of devices and functions, by their numbers in cuda.h.
const (
	attributeClock           = 13 // in kHz, as that of the memory
	attributeMultiprocessors = 16
	attributeMemoryClock     = 36
	attributeMemoryBits      = 37
	attributeMajor           = 75
	attributeMinor           = 76
	attributeSharedLimit     = 8
	captureRelaxed           = 2
	streamNonBlocking        = 1
	eventWithoutTime         = 2
	eventWithTime            = 0
	statusNotReady           = 600
	launchEarly              = 6 // programmatic stream serialization
)

// describe reads what device index is.
func (l *library) describe(index int) (Device, error) {
	var device int32
	if err := l.call("cuDeviceGet", word(&device), uintptr(index)); err != nil {
		return Device{}, err
	}
	name := make([]byte, 128)
	var memory uint64
	var count, major, minor int32
	for _, err := range []error{
		l.call("cuDeviceGetName", word(&name[0]), uintptr(len(name)), uintptr(device)),
		l.call("cuDeviceTotalMem_v2", word(&memory), uintptr(device)),
		l.call("cuDeviceGetAttribute", word(&count), attributeMultiprocessors, uintptr(device)),
		l.call("cuDeviceGetAttribute", word(&major), attributeMajor, uintptr(device)),
		l.call("cuDeviceGetAttribute", word(&minor), attributeMinor, uintptr(device)),
	} {
		if err != nil {
			return Device{}, err
		}
	}
	return Device{
		Index:          index,
		Name:           cString(word(&name[0])),
		MemoryBytes:    int64(memory),
		Multiprocessor: int(count),
		Major:          int(major),
		Minor:          int(minor),
		Driver:         l.version,
		BusID:          l.busID(device),
		ClockHertz:     1e3 * float64(l.attribute(attributeClock, device)),
		MemoryHertz:    1e3 * float64(l.attribute(attributeMemoryClock, device)),
		MemoryBits:     l.attribute(attributeMemoryBits, device),
	}, nil
}

// attribute returns an attribute that can be done without, 0 if the driver does not give it.
func (l *library) attribute(number uintptr, device int32) int {
	var value int32
	if l.call("cuDeviceGetAttribute", word(&value), number, uintptr(device)) != nil {
		return 0
	}
	return int(value)
}

// busID returns the address of a device on the PCI bus, empty if the driver does not give it.
func (l *library) busID(device int32) string {
	var id [32]byte
	if l.call("cuDeviceGetPCIBusId", word(&id[0]), uintptr(len(id)), uintptr(device)) != nil {
		return ""
	}
	return cString(word(&id[0]))
}

// Devices lists the GPUs of this machine, or says why there are none.
func Devices() ([]Device, error) {
	l, err := openLibrary()
	if err != nil {
		return nil, err
	}
	var count int32
	if err := l.call("cuDeviceGetCount", word(&count)); err != nil {
		return nil, fmt.Errorf("cuda: %w", err)
	}
	if count == 0 {
		return nil, fmt.Errorf("cuda: the NVIDIA driver sees no GPU")
	}
	var all []Device
	for i := range int(count) {
		d, err := l.describe(i)
		if err != nil {
			return nil, fmt.Errorf("cuda: GPU %d: %w", i, err)
		}
		all = append(all, d)
	}
	return all, nil
}
