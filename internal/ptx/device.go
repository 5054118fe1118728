package ptx

import (
	"fmt"
	"maps"
	"runtime"
	"slices"
	"sort"
	"sync"
)

// New returns a device without allocations.
func New(options Options) *Device {
	if options.Workers <= 0 {
		options.Workers = runtime.GOMAXPROCS(0)
	}
	if options.Multiprocs <= 0 {
		options.Multiprocs = 132
	}
	if options.SharedMax <= 0 {
		options.SharedMax = 227 << 10
	}
	if options.Instructions <= 0 {
		options.Instructions = 1 << 32
	}
	d := &Device{options: options, next: globalWindow, images: map[*Module]map[string]uint64{},
		idle: map[shape]*sync.Pool{}}
	d.memory.Store(&[]*allocation{})
	return d
}

// Alloc reserves memory, aligned to 256 bytes and filled with 0xFF, so that
// what is read before it is written is a NaN and not a convenient zero.
func (d *Device) Alloc(bytes int) (uint64, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.alloc(bytes)
}

func (d *Device) alloc(bytes int) (uint64, error) {
	if bytes <= 0 {
		return 0, fmt.Errorf("ptx: allocation of %d bytes", bytes)
	}
	if limit := d.options.MemoryBytes; limit > 0 && d.used+bytes > limit {
		return 0, fmt.Errorf("ptx: out of memory: %d bytes asked for, %d of %d in use", bytes, d.used, limit)
	}
	a := &allocation{base: d.next, size: uint64(bytes), data: takeBuffer(bytes)}
	poison(a.data)
	d.next += uint64(align(bytes, 256) + guardBytes)
	d.used += bytes
	list := append(slices.Clone(*d.memory.Load()), a)
	d.memory.Store(&list)
	return a.base, nil
}

// buffers keeps the memory of allocations that were given back, by size:
// memory that the system has not to map again is several times as fast.
var buffers sync.Map

func takeBuffer(bytes int) []byte {
	if pool, ok := buffers.Load(bytes); ok {
		if data, ok := pool.(*sync.Pool).Get().(*[]byte); ok {
			return *data
		}
	}
	return make([]byte, bytes)
}

func giveBuffer(data []byte) {
	pool, _ := buffers.LoadOrStore(len(data), new(sync.Pool))
	pool.(*sync.Pool).Put(&data)
}

// poison fills memory with 0xFF.
func poison(data []byte) {
	if len(data) > 0 {
		data[0] = 0xff
	}
	for n := 1; n < len(data); { // from bytes that the processor's cache still has
		n += copy(data[n:], data[:min(n, 16<<10)])
	}
}

// Free gives an allocation back; addr must be what Alloc returned.
func (d *Device) Free(addr uint64) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	a := d.find(addr)
	if a == nil || a.free || a.base != addr {
		return fmt.Errorf("ptx: free of %#x, which is not the start of an allocation", addr)
	}
	d.used -= int(a.size)
	giveBuffer(a.data)
	list := slices.Clone(*d.memory.Load())
	dead := 0
	for i, old := range list {
		if old == a {
			list[i] = &allocation{base: a.base, size: a.size, free: true}
		}
		if list[i].free {
			dead++
		}
	}
	if dead > tombstones {
		list = slices.DeleteFunc(list, func(a *allocation) bool { return a.free })
	}
	d.memory.Store(&list)
	return nil
}

// Used returns the bytes that are allocated.
func (d *Device) Used() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.used
}

// find returns the allocation with the highest base at or below addr.
func (d *Device) find(addr uint64) *allocation { return findIn(*d.memory.Load(), addr) }

func findIn(list []*allocation, addr uint64) *allocation {
	i := sort.Search(len(list), func(i int) bool { return list[i].base > addr })
	if i == 0 {
		return nil
	}
	return list[i-1]
}

// Write copies bytes from the host to the device.
func (d *Device) Write(addr uint64, from []byte) error {
	to, err := d.Bytes(addr, len(from))
	if err == nil {
		copy(to, from)
	}
	return err
}

// Read copies bytes from the device to the host.
func (d *Device) Read(addr uint64, to []byte) error {
	from, err := d.Bytes(addr, len(to))
	if err == nil {
		copy(to, from)
	}
	return err
}

// Bytes returns the memory behind device addresses, for a driver that fills or
// copies on the device. It stays valid until Free.
func (d *Device) Bytes(addr uint64, n int) ([]byte, error) {
	if n == 0 {
		return nil, nil
	}
	a := d.find(addr)
	if reason := outside(a, addr, n); reason != "" {
		return nil, fmt.Errorf("ptx: host access of %d bytes at %#x: %s", n, addr, reason)
	}
	return a.data[addr-a.base:][:n], nil
}

// outside says why n bytes at addr do not lie in a, or nothing.
func outside(a *allocation, addr uint64, n int) string {
	switch {
	case a == nil:
		return "no allocation there"
	case a.free && addr-a.base < a.size:
		return fmt.Sprintf("use after free of the %d bytes at %#x", a.size, a.base)
	case addr-a.base >= a.size+guardBytes:
		return "no allocation there"
	case addr-a.base+uint64(n) > a.size:
		return fmt.Sprintf("%d bytes past the end of the %d bytes at %#x", addr-a.base+uint64(n)-a.size, a.size, a.base)
	}
	return ""
}

// Global returns the address and size of a module's variable.
func (d *Device) Global(m *Module, name string) (uint64, int, error) {
	v := m.variables[name]
	if v == nil || v.Space == "shared" {
		return 0, 0, fmt.Errorf("ptx: the module has no variable %q", name)
	}
	image, err := d.image(m)
	return image[name], v.Size, err
}

// image places a module's variables in device memory, once.
func (d *Device) image(m *Module) (map[string]uint64, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if image, ok := d.images[m]; ok {
		return image, nil
	}
	image := map[string]uint64{}
	for name, v := range m.variables {
		if v.Space == "shared" {
			continue
		}
		addr, err := d.alloc(max(v.Size, 1))
		if err != nil {
			return nil, err
		}
		image[name] = addr
		data := d.find(addr).data
		clear(data)
		copy(data, v.Initial)
	}
	for _, v := range m.variables {
		for _, r := range v.Refs {
			if target, ok := image[r.Symbol]; ok && image[v.Name] != 0 {
				copy(d.find(image[v.Name]).data[r.At:], U64(target+uint64(r.Add)))
			}
		}
	}
	d.images[m] = image
	return image, nil
}

// Unload frees a module's variables.
func (d *Device) Unload(m *Module) error {
	d.mu.Lock()
	image := d.images[m]
	delete(d.images, m)
	d.mu.Unlock()
	d.launch.Lock()
	maps.DeleteFunc(d.idle, func(s shape, _ *sync.Pool) bool { return s.k.module == m })
	d.launch.Unlock()
	for _, addr := range image {
		if err := d.Free(addr); err != nil {
			return err
		}
	}
	return nil
}
