//go:build linux && (amd64 || arm64)

package cuda

import (
	"errors"
	"fmt"
	"runtime"
	"unsafe"

	"github.com/ebitengine/purego"
)

// A gpu is the driver of a device, by libcuda.
type gpu struct {
	*library
	device  Device
	handle  int32
	context uintptr
	stream  uintptr
	marks   [2]uintptr
	modules []uintptr
	graphs  map[graph]uintptr // the templates of what is replayed
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

// openDriver takes device index of this machine.
func openDriver(index int) (driver, error) {
	l, err := openLibrary()
	if err != nil {
		return nil, err
	}
	g := &gpu{library: l, graphs: map[graph]uintptr{}}
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
	return g, nil
}

// do calls a function with the device's context, which belongs to threads of the system.
func (g *gpu) do(name string, args ...uintptr) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := g.invoke("cuCtxSetCurrent", g.context); err != nil {
		return err
	}
	return g.invoke(name, args...)
}

// invoke is call without garbage: arguments go through memory that stays.
func (g *gpu) invoke(name string, args ...uintptr) error {
	n := copy(g.words[:], args)
	status, _, _ := purego.SyscallN(g.calls[name], g.words[:n]...)
	if status == 0 {
		return nil
	}
	return g.failure(name, int(int32(status)))
}

func (g *gpu) describe() Device { return g.device }

func (g *gpu) free() (int64, error) {
	var free, total uint64
	err := g.do("cuMemGetInfo_v2", word(&free), word(&total))
	return int64(free), err
}

func (g *gpu) allocate(bytes int64) (address, error) {
	var at uint64
	err := g.do("cuMemAlloc_v2", word(&at), uintptr(bytes))
	return address(at), err
}

func (g *gpu) release(at address) error { return g.do("cuMemFree_v2", uintptr(at)) }

func (g *gpu) allocatePinned(bytes int) ([]byte, error) {
	var at unsafe.Pointer
	if err := g.do("cuMemAllocHost_v2", word(&at), uintptr(bytes)); err != nil {
		return nil, err
	}
	return unsafe.Slice((*byte)(at), bytes), nil
}

func (g *gpu) releasePinned(memory []byte) error { return g.do("cuMemFreeHost", word(&memory[0])) }

func (g *gpu) pin(memory []byte) error {
	return g.do("cuMemHostRegister_v2", word(&memory[0]), uintptr(len(memory)), 0)
}

func (g *gpu) unpin(memory []byte) error { return g.do("cuMemHostUnregister", word(&memory[0])) }

func (g *gpu) upload(to address, from []byte) error {
	return g.do("cuMemcpyHtoDAsync_v2", uintptr(to), word(&from[0]), uintptr(len(from)), g.stream)
}

func (g *gpu) download(to []byte, from address) error {
	return g.do("cuMemcpyDtoHAsync_v2", word(&to[0]), uintptr(from), uintptr(len(to)), g.stream)
}

func (g *gpu) copyWithin(to, from address, bytes int64) error {
	return g.do("cuMemcpyDtoDAsync_v2", uintptr(to), uintptr(from), uintptr(bytes), g.stream)
}

func (g *gpu) load(source string, kernels []kernelShape) ([]function, error) {
	text := append([]byte(source), 0)
	var module uintptr
	if err := g.do("cuModuleLoadDataEx", word(&module), word(&text[0]), 0, 0, 0); err != nil {
		return nil, err
	}
	g.modules = append(g.modules, module)
	var all []function
	for _, k := range kernels {
		name := append([]byte(k.name), 0)
		var f uintptr
		if err := g.do("cuModuleGetFunction", word(&f), module, word(&name[0])); err != nil {
			return nil, fmt.Errorf("kernel %s: %w", k.name, err)
		}
		if k.shared > 32<<10 { // the limit is 48 KiB, static memory included
			if err := g.do("cuFuncSetAttribute", f, attributeSharedLimit, uintptr(k.shared)); err != nil {
				return nil, fmt.Errorf("kernel %s with %d bytes of shared memory: %w", k.name, k.shared, err)
			}
		}
		all = append(all, function(f))
	}
	return all, nil
}

func (g *gpu) launch(f function, grid [2]int, k *kernelShape, args unsafe.Pointer, size int) error {
	copy(g.args[:], unsafe.Slice((*byte)(args), size))
	g.params[0] = uintptr(unsafe.Pointer(&g.args))
	g.config = launchConfig{
		grid:    [3]uint32{uint32(grid[0]), uint32(grid[1]), 1},
		threads: [3]uint32{uint32(k.threads), 1, 1},
		shared:  uint32(k.shared),
		stream:  g.stream,
	}
	if k.early {
		g.early = launchAttribute{id: launchEarly}
		g.early.value[0] = 1
		g.config.attributes, g.config.count = uintptr(unsafe.Pointer(&g.early)), 1
	}
	return g.do("cuLaunchKernelEx", uintptr(unsafe.Pointer(&g.config)), uintptr(f), uintptr(unsafe.Pointer(&g.params)),
		0)
}

func (g *gpu) beginCapture() error {
	return g.do("cuStreamBeginCapture_v2", g.stream, captureRelaxed)
}

func (g *gpu) endCapture() (graph, error) {
	var template, exec uintptr
	if err := g.do("cuStreamEndCapture", g.stream, word(&template)); err != nil {
		return 0, err
	}
	if err := g.do("cuGraphInstantiateWithFlags", word(&exec), template, 0); err != nil {
		return 0, errors.Join(err, g.do("cuGraphDestroy", template))
	}
	g.graphs[graph(exec)] = template
	return graph(exec), nil
}

func (g *gpu) replay(of graph) error { return g.do("cuGraphLaunch", uintptr(of), g.stream) }

func (g *gpu) forget(of graph) error {
	template := g.graphs[of]
	delete(g.graphs, of)
	return errors.Join(g.do("cuGraphExecDestroy", uintptr(of)), g.do("cuGraphDestroy", template))
}

func (g *gpu) mark(number int) error  { return g.do("cuEventRecord", g.marks[number], g.stream) }
func (g *gpu) await(number int) error { return g.do("cuEventSynchronize", g.marks[number]) }

func (g *gpu) synchronize() error { return g.do("cuStreamSynchronize", g.stream) }

func (g *gpu) close() error {
	var errs []error
	for _, m := range g.modules {
		errs = append(errs, g.do("cuModuleUnload", m))
	}
	for _, m := range g.marks {
		errs = append(errs, g.do("cuEventDestroy_v2", m))
	}
	errs = append(errs, g.do("cuStreamDestroy_v2", g.stream), g.call("cuDevicePrimaryCtxRelease_v2", uintptr(g.handle)))
	g.modules = nil
	return errors.Join(errs...)
}
