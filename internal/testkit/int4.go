package testkit

import (
	"encoding/binary"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// An Int4Layout is a way in which published directories store weights of four bits.
type Int4Layout struct {
	// Config is the quantization_config.
	Config string
	// Zeros is set if each group has a zero of its own, ActOrder if inputs are in any group.
	Zeros, ActOrder bool
	// zeroLess is how much less than a zero is stored.
	zeroLess int
}

// Int4Layouts are these ways, by name.
var Int4Layouts = map[string]Int4Layout{
	"awq": {Zeros: true, Config: `{"bits":4,"group_size":32,"modules_to_not_convert":["lm_head"],"quant_method":"awq",
		"version":"gemm","zero_point":true}`},
	"gptq": {zeroLess: 1, Config: `{"bits":4,"checkpoint_format":"gptq","desc_act":false,"group_size":32,
		"quant_method":"gptq","sym":true}`},
	"gptq zeros": {zeroLess: 1, Zeros: true, Config: `{"bits":4,"group_size":32,"quant_method":"gptq","sym":false}`},
	"gptq v2":    {Zeros: true, Config: `{"bits":4,"checkpoint_format":"gptq_v2","group_size":32,"quant_method":"gptq"}`},
	"gptq act-order": {zeroLess: 1, ActOrder: true, Config: `{"bits":4,"desc_act":true,"group_size":32,
		"quant_method":"gptq","sym":true}`},
	"compressed": {Config: `{"config_groups":{"group_0":{"targets":["Linear"],"weights":{"group_size":32,"num_bits":4,
		"strategy":"group","symmetric":true,"type":"int"}}},"format":"pack-quantized","ignore":["lm_head"],
		"quant_method":"compressed-tensors"}`},
	"compressed zeros": {Zeros: true, Config: `{"config_groups":{"group_0":{"targets":["Linear"],"weights":{
		"group_size":32,"num_bits":4,"strategy":"group","symmetric":false,"type":"int"}}},"format":"pack-quantized",
		"quant_method":"compressed-tensors"}`},
}

const int4Group = 32

// Int4Directories writes a golden or a synthetic checkpoint twice: stored has the matrices of its layers as four-bit
// integers in one of the Int4Layouts, widened has the same numbers as F32.
func Int4Directories(t testing.TB, golden, name string) (stored, widened string) {
	t.Helper()
	layout := Int4Layouts[name]
	packed, wide := map[string]StoredTensor{}, map[string]StoredTensor{}
	from := Golden(golden)
	if _, err := os.Stat(from); err != nil {
		from = SyntheticModel(t, golden)
	}
	for name, tensor := range ReadSafetensors(t, filepath.Join(from, "model.safetensors")) {
		if !strings.Contains(name, "_proj.weight") {
			packed[name], wide[name] = tensor, tensor
			continue
		}
		m := roundInt4(tensor, &layout)
		module := strings.TrimSuffix(name, ".weight")
		wide[name] = StoredTensor{Type: "F32", Shape: tensor.Shape, Data: m.values}
		if strings.HasPrefix(layout.Config, `{"config_groups"`) {
			m.compress(packed, module, &layout)
		} else {
			m.pack(packed, module, &layout, strings.Contains(layout.Config, "awq"))
		}
	}
	stored, widened = quantizedDirectory(t, from, layout.Config), quantizedDirectory(t, from, "null")
	WriteSafetensors(t, filepath.Join(stored, "model.safetensors"), packed)
	WriteSafetensors(t, filepath.Join(widened, "model.safetensors"), wide)
	return stored, widened
}

// int4Matrix is a matrix of four-bit integers: [rows][cols] codes, and of [rows][groups] scales and zeros.
type int4Matrix struct {
	rows, cols, groups  int
	codes, zeros, order []int
	scales              []uint16
	values              []byte
}

func roundInt4(t StoredTensor, layout *Int4Layout) *int4Matrix {
	m := &int4Matrix{rows: t.Shape[0], cols: t.Shape[1], groups: t.Shape[1] / int4Group}
	m.codes, m.order = make([]int, m.rows*m.cols), make([]int, m.cols)
	m.values = make([]byte, 4*m.rows*m.cols)
	for k := range m.order {
		m.order[k] = k / int4Group
		if layout.ActOrder {
			m.order[k] = (7*k + 3) % m.cols / int4Group
		}
	}
	for r := range m.rows {
		for g := range m.groups {
			m.roundGroup(t, r, g, layout.Zeros)
		}
	}
	return m
}

func (m *int4Matrix) roundGroup(t StoredTensor, r, g int, zeros bool) {
	at := func(k int) float64 {
		return float64(math.Float32frombits(uint32(binary.LittleEndian.Uint16(t.Data[2*(r*m.cols+k):])) << 16))
	}
	low, high := 0.0, 0.0
	for k, group := range m.order {
		if group == g {
			low, high = min(low, at(k)), max(high, at(k))
		}
	}
	zero, scale := 8, max(high/7, -low/8)
	if zeros {
		scale = (high - low) / 15
	}
	bits, scale := shortScale(max(scale, 1e-3))
	if zeros {
		zero = min(max(int(math.Round(-low/scale)), 0), 15)
	}
	m.scales, m.zeros = append(m.scales, bits), append(m.zeros, zero)
	for k, group := range m.order {
		if group == g {
			code := min(max(int(math.Round(at(k)/scale))+zero, 0), 15)
			m.codes[r*m.cols+k] = code
			value := math.Float32bits(float32(float64(code-zero) * scale))
			binary.LittleEndian.PutUint32(m.values[4*(r*m.cols+k):], value)
		}
	}
}

// shortScale rounds a number of the range of normal F16 to one, and returns its bits, too.
func shortScale(v float64) (uint16, float64) {
	fraction, exponent := math.Frexp(v)
	mantissa := int(math.Round(fraction * 2048)) // 1024 to 2048
	return uint16((exponent+13)<<10 + mantissa), math.Ldexp(float64(mantissa), exponent-11)
}

// ints are packed eight in an integer of 32 bits.
func ints(n int, nibble func(i, j int) int) []byte {
	var data []byte
	for i := range n {
		packed := uint32(0)
		for j := range 8 {
			packed |= uint32(nibble(i, j)&15) << (4 * j)
		}
		data = binary.LittleEndian.AppendUint32(data, packed)
	}
	return data
}

// pack stores the matrix as AWQ or GPTQ does.
func (m *int4Matrix) pack(to map[string]StoredTensor, module string, layout *Int4Layout, awq bool) {
	across := m.rows / 8
	output := func(i, j int) int {
		if awq {
			j = [8]int{0, 2, 4, 6, 1, 3, 5, 7}[j]
		}
		return i%across*8 + j
	}
	codes := StoredTensor{Type: "I32", Shape: []int{m.cols / 8, m.rows}}
	if awq {
		codes.Shape = []int{m.cols, across}
		codes.Data = ints(m.cols*across, func(i, j int) int { return m.codes[output(i, j)*m.cols+i/across] })
	} else {
		codes.Data = ints(m.cols/8*m.rows, func(i, j int) int { return m.codes[i%m.rows*m.cols+i/m.rows*8+j] })
	}
	to[module+".qweight"] = codes
	to[module+".qzeros"] = StoredTensor{Type: "I32", Shape: []int{m.groups, across},
		Data: ints(m.groups*across, func(i, j int) int {
			return m.zeros[output(i, j)*m.groups+i/across] - layout.zeroLess
		})}
	scales := StoredTensor{Type: "F16", Shape: []int{m.groups, m.rows}}
	for g := range m.groups {
		for r := range m.rows {
			scales.Data = binary.LittleEndian.AppendUint16(scales.Data, m.scales[r*m.groups+g])
		}
	}
	to[module+".scales"] = scales
	if !awq {
		order := StoredTensor{Type: "I32", Shape: []int{m.cols}}
		for _, g := range m.order {
			order.Data = binary.LittleEndian.AppendUint32(order.Data, uint32(g))
		}
		to[module+".g_idx"] = order
	}
}

// compress stores the matrix as compressed-tensors does.
func (m *int4Matrix) compress(to map[string]StoredTensor, module string, layout *Int4Layout) {
	to[module+".weight_packed"] = StoredTensor{Type: "I32", Shape: []int{m.rows, m.cols / 8},
		Data: ints(m.rows*m.cols/8, func(i, j int) int { return m.codes[8*i+j] })}
	scales := StoredTensor{Type: "F16", Shape: []int{m.rows, m.groups}}
	for _, bits := range m.scales {
		scales.Data = binary.LittleEndian.AppendUint16(scales.Data, bits)
	}
	to[module+".weight_scale"] = scales
	shape := StoredTensor{Type: "I64", Shape: []int{2}}
	shape.Data = binary.LittleEndian.AppendUint64(shape.Data, uint64(m.rows))
	shape.Data = binary.LittleEndian.AppendUint64(shape.Data, uint64(m.cols))
	to[module+".weight_shape"] = shape
	if layout.Zeros {
		to[module+".weight_zero_point"] = StoredTensor{Type: "I32", Shape: []int{m.rows / 8, m.groups},
			Data: ints(m.rows/8*m.groups, func(i, j int) int {
				return m.zeros[(i/m.groups*8+j)*m.groups+i%m.groups]
			})}
	}
}
