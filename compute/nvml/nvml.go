// Package nvml asks the management library of the NVIDIA driver, libnvidia-ml, how a GPU is:
// memory, clocks, power, temperature, what slows it down. The library is opened at run time,
// without cgo. A function that it lacks, or that the GPU does not support, leaves what it
// would have said unsaid.
//
//	nvml.go           what is asked, of any library
//	library_linux.go  the library of this machine
//	library_other.go  why there is none
package nvml

import (
	"bytes"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"unsafe"

	"parley"
)

// A function is one of the library's: it takes words and returns a status, 0 for success.
type function func(args ...uintptr) int32

// A library is the functions that are there, by name.
type library map[string]function

// symbols are the functions that are used. Only the first two must be there.
var symbols = []string{
	"nvmlInit_v2", "nvmlDeviceGetHandleByPciBusId_v2", "nvmlSystemGetDriverVersion", "nvmlDeviceGetUtilizationRates",
	"nvmlDeviceGetMemoryInfo_v2", "nvmlDeviceGetMemoryInfo", "nvmlDeviceGetClockInfo", "nvmlDeviceGetMaxClockInfo",
	"nvmlDeviceGetPowerUsage", "nvmlDeviceGetEnforcedPowerLimit", "nvmlDeviceGetTemperature",
	"nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons",
	"nvmlDeviceGetTotalEccErrors",
}

// Numbers of nvml.h.
const (
	clockMultiprocessors = 1
	clockMemory          = 2
	sensorGPU            = 0
	errorsUncorrected    = 1
	countersVolatile     = 0
)

// utilization, memoryUse and memoryUse2 are nvmlUtilization_t, nvmlMemory_t and
// nvmlMemory_v2_t of nvml.h. What is reserved and what is free are not read.
type (
	utilization struct{ gpu, memory uint32 }
	memoryUse   struct{ total, _, used uint64 }
	memoryUse2  struct {
		version           uint32
		total, _, _, used uint64
	}
)

// memoryUse2Version is how the library knows the layout: its size, and its version in the
// highest byte.
const memoryUse2Version = uint32(unsafe.Sizeof(memoryUse2{})) | 2<<24

// throttleBits are the bits of the reasons why clocks are low, in the order of
// [parley.ThrottleReasons]. That a GPU is idle is the lowest bit and not among them.
var throttleBits = []uint64{0x2, 0x4, 0x8, 0x10, 0x20, 0x40, 0x80, 0x100}

// A Device is a GPU that can be asked. It may be used by one goroutine at a time.
type Device struct {
	library library
	handle  uintptr
	driver  string
}

// Open returns the GPU at an address of the PCI bus, such as 0000:1b:00.0. CUDA and this
// library number GPUs differently, but both know their addresses.
func Open(busID string) (*Device, error) {
	l, err := openLibrary()
	if err != nil {
		return nil, err
	}
	return l.open(busID)
}

// start makes the library ready.
func (l library) start() error {
	for _, name := range symbols[:2] {
		if l[name] == nil {
			return fmt.Errorf("nvml: libnvidia-ml.so.1 lacks %s: install a newer NVIDIA driver to see clocks, "+
				"power and temperature", name)
		}
	}
	if status := l["nvmlInit_v2"](); status != 0 {
		return fmt.Errorf("nvml: libnvidia-ml.so.1 does not start: %w", statusError(status))
	}
	return nil
}

func (l library) open(busID string) (*Device, error) {
	if busID == "" {
		return nil, errors.New("nvml: the driver does not say where on the PCI bus the GPU is")
	}
	d := &Device{library: l}
	text := append([]byte(busID), 0)
	status := l["nvmlDeviceGetHandleByPciBusId_v2"](word(&text[0]), word(&d.handle))
	runtime.KeepAlive(text)
	if status != 0 {
		return nil, fmt.Errorf("nvml: no GPU at %s: %w", busID, statusError(status))
	}
	var version [96]byte
	if d.ask("nvmlSystemGetDriverVersion", word(&version[0]), uintptr(len(version))) {
		n := bytes.IndexByte(version[:], 0)
		d.driver = string(version[:max(n, 0)])
	}
	return d, nil
}

// A statusError is a status of the library other than success.
type statusError int32

// statusTexts are the statuses that a machine with a GPU may meet.
var statusTexts = map[statusError]string{
	2:   "an argument is invalid",
	3:   "the GPU does not support it",
	4:   "it is not permitted to this user",
	6:   "it was not found",
	9:   "the driver is not loaded",
	15:  "the GPU is lost",
	16:  "the GPU must be reset",
	17:  "the operating system does not allow it",
	18:  "the library and the driver have different versions",
	999: "an unknown error of the driver",
}

// Error says what the status means.
func (e statusError) Error() string {
	if text, ok := statusTexts[e]; ok {
		return fmt.Sprintf("%s (status %d)", text, int32(e))
	}
	return fmt.Sprintf("status %d", int32(e))
}

// Read fills in what the library says now. It takes up to some milliseconds.
func (d *Device) Read(s *parley.DeviceState) {
	s.Driver = d.driver
	s.KernelTime, s.MemoryTime = nil, nil
	var use utilization
	if d.ask("nvmlDeviceGetUtilizationRates", d.handle, word(&use)) {
		s.KernelTime, s.MemoryTime = new(float64(use.gpu)/100), new(float64(use.memory)/100)
	}
	s.MemoryUsed, s.Memory = d.memory()
	const mega = 1e6
	s.Clock = d.number(mega, "nvmlDeviceGetClockInfo", clockMultiprocessors)
	s.ClockMax = d.number(mega, "nvmlDeviceGetMaxClockInfo", clockMultiprocessors)
	s.MemoryClock = d.number(mega, "nvmlDeviceGetClockInfo", clockMemory)
	s.MemoryClockMax = d.number(mega, "nvmlDeviceGetMaxClockInfo", clockMemory)
	const milli = 1e-3
	s.Power = d.number(milli, "nvmlDeviceGetPowerUsage")
	s.PowerLimit = d.number(milli, "nvmlDeviceGetEnforcedPowerLimit")
	s.Temperature = d.number(1, "nvmlDeviceGetTemperature", sensorGPU)
	var errorsCount uint64
	s.ECCErrors = nil
	if d.ask("nvmlDeviceGetTotalEccErrors", d.handle, errorsUncorrected, countersVolatile, word(&errorsCount)) {
		s.ECCErrors = new(float64(errorsCount))
	}
	s.Throttled = d.throttled()
}

// ask calls a function and reports whether it has answered.
func (d *Device) ask(name string, args ...uintptr) bool {
	f := d.library[name]
	return f != nil && f(args...) == 0
}

// number asks for a 32-bit number and multiplies it by unit.
func (d *Device) number(unit float64, name string, args ...uintptr) *float64 {
	var n uint32
	all := append(append([]uintptr{d.handle}, args...), word(&n))
	if !d.ask(name, all...) {
		return nil
	}
	return new(float64(n) * unit)
}

// memory returns the bytes in use and all bytes. Older drivers count what the driver keeps for
// itself as used.
func (d *Device) memory() (used, total *float64) {
	newer := memoryUse2{version: memoryUse2Version}
	if d.ask("nvmlDeviceGetMemoryInfo_v2", d.handle, word(&newer)) {
		return new(float64(newer.used)), new(float64(newer.total))
	}
	var older memoryUse
	if d.ask("nvmlDeviceGetMemoryInfo", d.handle, word(&older)) {
		return new(float64(older.used)), new(float64(older.total))
	}
	return nil, nil
}

// throttled returns why clocks are low, nil if that is not known.
func (d *Device) throttled() []string {
	var bits uint64
	if !d.ask("nvmlDeviceGetCurrentClocksEventReasons", d.handle, word(&bits)) &&
		!d.ask("nvmlDeviceGetCurrentClocksThrottleReasons", d.handle, word(&bits)) {
		return nil
	}
	reasons := []string{}
	for i, bit := range throttleBits {
		if bits&bit != 0 {
			reasons = append(reasons, parley.ThrottleReasons[i])
		}
	}
	return reasons
}

// word passes a pointer to the library. What it points to must live on the heap, where
// nothing moves; escape makes sure of it.
func word[T any](p *T) uintptr {
	atomic.StorePointer(&escape, unsafe.Pointer(p))
	return uintptr(unsafe.Pointer(p))
}

var escape unsafe.Pointer
