package weights

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"

	"parley/model/int4"
)

// fourBits is a matrix of four-bit integers, as a directory stores it.
type fourBits struct {
	*int4.Matrix
	codes  []byte
	scales Tensor
}

// joinPacked puts one matrix in the place of the tensors that a four-bit matrix is stored as. Tensors have the names of
// the files.
func joinPacked(tensors []Tensor, scheme *int4.Scheme) ([]Tensor, error) {
	byName := make(map[string]*Tensor, len(tensors))
	for i := range tensors {
		byName[tensors[i].Name] = &tensors[i]
	}
	var matrices []Tensor
	for i := range tensors {
		module, ok := strings.CutSuffix(tensors[i].Name, scheme.Names.Codes)
		if !ok {
			continue
		}
		t, err := joinModule(byName, module, scheme)
		if err != nil {
			return nil, fmt.Errorf("module %q: %w", module, err)
		}
		matrices = append(matrices, t)
		for _, ending := range []string{scheme.Names.Zeros, scheme.Names.Scales, scheme.Names.Order, ".weight_shape"} {
			delete(byName, module+ending)
		}
		delete(byName, tensors[i].Name)
	}
	rest := slices.DeleteFunc(tensors, func(t Tensor) bool { return byName[t.Name] == nil })
	return append(rest, matrices...), nil
}

func joinModule(byName map[string]*Tensor, module string, scheme *int4.Scheme) (t Tensor, err error) {
	part := func(ending string) *int4.Integers {
		p := byName[module+ending]
		if p == nil {
			return nil
		}
		if p.Type != typeI32 && err == nil {
			err = fmt.Errorf("%s has type %s: want I32", ending, p.Type)
		}
		return &int4.Integers{Shape: p.Shape, Data: p.Data}
	}
	codes, zeros, order := part(scheme.Names.Codes), part(scheme.Names.Zeros), part(scheme.Names.Order)
	scales := byName[module+scheme.Names.Scales]
	switch {
	case err != nil:
		return t, err
	case strings.HasSuffix(module, "embed_tokens"):
		return t, fmt.Errorf("embeddings of four bits are not supported")
	case scales == nil || !slices.Contains([]DType{F32, BF16, F16}, scales.Type):
		return t, fmt.Errorf("%s is missing, or is not F32, BF16 or F16", scheme.Names.Scales)
	}
	m, err := scheme.Matrix(*codes, zeros, order, scales.Shape)
	if err != nil {
		return t, err
	}
	p := &fourBits{m, codes.Data, *scales}
	for i := range m.Groups * m.Rows {
		if v := p.scale(i); !(math.Abs(float64(v)) <= f16Max) {
			return t, fmt.Errorf("%s has %v: a scale is at most %v", scheme.Names.Scales, v, f16Max)
		}
	}
	t = Tensor{Name: module + ".weight", Type: Q8_0, Shape: []int{m.Rows, m.Cols}, packed: p}
	if m.Centred && m.Ordered {
		t.Type = Q4_0
	}
	return t, nil
}

const f16Max = 65504

func (p *fourBits) scale(i int) float32 {
	switch p.scales.Type {
	case F16:
		return FromF16(binary.LittleEndian.Uint16(p.scales.Data[2*i:]))
	case BF16:
		return FromBF16(binary.LittleEndian.Uint16(p.scales.Data[2*i:]))
	}
	return math.Float32frombits(binary.LittleEndian.Uint32(p.scales.Data[4*i:]))
}

// Narrow returns the tensor as the smallest type that has the same elements: four-bit integers with zeros of their own
// are Q5_0 then, not Q8_0, for which processors have faster kernels.
func (t Tensor) Narrow() Tensor {
	if t.packed != nil && t.packed.Ordered && t.Type == Q8_0 {
		t.Type = Q5_0
	}
	return t
}

// blocks returns the matrix as a type. Elements of a matrix that is not ordered have scales of their own, so they are
// rounded.
func (p *fourBits) blocks(kind DType) []byte {
	rowBytes, blockBytes := kind.RowBytes(p.Cols), kind.BlockBytes()
	data := make([]byte, p.Rows*rowBytes)
	write := map[DType]func(block []byte, codes *[int4.Block]byte, zero int){
		Q4_0: int4.WriteNibbles, Q5_0: int4.WriteFives, Q8_0: int4.WriteBytes,
	}[kind]
	p.Each(func(row, block int, codes *[int4.Block]byte) {
		dst := data[row*rowBytes+block*blockBytes:][:blockBytes]
		if !p.Ordered {
			packQ8_0(dst, p.values(row, block, codes))
			return
		}
		g := p.GroupOf(block * int4.Block)
		putHalf(dst, p.scale(p.Scale(g, row)))
		write(dst[2:], codes, p.Zero(g, row))
	})
	return data
}

func (p *fourBits) values(row, block int, codes *[int4.Block]byte) []float32 {
	var values [int4.Block]float32
	for i, code := range codes {
		g := p.GroupOf(block*int4.Block + i)
		values[i] = float32(int(code)-p.Zero(g, row)) * p.scale(p.Scale(g, row))
	}
	return values[:]
}
