//go:build linux && (amd64 || arm64)

package libcuda

import (
	"errors"
	"fmt"
	"runtime"
	"time"
	"unsafe"

	"github.com/ebitengine/purego"
)

// A GPU is the driver of a device, by libcuda.
type GPU struct {
	*library
	device  Device
	handle  int32
	context uintptr
	stream  uintptr
	marks   [2]uintptr
	side    sideStream
	modules []uintptr
	graphs  map[Graph]uintptr // the templates of what is replayed
	args    [1024]byte
	words   [8]uintptr // arguments of a call
	params  [1]uintptr // of a launch: where its arguments are
	config  launchConfig
	early   launchAttribute
}

// launchConfig and launchAttribute are CUlaunchConfig and CUlaunchAttribute of cuda.h.
type (
	launchConfig struct {
		grid, threads [3]uint32
		shared        uint32
		stream        uintptr
		attributes    uintptr
		count         uint32
	}
	launchAttribute struct {
		id    uint64
		value [8]uint64
	}
)

// A sideStream is for copies that are made while kernels run.
type sideStream struct {
	stream       uintptr
	fork, join   uintptr
	begun, ended [SideBatches]uintptr // of batches
}

// events returns where all events are kept, those with a time last.
func (s *sideStream) events() (plain, timed []*uintptr) {
	for i := range s.begun {
		timed = append(timed, &s.begun[i], &s.ended[i])
	}
	return []*uintptr{&s.fork, &s.join}, timed
}

// Open takes device index of this machine.
func Open(index int) (*GPU, error) {
	l, err := openLibrary()
	if err != nil {
		return nil, err
	}
	g := &GPU{library: l, graphs: map[Graph]uintptr{}}
	if g.device, err = l.describe(index); err != nil {
		return nil, fmt.Errorf("cuda: no GPU %d: %w", index, err)
	}
	if g.device.Major < 8 {
		return nil, fmt.Errorf("cuda: %s has compute capability %d.%d: 8.0 (Ampere) or newer is needed",
			g.device.Name, g.device.Major, g.device.Minor)
	}
	if err := l.call("cuDeviceGet", word(&g.handle), uintptr(index)); err != nil {
		return nil, err
	}
	if err := l.call("cuDevicePrimaryCtxRetain", word(&g.context), uintptr(g.handle)); err != nil {
		return nil, fmt.Errorf("cuda: %s: %w", g.device.Name, err)
	}
	if err := g.do("cuStreamCreate", word(&g.stream), streamNonBlocking); err != nil {
		return nil, fmt.Errorf("cuda: %s: %w", g.device.Name, err)
	}
	for i := range g.marks {
		if err := g.do("cuEventCreate", word(&g.marks[i]), eventWithoutTime); err != nil {
			return nil, fmt.Errorf("cuda: %s: %w", g.device.Name, err)
		}
	}
	if err := g.openSide(); err != nil {
		return nil, fmt.Errorf("cuda: %s: %w", g.device.Name, err)
	}
	return g, nil
}

// openSide makes the stream for copies.
func (g *GPU) openSide() error {
	if err := g.do("cuStreamCreate", word(&g.side.stream), streamNonBlocking); err != nil {
		return err
	}
	plain, timed := g.side.events()
	for _, e := range plain {
		if err := g.do("cuEventCreate", word(e), eventWithoutTime); err != nil {
			return err
		}
	}
	for _, e := range timed {
		if err := g.do("cuEventCreate", word(e), eventWithTime); err != nil {
			return err
		}
	}
	return nil
}

// do calls a function with the device's context, which belongs to threads of the system.
func (g *GPU) do(name string, args ...uintptr) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := g.invoke("cuCtxSetCurrent", g.context); err != nil {
		return err
	}
	return g.invoke(name, args...)
}

// invoke is call without garbage: arguments go through memory that stays.
func (g *GPU) invoke(name string, args ...uintptr) error {
	n := copy(g.words[:], args)
	status, _, _ := purego.SyscallN(g.calls[name], g.words[:n]...)
	if status == 0 {
		return nil
	}
	return g.failure(name, int(int32(status)))
}

// Describe says what the device is.
func (g *GPU) Describe() Device { return g.device }

// Free returns the bytes of device memory that are not in use.
func (g *GPU) Free() (int64, error) {
	var free, total uint64
	err := g.do("cuMemGetInfo_v2", word(&free), word(&total))
	return int64(free), err
}

// Allocate takes device memory. What it holds is not defined.
func (g *GPU) Allocate(bytes int64) (Address, error) {
	var at uint64
	err := g.do("cuMemAlloc_v2", word(&at), uintptr(bytes))
	return Address(at), err
}

// Release gives device memory back.
func (g *GPU) Release(at Address) error { return g.do("cuMemFree_v2", uintptr(at)) }

// AllocatePinned takes host memory that the device copies from and to by itself.
func (g *GPU) AllocatePinned(bytes int) ([]byte, error) {
	var at unsafe.Pointer
	if err := g.do("cuMemAllocHost_v2", word(&at), uintptr(bytes)); err != nil {
		return nil, err
	}
	return unsafe.Slice((*byte)(at), bytes), nil
}

// ReleasePinned gives such memory back.
func (g *GPU) ReleasePinned(memory []byte) error { return g.do("cuMemFreeHost", word(&memory[0])) }

// Mapped is where kernels find pinned memory that was allocated: at the same address, as on all 64-bit systems.
func (g *GPU) Mapped(pinned []byte) Address { return Address(word(&pinned[0])) }

// Pin makes memory of the process such memory, until Unpin.
func (g *GPU) Pin(memory []byte) error {
	return g.do("cuMemHostRegister_v2", word(&memory[0]), uintptr(len(memory)), 0)
}

// Unpin makes it ordinary memory again.
func (g *GPU) Unpin(memory []byte) error { return g.do("cuMemHostUnregister", word(&memory[0])) }

// Upload copies to the device; it returns at once if the host memory is pinned.
func (g *GPU) Upload(to Address, from []byte) error {
	return g.do("cuMemcpyHtoDAsync_v2", uintptr(to), word(&from[0]), uintptr(len(from)), g.stream)
}

// Download copies from the device; it returns at once if the host memory is pinned.
func (g *GPU) Download(to []byte, from Address) error {
	return g.do("cuMemcpyDtoHAsync_v2", word(&to[0]), uintptr(from), uintptr(len(to)), g.stream)
}

// Fork makes the copies aside that follow wait for everything that was asked for before.
func (g *GPU) Fork() error {
	return errors.Join(g.do("cuEventRecord", g.side.fork, g.stream),
		g.do("cuStreamWaitEvent", g.side.stream, g.side.fork, 0))
}

// UploadAside copies pinned memory to the device while kernels run, after the copies aside before it.
func (g *GPU) UploadAside(to Address, from []byte) error {
	return g.do("cuMemcpyHtoDAsync_v2", uintptr(to), word(&from[0]), uintptr(len(from)), g.side.stream)
}

// DownloadAside copies from the device to pinned memory in the same way.
func (g *GPU) DownloadAside(to []byte, from Address) error {
	return g.do("cuMemcpyDtoHAsync_v2", word(&to[0]), uintptr(from), uintptr(len(to)), g.side.stream)
}

// Join makes what follows wait for the copies aside.
func (g *GPU) Join() error {
	return errors.Join(g.do("cuEventRecord", g.side.join, g.side.stream),
		g.do("cuStreamWaitEvent", g.stream, g.side.join, 0))
}

// AwaitAside waits until the copies aside are done.
func (g *GPU) AwaitAside() error { return g.do("cuStreamSynchronize", g.side.stream) }

// BeginBatch and EndBatch take the times of copies aside, under a number below SideBatches.
func (g *GPU) BeginBatch(number int) error {
	return g.do("cuEventRecord", g.side.begun[number], g.side.stream)
}

// EndBatch ends a batch.
func (g *GPU) EndBatch(number int) error {
	return g.do("cuEventRecord", g.side.ended[number], g.side.stream)
}

// BatchTook returns how long a batch took, if it is done.
func (g *GPU) BatchTook(number int) (took time.Duration, done bool, err error) {
	if err := g.do("cuEventQuery", g.side.ended[number]); err != nil {
		var status *driverError
		if errors.As(err, &status) && status.code == statusNotReady {
			return 0, false, nil
		}
		return 0, false, err
	}
	var ms float32
	err = g.do("cuEventElapsedTime", word(&ms), g.side.begun[number], g.side.ended[number])
	return time.Duration(float64(ms) * float64(time.Millisecond)), true, err
}

// CopyWithin copies device memory.
func (g *GPU) CopyWithin(to, from Address, bytes int64) error {
	return g.do("cuMemcpyDtoDAsync_v2", uintptr(to), uintptr(from), uintptr(bytes), g.stream)
}

// Clear writes zeros.
func (g *GPU) Clear(at Address, bytes int64) error {
	return g.do("cuMemsetD8Async", uintptr(at), 0, uintptr(bytes), g.stream)
}

// Load compiles PTX and looks its kernels up.
func (g *GPU) Load(source string, kernels []Kernel) ([]Function, error) {
	text := append([]byte(source), 0)
	var module uintptr
	if err := g.do("cuModuleLoadDataEx", word(&module), word(&text[0]), 0, 0, 0); err != nil {
		return nil, err
	}
	g.modules = append(g.modules, module)
	var all []Function
	for _, k := range kernels {
		name := append([]byte(k.Name), 0)
		var f uintptr
		if err := g.do("cuModuleGetFunction", word(&f), module, word(&name[0])); err != nil {
			return nil, fmt.Errorf("kernel %s: %w", k.Name, err)
		}
		if k.Shared > 32<<10 { // the limit is 48 KiB, static memory included
			if err := g.do("cuFuncSetAttribute", f, attributeSharedLimit, uintptr(k.Shared)); err != nil {
				return nil, fmt.Errorf("kernel %s with %d bytes of shared memory: %w", k.Name, k.Shared, err)
			}
		}
		all = append(all, Function(f))
	}
	return all, nil
}

// Launch starts a kernel, whose only parameter is the structure of the given size at args.
func (g *GPU) Launch(f Function, grid [2]int, k *Kernel, args unsafe.Pointer, size int) error {
	copy(g.args[:], unsafe.Slice((*byte)(args), size))
	g.params[0] = uintptr(unsafe.Pointer(&g.args))
	g.config = launchConfig{
		grid:    [3]uint32{uint32(grid[0]), uint32(grid[1]), 1},
		threads: [3]uint32{uint32(k.Threads), 1, 1},
		shared:  uint32(k.Shared),
		stream:  g.stream,
	}
	if k.Early {
		g.early = launchAttribute{id: launchEarly}
		g.early.value[0] = 1
		g.config.attributes, g.config.count = uintptr(unsafe.Pointer(&g.early)), 1
	}
	return g.do("cuLaunchKernelEx", uintptr(unsafe.Pointer(&g.config)), uintptr(f), uintptr(unsafe.Pointer(&g.params)),
		0)
}

// BeginCapture has launches recorded and not run.
func (g *GPU) BeginCapture() error {
	return g.do("cuStreamBeginCapture_v2", g.stream, captureRelaxed)
}

// EndCapture returns the graph of what was recorded.
func (g *GPU) EndCapture() (Graph, error) {
	var template, exec uintptr
	if err := g.do("cuStreamEndCapture", g.stream, word(&template)); err != nil {
		return 0, err
	}
	if err := g.do("cuGraphInstantiateWithFlags", word(&exec), template, 0); err != nil {
		return 0, errors.Join(err, g.do("cuGraphDestroy", template))
	}
	g.graphs[Graph(exec)] = template
	return Graph(exec), nil
}

// Replay runs a graph.
func (g *GPU) Replay(of Graph) error { return g.do("cuGraphLaunch", uintptr(of), g.stream) }

// Forget releases a graph.
func (g *GPU) Forget(of Graph) error {
	template := g.graphs[of]
	delete(g.graphs, of)
	return errors.Join(g.do("cuGraphExecDestroy", uintptr(of)), g.do("cuGraphDestroy", template))
}

// Mark notes the present place in the order of what was asked for under a number.
func (g *GPU) Mark(number int) error { return g.do("cuEventRecord", g.marks[number], g.stream) }

// Await waits until everything before a mark is done.
func (g *GPU) Await(number int) error { return g.do("cuEventSynchronize", g.marks[number]) }

// Synchronize waits until everything is done and reports what went wrong meanwhile.
func (g *GPU) Synchronize() error { return g.do("cuStreamSynchronize", g.stream) }

// Close releases the device. Memory that was taken must be given back before.
func (g *GPU) Close() error {
	var errs []error
	for _, m := range g.modules {
		errs = append(errs, g.do("cuModuleUnload", m))
	}
	for _, m := range g.marks {
		errs = append(errs, g.do("cuEventDestroy_v2", m))
	}
	plain, timed := g.side.events()
	for _, e := range append(plain, timed...) {
		errs = append(errs, g.do("cuEventDestroy_v2", *e))
	}
	errs = append(errs, g.do("cuStreamDestroy_v2", g.side.stream))
	errs = append(errs, g.do("cuStreamDestroy_v2", g.stream), g.call("cuDevicePrimaryCtxRelease_v2", uintptr(g.handle)))
	g.modules = nil
	return errors.Join(errs...)
}
