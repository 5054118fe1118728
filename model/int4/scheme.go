package int4

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
)

// A Scheme says how the four-bit matrices of a model are stored.
type Scheme struct {
	method method
	// group is how many inputs share a scale; 0 if all do.
	group int
	// more is how much greater zeros are than what is stored.
	more int
	// Names of the tensors of a matrix: what follows the name of its module.
	Names Names
}

// Names are the endings of the names of a matrix's tensors.
type Names struct{ Codes, Zeros, Scales, Order string }

type method uint8

const (
	awq method = iota
	gptq
	compressed
)

var (
	packedNames     = Names{".qweight", ".qzeros", ".scales", ".g_idx"}
	compressedNames = Names{".weight_packed", ".weight_zero_point", ".weight_scale", ".weight_g_idx"}
)

// quantization is quantization_config of config.json, as far as it says how four-bit weights are stored.
type quantization struct {
	Method     string `json:"quant_method"`
	Bits       *int   `json:"bits"`
	Group      *int   `json:"group_size"`
	Version    string `json:"version"`           // of AWQ
	Checkpoint string `json:"checkpoint_format"` // of GPTQ
	Format     string `json:"format"`            // of compressed-tensors
	Groups     map[string]struct {
		Weights *struct {
			Bits     int    `json:"num_bits"`
			Type     string `json:"type"`
			Strategy string `json:"strategy"`
			Group    *int   `json:"group_size"`
		} `json:"weights"`
	} `json:"config_groups"` // of compressed-tensors
}

// bits is the only width of codes.
const bits = 4

// ParseScheme reads quantization_config of config.json. It returns nil if its method does not store four-bit
// integers, and an error if it stores them in a way that is not supported.
func ParseScheme(text json.RawMessage) (*Scheme, error) {
	var q quantization
	if len(text) == 0 || json.Unmarshal(text, &q) != nil {
		return nil, nil // what is wrong with it is said by who reads all of it
	}
	var s *Scheme
	var err error
	switch {
	case q.Method == "awq":
		s, err = q.awq()
	case q.Method == "gptq":
		s, err = q.gptq()
	case q.Method == "compressed-tensors" && q.Format == "pack-quantized":
		s, err = q.compressed()
	}
	if err != nil {
		return nil, fmt.Errorf("quantization_config: %s: %w (use the original weights or a GGUF file)", q.Method, err)
	}
	return s, nil
}

func (q *quantization) awq() (*Scheme, error) {
	if q.Version != "" && q.Version != "gemm" && q.Version != "GEMM" {
		return nil, fmt.Errorf("version %q is not supported: only gemm is", q.Version)
	}
	group, err := q.groupOf(q.Bits, q.Group)
	return &Scheme{method: awq, group: group, Names: packedNames}, err
}

func (q *quantization) gptq() (*Scheme, error) {
	s := &Scheme{method: gptq, more: 1, Names: packedNames}
	switch q.Checkpoint {
	case "", "gptq":
	case "gptq_v2":
		s.more = 0
	default:
		return nil, fmt.Errorf("checkpoint_format %q is not supported: supported are gptq and gptq_v2", q.Checkpoint)
	}
	var err error
	s.group, err = q.groupOf(q.Bits, q.Group)
	return s, err
}

func (q *quantization) compressed() (*Scheme, error) {
	s := &Scheme{method: compressed, group: -1, Names: compressedNames}
	for _, name := range slices.Sorted(maps.Keys(q.Groups)) {
		w := q.Groups[name].Weights
		if w == nil {
			continue
		}
		if w.Type != "int" || w.Strategy != "group" && w.Strategy != "channel" {
			return nil, fmt.Errorf("%s has weights of type %q with scales by %q: only int by group or channel is "+
				"supported", name, w.Type, w.Strategy)
		}
		group, err := q.groupOf(&w.Bits, w.Group)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if s.group >= 0 && s.group != group {
			return nil, fmt.Errorf("%s has groups of %d inputs and another one of %d: only one size is supported", name,
				group, s.group)
		}
		s.group = group
	}
	s.group = max(s.group, 0)
	return s, nil
}

// groupOf checks the width of codes and returns how many inputs a group has, 0 for all.
func (q *quantization) groupOf(width, group *int) (int, error) {
	if width == nil || *width != bits {
		return 0, fmt.Errorf("weights of %s bits are not supported: only those of %d are", number(width), bits)
	}
	switch {
	case group == nil || *group == -1:
		return 0, nil
	case *group < Block || *group%Block != 0:
		return 0, fmt.Errorf("group_size %d is not supported: it must be a multiple of %d, or -1", *group, Block)
	}
	return *group, nil
}

func number(n *int) string {
	if n == nil {
		return "unknown"
	}
	return fmt.Sprint(*n)
}
