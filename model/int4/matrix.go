package int4

import (
	"encoding/binary"
	"fmt"
	"runtime"
	"slices"
	"sync"
)

const (
	// Block is how many inputs are read at once.
	Block = 32
	// Outputs is of what the number of outputs must be a multiple.
	Outputs = 8
	// middle is the zero of codes that stand for -8 to 7.
	middle = 8
	// outputsAtOnce are read side by side, so that each cache line of codes is used whole.
	outputsAtOnce = 128
)

// Integers are a tensor of 32-bit integers.
type Integers struct {
	Shape []int
	Data  []byte
}

func (p *Integers) at(i int) uint32 { return binary.LittleEndian.Uint32(p.Data[4*i:]) }

// A Matrix is four-bit codes with their zeros, and the places of their scales.
type Matrix struct {
	// Rows counts outputs, Cols inputs, Groups what shares a scale.
	Rows, Cols, Groups int
	// Centred matrices have the zero 8 everywhere.
	Centred bool
	// Ordered matrices have groups of inputs that follow each other.
	Ordered bool

	scheme *Scheme
	group  int // inputs of a group
	codes  Integers
	zeros  *Integers // nil if all are 8
	order  *Integers // the group of each input; nil if Ordered
}

// Matrix checks the tensors of a matrix, of which zeros and order may be nil, and the shape of its scales.
func (s *Scheme) Matrix(codes Integers, zeros, order *Integers, scales []int) (*Matrix, error) {
	if len(codes.Shape) != 2 {
		return nil, fmt.Errorf("codes have the shape %v: want a matrix", codes.Shape)
	}
	m := &Matrix{scheme: s, codes: codes, zeros: zeros}
	m.Rows, m.Cols = codes.Shape[1], codes.Shape[0]
	switch s.method {
	case awq:
		m.Rows *= Outputs
	case gptq:
		m.Cols *= Outputs
	default:
		m.Rows, m.Cols = codes.Shape[0], codes.Shape[1]*Outputs
	}
	if m.Rows < 1 || m.Rows%Outputs != 0 || m.Cols < 1 || m.Cols%Block != 0 {
		return nil, fmt.Errorf("%d outputs and %d inputs are not supported: they must be multiples of %d and %d",
			m.Rows, m.Cols, Outputs, Block)
	}
	if m.group = s.group; m.group == 0 {
		m.group = m.Cols
	}
	m.Groups = (m.Cols + m.group - 1) / m.group
	if err := m.checkShapes(order, scales); err != nil {
		return nil, err
	}
	m.Centred = m.isCentred()
	return m, m.setOrder(order)
}

func (m *Matrix) checkShapes(order *Integers, scales []int) error {
	wantScales, wantZeros := []int{m.Groups, m.Rows}, []int{m.Groups, m.Rows / Outputs}
	if m.scheme.method == compressed {
		wantScales, wantZeros = []int{m.Rows, m.Groups}, []int{m.Rows / Outputs, m.Groups}
	}
	switch {
	case !slices.Equal(scales, wantScales):
		return fmt.Errorf("scales have the shape %v: want %v", scales, wantScales)
	case m.zeros == nil && m.scheme.method != compressed:
		return fmt.Errorf("%s is missing", m.scheme.Names.Zeros)
	case m.zeros != nil && !slices.Equal(m.zeros.Shape, wantZeros):
		return fmt.Errorf("zeros have the shape %v: want %v", m.zeros.Shape, wantZeros)
	case order != nil && !slices.Equal(order.Shape, []int{m.Cols}):
		return fmt.Errorf("groups of inputs have the shape %v: want [%d]", order.Shape, m.Cols)
	}
	return nil
}

// setOrder takes the groups of the inputs, unless they are those that an ordered matrix has.
func (m *Matrix) setOrder(order *Integers) error {
	m.Ordered = true
	if order == nil || m.scheme.method == awq {
		return nil
	}
	const none = -1 // what compressed-tensors writes for every input of an ordered matrix
	unset := int32(order.at(0)) == none
	for k := range m.Cols {
		g := int(int32(order.at(k)))
		if unset && g != none || !unset && (g < 0 || g >= m.Groups) {
			return fmt.Errorf("input %d has group %d of %d", k, g, m.Groups)
		}
		m.Ordered = m.Ordered && g == k/m.group
	}
	if m.Ordered = m.Ordered || unset; !m.Ordered {
		m.order = order
	}
	return nil
}

func (m *Matrix) isCentred() bool {
	if m.zeros == nil {
		return true
	}
	stored := uint32(middle-m.scheme.more) * 0x11111111
	for i := range len(m.zeros.Data) / 4 {
		if m.zeros.at(i) != stored {
			return false
		}
	}
	return true
}

// GroupOf returns the group of an input.
func (m *Matrix) GroupOf(input int) int {
	if m.order != nil {
		return int(m.order.at(input))
	}
	return input / m.group
}

// Scale returns the place of the scale of a group and an output among all.
func (m *Matrix) Scale(group, output int) int {
	if m.scheme.method == compressed {
		return output*m.Groups + group
	}
	return group*m.Rows + output
}

// Zero returns the zero of a group and an output.
func (m *Matrix) Zero(group, output int) int {
	if m.Centred {
		return middle
	}
	i, nibble := group*(m.Rows/Outputs)+output/Outputs, output%Outputs
	switch m.scheme.method {
	case awq:
		nibble = awqNibbles[nibble]
	case compressed:
		i = output/Outputs*m.Groups + group
	}
	return (int(m.zeros.at(i)>>(bits*nibble)) + m.scheme.more) & (1<<bits - 1)
}

// awqNibbles says where AWQ packs each of eight outputs.
var awqNibbles = [Outputs]int{0, 4, 1, 5, 2, 6, 3, 7}

// Each calls take with the codes of each block of inputs of each output, on all processors. The codes are the callee's
// until it returns.
func (m *Matrix) Each(take func(output, block int, codes *[Block]byte)) {
	chunks := (m.Rows + outputsAtOnce - 1) / outputsAtOnce
	workers := min(chunks, runtime.GOMAXPROCS(0))
	var group sync.WaitGroup
	for k := range workers {
		group.Go(func() { m.each(k*chunks/workers, (k+1)*chunks/workers, take) })
	}
	group.Wait()
}

// each is Each for some chunks of outputs.
func (m *Matrix) each(from, to int, take func(output, block int, codes *[Block]byte)) {
	var eight [Outputs][Block]byte
	for chunk := from * outputsAtOnce; chunk < to*outputsAtOnce; chunk += outputsAtOnce {
		for block := range m.Cols / Block {
			for n := chunk; n < min(chunk+outputsAtOnce, m.Rows); n += Outputs {
				m.read(&eight, n, block)
				for i := range eight {
					take(n+i, block, &eight[i])
				}
			}
		}
	}
}

// read sets eight to the codes of the eight outputs from n on.
func (m *Matrix) read(eight *[Outputs][Block]byte, n, block int) {
	if m.scheme.method == awq {
		for k := range Block {
			packed := m.codes.at((block*Block+k)*(m.Rows/Outputs) + n/Outputs)
			for i, nibble := range awqNibbles {
				eight[i][k] = byte(packed>>(bits*nibble)) & 15
			}
		}
		return
	}
	for k := 0; k < Block; k += 8 {
		for i := range eight {
			at := (block*Block+k)/8*m.Rows + n + i
			if m.scheme.method == compressed {
				at = (n+i)*(m.Cols/8) + (block*Block+k)/8
			}
			binary.LittleEndian.PutUint64(eight[i][k:], spread(m.codes.at(at)))
		}
	}
}

// spread returns eight bytes with one nibble each, the lowest first.
func spread(packed uint32) uint64 {
	x := uint64(packed)
	x = (x | x<<16) & 0x0000ffff0000ffff
	x = (x | x<<8) & 0x00ff00ff00ff00ff
	return (x | x<<4) & 0x0f0f0f0f0f0f0f0f
}
