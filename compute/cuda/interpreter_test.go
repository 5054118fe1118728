package cuda

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"
	"time"
	"unsafe"

	"parley/compute/computetest"
	"parley/compute/cpu"
	"parley/compute/libcuda"
	"parley/internal/ptx"
)

// An interpreter is the driver of tests: it runs the kernels that ship without
// a GPU, and finds accesses out of bounds and races in shared memory.
type interpreter struct {
	device    *ptx.Device
	kernels   []*ptx.Kernel
	capturing bool
	captured  []recordedLaunch
	graphs    map[libcuda.Graph][]recordedLaunch
	launches  int
	replays   int
	major     int // of its compute capability
	// aside are copies that wait until something must wait for them: as late as any device would
	// make them. batches are how many copies were asked for when a batch ended.
	aside       []func() error
	asked, made int
	batches     map[int]int
	pinned      []pinnedMemory
}

// A pinnedMemory is memory of the device that plays pinned memory of the host.
type pinnedMemory struct {
	memory []byte
	at     uint64
}

type recordedLaunch struct {
	kernel          *ptx.Kernel
	grid            [2]int
	threads, shared int
	args            []byte
}

func newInterpreter(o ptx.Options) *interpreter {
	return &interpreter{
		device:  ptx.New(o),
		graphs:  map[libcuda.Graph][]recordedLaunch{},
		major:   hopper,
		batches: map[int]int{},
	}
}

func (d *interpreter) Describe() libcuda.Device {
	return libcuda.Device{Name: "interpreter", MemoryBytes: 1 << 30, Multiprocessor: 4, Major: d.major, Driver: 13000}
}

func (d *interpreter) Free() (int64, error) { return 1<<30 - int64(d.device.Used()), nil }

func (d *interpreter) Allocate(bytes int64) (libcuda.Address, error) {
	at, err := d.device.Alloc(int(bytes))
	return libcuda.Address(at), err
}

func (d *interpreter) Release(at libcuda.Address) error { return d.device.Free(uint64(at)) }
func (d *interpreter) Pin([]byte) error                 { return nil }
func (d *interpreter) Unpin([]byte) error               { return nil }

// AllocatePinned takes memory of the device, which kernels find there and the host, too.
func (d *interpreter) AllocatePinned(bytes int) ([]byte, error) {
	at, err := d.device.Alloc(bytes)
	if err != nil {
		return nil, err
	}
	memory, err := d.device.Bytes(at, bytes)
	d.pinned = append(d.pinned, pinnedMemory{memory, at})
	return memory, err
}

func (d *interpreter) ReleasePinned(memory []byte) error {
	at := d.Mapped(memory)
	d.pinned = slices.DeleteFunc(d.pinned, func(p pinnedMemory) bool { return p.at == uint64(at) })
	return d.device.Free(uint64(at))
}

func (d *interpreter) Mapped(pinned []byte) libcuda.Address {
	for _, p := range d.pinned {
		offset := uintptr(unsafe.Pointer(&pinned[0])) - uintptr(unsafe.Pointer(&p.memory[0]))
		if offset < uintptr(len(p.memory)) {
			return libcuda.Address(p.at) + libcuda.Address(offset)
		}
	}
	return 0 // no kernel may touch it
}

func (d *interpreter) Upload(to libcuda.Address, from []byte) error {
	return d.device.Write(uint64(to), from)
}
func (d *interpreter) Download(to []byte, from libcuda.Address) error {
	return d.device.Read(uint64(from), to)
}

func (d *interpreter) CopyWithin(to, from libcuda.Address, bytes int64) error {
	between := make([]byte, bytes)
	return errors.Join(d.device.Read(uint64(from), between), d.device.Write(uint64(to), between))
}

func (d *interpreter) Clear(at libcuda.Address, bytes int64) error {
	return d.device.Write(uint64(at), make([]byte, bytes))
}

func (d *interpreter) Fork() error { return nil } // kernels are run at once

func (d *interpreter) UploadAside(to libcuda.Address, from []byte) error {
	d.asked++
	d.aside = append(d.aside, func() error { return d.Upload(to, from) })
	return nil
}

func (d *interpreter) DownloadAside(to []byte, from libcuda.Address) error {
	d.asked++
	d.aside = append(d.aside, func() error { return d.Download(to, from) })
	return nil
}

func (d *interpreter) Join() error { return d.AwaitAside() }

func (d *interpreter) AwaitAside() error {
	for _, made := range d.aside {
		if err := made(); err != nil {
			return err
		}
	}
	d.aside, d.made = nil, d.asked
	return nil
}

func (d *interpreter) BeginBatch(int) error      { return nil }
func (d *interpreter) EndBatch(number int) error { d.batches[number] = d.asked; return nil }
func (d *interpreter) BatchTook(number int) (took time.Duration, done bool, err error) {
	return time.Microsecond, d.batches[number] <= d.made, nil
}

// unpacked keeps the PTX of modules by name, or why there is none: all tests load the same ones.
var unpacked sync.Map

func init() {
	if !onDevice {
		stagingLeast = 256 << 10
	}
	moduleSource = func(module string) ([]byte, error) {
		once, _ := unpacked.LoadOrStore(module, sync.OnceValues(func() ([]byte, error) { return readPTX(module) }))
		return once.(func() ([]byte, error))()
	}
}

// parsed keeps modules, too.
var parsed sync.Map

func (d *interpreter) Load(source string, kernels []libcuda.Kernel) ([]libcuda.Function, error) {
	key := source[:min(len(source), 4096)] + fmt.Sprint(len(source))
	once, _ := parsed.LoadOrStore(key, sync.OnceValues(func() (*ptx.Module, error) { return ptx.Parse(source) }))
	m, err := once.(func() (*ptx.Module, error))()
	if err != nil {
		return nil, err
	}
	var all []libcuda.Function
	for _, shape := range kernels {
		k, err := m.Kernel(shape.Name)
		if err != nil {
			return nil, err
		}
		d.kernels = append(d.kernels, k)
		all = append(all, libcuda.Function(len(d.kernels)))
	}
	return all, nil
}

func (d *interpreter) Launch(f libcuda.Function, grid [2]int, k *libcuda.Kernel, args unsafe.Pointer, size int) error {
	l := recordedLaunch{d.kernels[f-1], grid, k.Threads, k.Shared,
		append([]byte(nil), unsafe.Slice((*byte)(args), size)...)}
	if d.capturing {
		d.captured = append(d.captured, l)
		return nil
	}
	d.launches++
	return d.run(l)
}

func (d *interpreter) run(l recordedLaunch) error {
	return d.device.Launch(l.kernel, ptx.Dim{l.grid[0], l.grid[1], 1}, ptx.Dim{l.threads, 1, 1}, ptx.Dim{}, l.shared,
		l.args)
}

func (d *interpreter) BeginCapture() error { d.capturing, d.captured = true, nil; return nil }

func (d *interpreter) EndCapture() (libcuda.Graph, error) {
	g := libcuda.Graph(len(d.graphs) + 1)
	d.capturing, d.graphs[g] = false, d.captured
	return g, nil
}

func (d *interpreter) Replay(g libcuda.Graph) error {
	d.replays++
	for _, l := range d.graphs[g] {
		if err := d.run(l); err != nil {
			return err
		}
	}
	return nil
}

func (d *interpreter) Forget(g libcuda.Graph) error { d.graphs[g] = nil; return nil }
func (d *interpreter) Mark(int) error               { return nil }
func (d *interpreter) Await(int) error              { return nil }
func (d *interpreter) Synchronize() error           { return nil }

func (d *interpreter) Close() error {
	if n := d.device.Used(); n != 0 {
		return fmt.Errorf("%d bytes of device memory were not given back", n)
	}
	return nil
}

// onDevice says that tests run on a real GPU; otherwise the interpreter runs them.
var onDevice = os.Getenv("PARLEY_TEST_DEVICE") == "cuda"

var everyCase = flag.Bool("all", onDevice, "interpret every case; otherwise half of the pairs of types and shapes")

// left reports whether the case of the i-th type and the j-th shape is left to runs of every case. Each type and
// each shape is met without those, and two shapes in a row with the same types: kernels alternate with shapes.
func left(i, j int) bool { return !*everyCase && (i+j/2)%2 == 1 }

// heldContext keeps the device's context, which takes long to make again, until the process ends.
var heldContext = sync.OnceFunc(func() { _, _ = Open(0) })

// The compute capabilities whose kernels are interpreted: the portable ones, and Hopper's.
const portable, hopper = 8, 9

// newBackend returns a backend to test.
func newBackend(t testing.TB) *CUDA {
	t.Helper()
	return newBackendOf(t, hopper)
}

// newBackendOf returns a backend whose interpreter has the compute capability; a
// real device has its own.
func newBackendOf(t testing.TB, major int) *CUDA {
	t.Helper()
	var c *CUDA
	var err error
	if onDevice {
		heldContext()
		c, err = Open(0)
	} else {
		d := newInterpreter(ptx.Options{})
		d.major = major
		c, err = open(d)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// compare holds a scenario to the reference.
func compare(t *testing.T, s computetest.Scenario, budget float64) {
	t.Helper()
	compareOn(t, hopper, s, budget)
}

// compareOn does so with the kernels of a compute capability.
func compareOn(t *testing.T, major int, s computetest.Scenario, budget float64) {
	t.Helper()
	want := s(computetest.Bench{TB: t, Backend: cpu.NewRef()})
	got := s(computetest.Bench{TB: t, Backend: newBackendOf(t, major)})
	if err := computetest.Differ(got, want, budget); err != nil {
		t.Error(err)
	}
}
