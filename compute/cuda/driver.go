package cuda

import (
	"time"
	"unsafe"

	"parley/compute/libcuda"
)

// A driver gives access to one device. Launches, copies and graphs happen in
// the order of the calls; those that return before they are done say so.
//
// There are two: the library libcuda, and in tests an interpreter of the same
// kernels.
type driver interface {
	// describe says what the device is.
	Describe() libcuda.Device
	// free returns the bytes of device memory that are not in use.
	Free() (int64, error)

	// allocate takes device memory. What it holds is not defined.
	Allocate(bytes int64) (libcuda.Address, error)
	Release(at libcuda.Address) error
	// allocatePinned takes host memory that the device can copy from and to while
	// the host does something else.
	AllocatePinned(bytes int) ([]byte, error)
	ReleasePinned(memory []byte) error
	// Mapped is where kernels find pinned memory that was allocated.
	Mapped(pinned []byte) libcuda.Address
	// pin makes memory of the process such memory, until unpin.
	Pin(memory []byte) error
	Unpin(memory []byte) error

	// upload and download return at once if the host memory is pinned. It must
	// not change before the next synchronize.
	Upload(to libcuda.Address, from []byte) error
	Download(to []byte, from libcuda.Address) error
	CopyWithin(to, from libcuda.Address, bytes int64) error
	// clear writes zeros.
	Clear(at libcuda.Address, bytes int64) error

	// Copies aside are made while kernels run, one after the other, from and to pinned memory.
	// Fork makes those that follow wait for everything asked for before it, and Join makes what
	// follows wait for them.
	Fork() error
	UploadAside(to libcuda.Address, from []byte) error
	DownloadAside(to []byte, from libcuda.Address) error
	Join() error
	AwaitAside() error
	// A batch of them has a number below libcuda.SideBatches, and a time when it is done.
	BeginBatch(number int) error
	EndBatch(number int) error
	BatchTook(number int) (took time.Duration, done bool, err error)

	// load compiles PTX and looks its kernels up.
	Load(source string, kernels []libcuda.Kernel) ([]libcuda.Function, error)
	// launch starts a kernel, whose only parameter is the structure of the given size at args.
	Launch(f libcuda.Function, grid [2]int, k *libcuda.Kernel, args unsafe.Pointer, size int) error

	// Between beginCapture and endCapture launches are recorded and not run.
	BeginCapture() error
	EndCapture() (libcuda.Graph, error)
	Replay(g libcuda.Graph) error
	Forget(g libcuda.Graph) error

	// mark notes the present place in the order of what was asked for under one of two
	// numbers, and await waits until everything before it is done.
	Mark(number int) error
	Await(number int) error

	// synchronize waits until everything is done and reports what went wrong meanwhile.
	Synchronize() error
	Close() error
}
