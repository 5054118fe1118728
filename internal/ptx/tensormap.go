package ptx

import (
	"errors"
	"fmt"
)

// TensorMapBytes is the size of a tensor map.
const TensorMapBytes = 128

// A TensorMap describes a tensor in device memory and the box of it that one
// instruction copies; its fields are the arguments of cuTensorMapEncodeTiled,
// numbers of enumerations included. Dimension 0 is the contiguous one.
type TensorMap struct {
	DataType       int
	Address        uint64
	Dims           []uint64 // elements
	Strides        []uint64 // bytes, of dimensions 1 and up
	Box            []uint32 // elements
	ElementStrides []uint32
	Interleave     int
	Swizzle        int // 0 none, 1: 32 bytes, 2: 64 bytes, 3: 128 bytes
	L2Promotion    int
	OutOfBounds    int // 0: zeros
}

// elementBytes are the sizes of the data types, by their number.
var elementBytes = []int{1, 2, 4, 4, 8, 8, 2, 4, 8, 2, 4, 4, 4}

const tensorMapMagic = 0x50414d54

// Encode returns the descriptor as kernels take it. It refuses what the driver
// refuses; its format is this package's own.
func (m *TensorMap) Encode() ([TensorMapBytes]byte, error) {
	var out [TensorMapBytes]byte
	if err := m.check(); err != nil {
		return out, fmt.Errorf("ptx: tensor map: %w", err)
	}
	le.PutUint32(out[0:], tensorMapMagic)
	out[4], out[5], out[6], out[7] = byte(m.DataType), byte(len(m.Dims)), byte(m.Swizzle), byte(m.OutOfBounds)
	le.PutUint64(out[8:], m.Address)
	for i, n := range m.Dims {
		le.PutUint32(out[16+4*i:], uint32(n-1))
		le.PutUint16(out[72+2*i:], uint16(m.Box[i]))
		out[82+i] = byte(m.ElementStrides[i])
	}
	for i := range len(m.Dims) - 1 {
		le.PutUint64(out[40+8*i:], m.Strides[i])
	}
	return out, nil
}

func (m *TensorMap) check() error {
	rank := len(m.Dims)
	switch {
	case rank < 1 || rank > 5 || len(m.Strides) < rank-1 || len(m.Box) != rank || len(m.ElementStrides) != rank:
		return errors.New("it needs 1 to 5 dimensions, with a box and strides for each")
	case m.DataType < 0 || m.DataType >= len(elementBytes):
		return fmt.Errorf("unknown data type %d", m.DataType)
	case m.Interleave != 0:
		return errors.New("interleaved layouts are not supported")
	case m.Swizzle < 0 || m.Swizzle > 3 || m.OutOfBounds != 0:
		return fmt.Errorf("swizzle %d and fill %d are not supported", m.Swizzle, m.OutOfBounds)
	case m.Address%16 != 0:
		return fmt.Errorf("the address %#x is not a multiple of 16", m.Address)
	}
	for i := range rank {
		if m.Dims[i] < 1 || m.Dims[i] > 1<<32 || m.Box[i] < 1 || m.Box[i] > 256 {
			return fmt.Errorf("dimension %d has %d elements and a box of %d", i, m.Dims[i], m.Box[i])
		}
		if i > 0 && (m.Strides[i-1]%16 != 0 || m.Strides[i-1] == 0 || m.Strides[i-1] >= 1<<40) {
			return fmt.Errorf("the stride of dimension %d is %d, not a multiple of 16 below 2^40", i, m.Strides[i-1])
		}
		if m.ElementStrides[i] != 1 {
			return errors.New("element strides other than 1 are not supported")
		}
	}
	inner := int(m.Box[0]) * elementBytes[m.DataType]
	if inner%16 != 0 {
		return fmt.Errorf("a row of the box has %d bytes, not a multiple of 16", inner)
	}
	if span := 16 << m.Swizzle; m.Swizzle > 0 && inner != span {
		return fmt.Errorf("a row of the box has %d bytes, not the %d of its swizzle", inner, span)
	}
	return nil
}

// A tensorMap is a decoded descriptor.
type tensorMap struct {
	size    int
	swizzle int
	address uint64
	dims    []int64
	strides []uint64
	box     []int
	bytes   int // of a whole box
}

// tensorMapAt reads the descriptor at a generic address. Local memory cannot
// hold one: the copy engine does not see it.
func (w *warp) tensorMapAt(lane int, addr uint64) *tensorMap {
	if is, _ := w.resolve(lane, addr); is == spaceLocal || is == spaceShared {
		w.faultAt(lane, addr,
			"the tensor map is in memory of the thread or the block; pass it as __grid_constant__ or in global memory")
	}
	if addr%64 != 0 {
		w.faultAt(lane, addr, "the tensor map is not aligned to 64 bytes")
	}
	var d [TensorMapBytes]byte
	for i := 0; i < TensorMapBytes; i += 16 {
		copy(d[i:], w.bytes(&access{size: 16}, lane, addr+uint64(i)))
	}
	if le.Uint32(d[:]) != tensorMapMagic {
		w.faultAt(lane, addr, "there is no tensor map here")
	}
	rank := int(d[5])
	m := &tensorMap{size: elementBytes[d[4]], swizzle: int(d[6]), address: le.Uint64(d[8:])}
	m.strides = append(m.strides, uint64(m.size))
	m.bytes = m.size
	for i := range rank {
		m.dims = append(m.dims, int64(le.Uint32(d[16+4*i:]))+1)
		m.box = append(m.box, int(le.Uint16(d[72+2*i:])))
		m.bytes *= m.box[i]
		if i > 0 {
			m.strides = append(m.strides, le.Uint64(d[40+8*(i-1):]))
		}
	}
	return m
}

// swizzled applies the swizzle of mode to an address of shared memory.
func swizzled(addr, mode int) int { return addr ^ addr>>7&(1<<mode-1)<<4 }

// rows calls f for each row of the box at coords: its offset in shared memory,
// and the bytes of it, from a first one on, that lie in the tensor.
func (m *tensorMap) rows(coords []int64, f func(offset, first, n int, src uint64)) {
	row := m.box[0] * m.size
	count := m.bytes / row
	first := max(-coords[0], 0)
	last := min(int64(m.box[0]), m.dims[0]-coords[0])
	for i := range count {
		inside, src, rest := first < last, m.address, i
		for d := 1; d < len(m.dims); d++ {
			at := coords[d] + int64(rest%m.box[d])
			rest /= m.box[d]
			inside = inside && at >= 0 && at < m.dims[d]
			src += uint64(at) * m.strides[d]
		}
		if !inside {
			f(i*row, 0, 0, 0)
			continue
		}
		f(i*row, int(first)*m.size, int(last-first)*m.size, src+uint64(coords[0]+first)*uint64(m.size))
	}
}
