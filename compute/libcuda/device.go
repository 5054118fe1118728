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

// SideBatches is how many batches of copies can be timed at once.
const SideBatches = 16

// A Device describes a GPU.
type Device struct {
	Index          int
	Name           string
	MemoryBytes    int64
	Multiprocessor int // how many there are
	// Major and Minor are its compute capability, and Driver the driver's CUDA version, as in 13000.
	Major, Minor, Driver int
	// BusID is its address on the PCI bus, such as 0000:1b:00.0; empty if unknown.
	BusID string
	// ClockHertz is the highest clock of its multiprocessors, MemoryHertz that of its memory,
	// which MemoryBits lines connect; 0 if unknown.
	ClockHertz, MemoryHertz float64
	MemoryBits              int
}

// tensorOperations are the multiplications and additions of 16-bit numbers (dense, sums in
// float32) that the tensor cores of one multiprocessor do in a cycle, by compute capability.
// They follow from the rates in NVIDIA's data sheets, divided by multiprocessors and clock: for
// example 989e12 for the H100's 132 multiprocessors at 1.83 GHz. GeForce cards of 8.6, 8.9 and
// 12.0 do half of it.
var tensorOperations = map[[2]int]float64{
	{8, 0}:  2048,
	{8, 6}:  1024,
	{8, 7}:  2048,
	{8, 9}:  1024,
	{9, 0}:  4096,
	{10, 0}: 8192,
	{10, 3}: 8192,
	{12, 0}: 1024,
}

// Ceilings returns how many bytes of its memory the GPU can read in a second, and how many
// 16-bit operations its tensor cores can do; 0 if unknown. Every line of the memory carries two
// bits in a cycle of the memory's clock, and the tensor cores do as many operations in a cycle of
// the multiprocessors' highest clock as the architecture allows. Neither is ever reached: by
// measurement about nine tenths of the bandwidth are, and less of the arithmetic, because
// power limits the clock.
func (d Device) Ceilings() (bandwidth, operations float64) {
	bandwidth = 2 * d.MemoryHertz * float64(d.MemoryBits) / 8
	operations = tensorOperations[[2]int{d.Major, d.Minor}] * float64(d.Multiprocessor) * d.ClockHertz
	return bandwidth, operations
}

// A Kernel is a kernel's name, threads in a block and dynamic shared memory.
type Kernel struct {
	Name            string
	Threads, Shared int
	// Early says that the kernel may begin while the one before it runs: it waits itself.
	Early bool
}
