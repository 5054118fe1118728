package f8

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// quantization is quantization_config of config.json, as far as it says how
// E4M3 weights are stored. Static scales of activations (activation_scheme,
// activation_scale_ub, the tensors input_scale and activation_scale) and of keys
// and values (k_scale, v_scale) are left unread: activations are scaled row by
// row while they are computed, and the pool of keys and values has a type of
// its own.
type quantization struct {
	Method string                 `json:"quant_method"`
	Format string                 `json:"format"`            // of compressed-tensors
	Floats string                 `json:"fmt"`               // of fp8: e4m3 where it is not given
	Block  []int                  `json:"weight_block_size"` // of fp8: null for one scale in all
	Groups map[string]moduleGroup `json:"config_groups"`     // of compressed-tensors
}

// moduleGroup is how compressed-tensors treats one set of modules.
type moduleGroup struct {
	Weights *struct {
		Bits      int             `json:"num_bits"`
		Type      string          `json:"type"`
		Strategy  string          `json:"strategy"`
		Symmetric *bool           `json:"symmetric"`
		Block     json.RawMessage `json:"block_structure"`
	} `json:"weights"`
}

// A Scheme says how the scales of a model's E4M3 matrices may be stored:
// one for each 128 rows and 128 columns, or else one for each row or for all.
type Scheme struct{ blocks, rows bool }

// ParseScheme reads quantization_config of config.json. It returns nil if there is none,
// and an error if the weights are stored in a way that is not supported.
func ParseScheme(text json.RawMessage) (*Scheme, error) {
	if len(text) == 0 || string(text) == "null" {
		return nil, nil
	}
	var q quantization
	if err := json.Unmarshal(text, &q); err != nil {
		return nil, fmt.Errorf("quantization_config: %w", err)
	}
	var s *Scheme
	var err error
	switch q.Method {
	case "fp8":
		s, err = q.fp8()
	case "compressed-tensors":
		s, err = q.compressed()
	case "fbgemm_fp8":
		s = &Scheme{rows: true}
	default:
		err = fmt.Errorf("quant_method %q is not supported: supported are awq, gptq, fp8, compressed-tensors and "+
			"fbgemm_fp8", q.Method)
	}
	if err != nil {
		return nil, fmt.Errorf("quantization_config: %w (use the original weights or a GGUF file)", err)
	}
	return s, nil
}

func (q *quantization) fp8() (*Scheme, error) {
	if q.Floats != "" && !strings.HasPrefix(strings.ToLower(q.Floats), "e4m3") {
		return nil, fmt.Errorf("fmt %q is not supported: only e4m3 is", q.Floats)
	}
	if q.Block != nil && !slices.Equal(q.Block, []int{Group, Group}) {
		return nil, fmt.Errorf("weight_block_size %v is not supported: only [%d, %d] is", q.Block, Group, Group)
	}
	return &Scheme{blocks: q.Block != nil, rows: q.Block == nil}, nil
}

func (q *quantization) compressed() (*Scheme, error) {
	// The format had another name at first.
	if q.Format != "float-quantized" && q.Format != "naive-quantized" {
		return nil, fmt.Errorf("format %q is not supported: only float-quantized is", q.Format)
	}
	s := &Scheme{}
	for _, name := range slices.Sorted(maps.Keys(q.Groups)) {
		w := q.Groups[name].Weights
		switch {
		case w == nil:
			continue
		case w.Bits != 8 || w.Type != "float" || w.Symmetric != nil && !*w.Symmetric:
			return nil, fmt.Errorf("%s has weights of %d bits and type %q: only symmetric ones of 8 bits and type "+
				"float are supported", name, w.Bits, w.Type)
		case w.Strategy == "tensor" || w.Strategy == "channel":
			s.rows = true
		case w.Strategy == "block" && isBlock(w.Block):
			s.blocks = true
		default:
			return nil, fmt.Errorf("%s has scales by %s %s: only tensor, channel and block [%d, %d] are supported",
				name, w.Strategy, w.Block, Group, Group)
		}
	}
	return s, nil
}

// isBlock reads the size of a block, which is a list or a text such as "128x128".
func isBlock(text json.RawMessage) bool {
	var list []int
	if json.Unmarshal(text, &list) == nil {
		return slices.Equal(list, []int{Group, Group})
	}
	var words string
	return json.Unmarshal(text, &words) == nil && words == fmt.Sprintf("%dx%d", Group, Group)
}

// A Source is what the scales of a matrix are made of: stored has a row of
// cols scales for each number of rows.
type Source struct {
	stored []float32
	rows   int
	cols   int
}

// scaleMax is the greatest scale: more would make the greatest code infinite as BF16.
const scaleMax = 0x1.fep127 / greatest

// Source checks the stored scales of a matrix of the given size, which have the
// given shape.
func (s *Scheme) Source(rows, cols int, shape []int, stored []float32) (*Source, error) {
	source, blocks := &Source{stored: stored, rows: 1, cols: 1}, []int{Groups(rows), Groups(cols)}
	switch {
	case s.blocks && slices.Equal(shape, blocks):
		source.rows, source.cols = Group, blocks[1]
	case s.rows && len(stored) == 1:
		source.rows = rows
	case s.rows && (slices.Equal(shape, []int{rows, 1}) || slices.Equal(shape, []int{rows})):
	default:
		return nil, fmt.Errorf("shape %v does not fit a matrix of %v: want %s", shape, []int{rows, cols},
			s.wanted(rows, blocks))
	}
	for i, v := range stored {
		if !(v >= 0) || v > scaleMax {
			return nil, fmt.Errorf("number %d is %v: a scale is from 0 to %.3g", i, v, float32(scaleMax))
		}
	}
	return source, nil
}

// Scales returns one scale for each row and group of a matrix of the size that
// the source was checked for.
func (s *Source) Scales(rows, cols int) []float32 {
	n := Groups(cols)
	scales := make([]float32, rows*n)
	for i := range rows {
		stored, row := s.stored[i/s.rows*s.cols:][:s.cols], scales[i*n:][:n]
		if copy(row, stored) < n {
			for g := range row {
				row[g] = stored[0]
			}
		}
	}
	return scales
}

func (s *Scheme) wanted(rows int, blocks []int) string {
	var list []string
	if s.blocks {
		list = append(list, fmt.Sprint(blocks))
	}
	if s.rows {
		list = append(list, "[1]", fmt.Sprint([]int{rows, 1}))
	}
	return strings.Join(list, " or ")
}
