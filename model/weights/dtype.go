package weights

import (
	"fmt"
	"math"
	"strings"
)

// A DType is the storage type of a tensor's elements. The values below 1000
// are the type numbers of GGUF files.
type DType uint32

// The types that Parley computes with.
const (
	F32  DType = 0
	F16  DType = 1
	Q4_0 DType = 2
	Q4_1 DType = 3
	Q5_0 DType = 6
	Q5_1 DType = 7
	Q8_0 DType = 8
	Q4_K DType = 12
	Q5_K DType = 13
	Q6_K DType = 14
	BF16 DType = 30
	// F8E4M3 has scales beside its elements; see [Tensor].
	F8E4M3 DType = 1005
)

// Types that exist in model files and can be listed, but not computed with.
const (
	typeI32    DType = 26
	typeBool   DType = 1000
	typeU8     DType = 1001
	typeU16    DType = 1002
	typeU32    DType = 1003
	typeU64    DType = 1004
	typeF8E5M2 DType = 1006
	typeI8     DType = 24
	typeI16    DType = 25
	typeI64    DType = 27
	typeF64    DType = 28
)

// blockLayout says how many elements share one block and how long it is.
type blockLayout struct {
	name     string
	len      int
	bytes    int
	computed bool
}

var layouts = map[DType]blockLayout{
	F32:  {"F32", 1, 4, true},
	F16:  {"F16", 1, 2, true},
	BF16: {"BF16", 1, 2, true},
	Q4_0: {"Q4_0", 32, 18, true},
	Q4_1: {"Q4_1", 32, 20, true},
	Q5_0: {"Q5_0", 32, 22, true},
	Q5_1: {"Q5_1", 32, 24, true},
	Q8_0: {"Q8_0", 32, 34, true},
	Q4_K: {"Q4_K", 256, 144, true},
	Q5_K: {"Q5_K", 256, 176, true},
	Q6_K: {"Q6_K", 256, 210, true},

	F8E4M3: {"F8_E4M3", 1, 1, true},

	9:          {"Q8_1", 32, 36, false},
	10:         {"Q2_K", 256, 84, false},
	11:         {"Q3_K", 256, 110, false},
	15:         {"Q8_K", 256, 292, false},
	16:         {"IQ2_XXS", 256, 66, false},
	17:         {"IQ2_XS", 256, 74, false},
	18:         {"IQ3_XXS", 256, 98, false},
	19:         {"IQ1_S", 256, 50, false},
	20:         {"IQ4_NL", 32, 18, false},
	21:         {"IQ3_S", 256, 110, false},
	22:         {"IQ2_S", 256, 82, false},
	23:         {"IQ4_XS", 256, 136, false},
	typeI8:     {"I8", 1, 1, false},
	typeI16:    {"I16", 1, 2, false},
	typeI32:    {"I32", 1, 4, false},
	typeI64:    {"I64", 1, 8, false},
	typeF64:    {"F64", 1, 8, false},
	29:         {"IQ1_M", 256, 56, false},
	34:         {"TQ1_0", 256, 54, false},
	35:         {"TQ2_0", 256, 66, false},
	39:         {"MXFP4", 32, 17, false},
	40:         {"NVFP4", 64, 36, false},
	typeBool:   {"BOOL", 1, 1, false},
	typeU8:     {"U8", 1, 1, false},
	typeU16:    {"U16", 1, 2, false},
	typeU32:    {"U32", 1, 4, false},
	typeU64:    {"U64", 1, 8, false},
	typeF8E5M2: {"F8_E5M2", 1, 1, false},
}

// String returns the name llama.cpp and safetensors give the type, such as
// "Q4_K".
func (t DType) String() string {
	if l, ok := layouts[t]; ok {
		return l.name
	}
	return fmt.Sprintf("type %d", uint32(t))
}

// MarshalText writes the type's name, so that JSON has it too.
func (t DType) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// Known reports whether the size of the type's elements is known, so that a
// tensor of this type can be listed.
func (t DType) Known() bool { _, ok := layouts[t]; return ok }

// Computable reports whether tensors of the type can be computed with.
func (t DType) Computable() bool { return layouts[t].computed }

// BlockLen returns how many elements of a row share one block; a row's length
// must be a multiple of it. It is 0 for a type that is not [DType.Known].
func (t DType) BlockLen() int { return layouts[t].len }

// BlockBytes returns the length of one block.
func (t DType) BlockBytes() int { return layouts[t].bytes }

// RowBytes returns how many bytes a row of cols elements takes. It is 0 when
// the type cannot hold such a row.
func (t DType) RowBytes(cols int) int {
	l := layouts[t]
	if l.len == 0 || cols < 0 || cols%l.len != 0 || cols/l.len > math.MaxInt/l.bytes {
		return 0
	}
	return cols / l.len * l.bytes
}

// ParseDType returns the type with the given name, in any case: "q8_0", "BF16".
func ParseDType(name string) (DType, error) {
	for t, l := range layouts {
		if strings.EqualFold(l.name, name) {
			return t, nil
		}
	}
	return 0, fmt.Errorf("unknown tensor type %q: use one of %s", name, strings.Join(computableNames(), ", "))
}

// computableNames lists the types that a model can be converted to.
func computableNames() []string {
	var names []string
	for _, t := range []DType{F32, F16, BF16, Q8_0, Q6_K, Q5_K, Q5_1, Q5_0, Q4_K, Q4_1, Q4_0} {
		names = append(names, t.String())
	}
	return names
}
