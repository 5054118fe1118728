package cuda

import "unsafe"

// An address is a place in device memory.
type address uint64

// A function is a kernel of a loaded module, and a graph a recorded sequence
// of launches, each as its driver names them.
type (
	function uintptr
	graph    uintptr
)

// A driver gives access to one device. Launches, copies and graphs happen in
// the order of the calls; those that return before they are done say so.
//
// There are two: the library libcuda, and in tests an interpreter of the same
// kernels.
type driver interface {
	// describe says what the device is.
	describe() Device
	// free returns the bytes of device memory that are not in use.
	free() (int64, error)

	// allocate takes device memory. What it holds is not defined.
	allocate(bytes int64) (address, error)
	release(at address) error
	// allocatePinned takes host memory that the device can copy from and to while
	// the host does something else.
	allocatePinned(bytes int) ([]byte, error)
	releasePinned(memory []byte) error
	// pin makes memory of the process such memory, until unpin.
	pin(memory []byte) error
	unpin(memory []byte) error

	// upload and download return at once if the host memory is pinned. It must
	// not change before the next synchronize.
	upload(to address, from []byte) error
	download(to []byte, from address) error
	copyWithin(to, from address, bytes int64) error

	// load compiles PTX and looks its kernels up.
	load(source string, kernels []kernelShape) ([]function, error)
	// launch starts a kernel, whose only parameter is the structure of the given size at args.
	launch(f function, grid [2]int, k *kernelShape, args unsafe.Pointer, size int) error

	// Between beginCapture and endCapture launches are recorded and not run.
	beginCapture() error
	endCapture() (graph, error)
	replay(g graph) error
	forget(g graph) error

	// mark notes the present place in the order of what was asked for under one of two
	// numbers, and await waits until everything before it is done.
	mark(number int) error
	await(number int) error

	// synchronize waits until everything is done and reports what went wrong meanwhile.
	synchronize() error
	close() error
}

// A Device describes a GPU.
type Device struct {
	Index          int
	Name           string
	MemoryBytes    int64
	Multiprocessor int // how many there are
	// Major and Minor are its compute capability, and Driver the driver's CUDA version, as in 13000.
	Major, Minor, Driver int
}
