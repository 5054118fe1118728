// Package libcuda calls the library of the NVIDIA driver, without cgo: it opens it at run
// time, takes a device, and gives access to its memory, kernels and graphs. It knows
// nothing of models.
package libcuda

// An Address is a place in device memory.
type Address uint64

// A Function is a kernel of a loaded module, and a graph a recorded sequence
// of launches, each as its driver names them.
type (
	Function uintptr
	Graph    uintptr
)

// A Device describes a GPU.
type Device struct {
	Index          int
	Name           string
	MemoryBytes    int64
	Multiprocessor int // how many there are
	// Major and Minor are its compute capability, and Driver the driver's CUDA version, as in 13000.
	Major, Minor, Driver int
}

// A Kernel is a kernel's name, threads in a block and dynamic shared memory.
type Kernel struct {
	Name            string
	Threads, Shared int
	// Early says that the kernel may begin while the one before it runs: it waits itself.
	Early bool
}
