package weights

import (
	"encoding/binary"
	"fmt"
	"math"
)

// The types of metadata values, as numbered in the file.
const (
	metaUint8 uint32 = iota
	metaInt8
	metaUint16
	metaInt16
	metaUint32
	metaInt32
	metaFloat32
	metaBool
	metaString
	metaArray
	metaUint64
	metaInt64
	metaFloat64
)

// metaSizes is how many bytes one value of a type takes at least; of the
// fixed types, exactly.
var metaSizes = [...]int{1, 1, 2, 2, 4, 4, 4, 1, 8, 12, 8, 8, 8}

// metaDepthMax bounds arrays inside arrays, which real files do not have.
const metaDepthMax = 4

// ggufReader walks a GGUF file from the front. Each read is checked against
// the bytes that are left.
type ggufReader struct {
	// data is the part of the file that may hold metadata and the tensor
	// list; file is all of it.
	data        []byte
	file        []byte
	pos         int
	tensorCount int
	metaCount   int
}

func (r *ggufReader) take(n int) ([]byte, error) {
	if n < 0 || n > len(r.data)-r.pos {
		return nil, fmt.Errorf("%d bytes wanted at byte %d, but the file ends at %d: it is cut or damaged", n, r.pos,
			len(r.data))
	}
	b := r.data[r.pos : r.pos+n]
	r.pos += n
	return b, nil
}

func (r *ggufReader) u32() (uint32, error) {
	b, err := r.take(4)
	if err != nil {
		return 0, err
	}
	return binary.LittleEndian.Uint32(b), nil
}

func (r *ggufReader) u64() (uint64, error) {
	b, err := r.take(8)
	if err != nil {
		return 0, err
	}
	return binary.LittleEndian.Uint64(b), nil
}

// str reads a text of at most limit bytes.
func (r *ggufReader) str(limit uint64) (string, error) {
	n, err := r.u64()
	if err != nil {
		return "", err
	}
	if n > limit || n > uint64(len(r.data)-r.pos) {
		return "",
			fmt.Errorf("text of %d bytes at byte %d is longer than allowed (%d) or than the rest of the file (%d)", n,
				r.pos, limit, len(r.data)-r.pos)
	}
	b, err := r.take(int(n))
	return string(b), err
}

// count reads a number of things that take at least size bytes each, and
// refuses one the rest of the file cannot hold.
func (r *ggufReader) count(what string, size int) (int, error) {
	n, err := r.u64()
	if err != nil {
		return 0, err
	}
	if left := len(r.data) - r.pos; n > uint64(left/size) {
		return 0, fmt.Errorf("%d %s cannot fit in the %d bytes that are left", n, what, left)
	}
	return int(n), nil
}

func (r *ggufReader) header() error {
	magic, err := r.take(4)
	if err != nil {
		return err
	}
	if string(magic) != ggufMagic {
		return fmt.Errorf("not a gguf file: it begins with %q", magic)
	}
	version, err := r.u32()
	if err != nil {
		return err
	}
	if version&0xffff == 0 && version != 0 {
		return fmt.Errorf("the file is big-endian: convert it to little-endian with llama.cpp's gguf_convert_endian.py")
	}
	if version != 2 && version != 3 {
		return fmt.Errorf("gguf version %d is not supported: convert the model to version 3", version)
	}
	const tensorEntryMin, metaEntryMin = 8 + 4 + 4 + 8, 8 + 4 + 1
	if r.tensorCount, err = r.count("tensors", tensorEntryMin); err != nil {
		return err
	}
	r.metaCount, err = r.count("metadata entries", metaEntryMin)
	return err
}

func (r *ggufReader) metadata() (map[string]any, error) {
	meta := map[string]any{}
	for range r.metaCount {
		key, err := r.str(ggufNameMax)
		if err != nil {
			return nil, fmt.Errorf("metadata key: %w", err)
		}
		if _, dup := meta[key]; dup {
			return nil, fmt.Errorf("metadata key %q appears twice", key)
		}
		kind, err := r.u32()
		if err != nil {
			return nil, fmt.Errorf("metadata %q: %w", key, err)
		}
		value, err := r.value(kind, 0)
		if err != nil {
			return nil, fmt.Errorf("metadata %q: %w", key, err)
		}
		meta[key] = value
	}
	return meta, nil
}

func (r *ggufReader) value(kind uint32, depth int) (any, error) {
	switch {
	case kind == metaString:
		return r.str(math.MaxUint64)
	case kind == metaArray:
		return r.array(depth + 1)
	case int(kind) >= len(metaSizes):
		return nil, fmt.Errorf("unknown value type %d", kind)
	}
	b, err := r.take(metaSizes[kind])
	if err != nil {
		return nil, err
	}
	return fixedValue(kind, b)
}

func fixedValue(kind uint32, b []byte) (any, error) {
	le := binary.LittleEndian
	switch kind {
	case metaUint8:
		return b[0], nil
	case metaInt8:
		return int8(b[0]), nil
	case metaUint16:
		return le.Uint16(b), nil
	case metaInt16:
		return int16(le.Uint16(b)), nil
	case metaUint32:
		return le.Uint32(b), nil
	case metaInt32:
		return int32(le.Uint32(b)), nil
	case metaFloat32:
		return math.Float32frombits(le.Uint32(b)), nil
	case metaUint64:
		return le.Uint64(b), nil
	case metaInt64:
		return int64(le.Uint64(b)), nil
	case metaFloat64:
		return math.Float64frombits(le.Uint64(b)), nil
	}
	if b[0] > 1 {
		return nil, fmt.Errorf("a bool is stored as %d", b[0])
	}
	return b[0] == 1, nil
}

func (r *ggufReader) array(depth int) (any, error) {
	if depth > metaDepthMax {
		return nil, fmt.Errorf("arrays are nested deeper than %d", metaDepthMax)
	}
	kind, err := r.u32()
	if err != nil {
		return nil, err
	}
	if int(kind) >= len(metaSizes) {
		return nil, fmt.Errorf("unknown array type %d", kind)
	}
	n, err := r.count("array elements", metaSizes[kind])
	if err != nil {
		return nil, err
	}
	switch kind {
	case metaString:
		return collect[string](r, kind, n, depth)
	case metaArray:
		return collect[any](r, kind, n, depth)
	case metaUint8:
		return collect[uint8](r, kind, n, depth)
	case metaInt8:
		return collect[int8](r, kind, n, depth)
	case metaUint16:
		return collect[uint16](r, kind, n, depth)
	case metaInt16:
		return collect[int16](r, kind, n, depth)
	case metaUint32:
		return collect[uint32](r, kind, n, depth)
	case metaInt32:
		return collect[int32](r, kind, n, depth)
	case metaFloat32:
		return collect[float32](r, kind, n, depth)
	case metaUint64:
		return collect[uint64](r, kind, n, depth)
	case metaInt64:
		return collect[int64](r, kind, n, depth)
	case metaFloat64:
		return collect[float64](r, kind, n, depth)
	default:
		return collect[bool](r, kind, n, depth)
	}
}

func collect[T any](r *ggufReader, kind uint32, n, depth int) (any, error) {
	out := make([]T, n)
	for i := range out {
		v, err := r.value(kind, depth)
		if err != nil {
			return nil, fmt.Errorf("array element %d of %d: %w", i, n, err)
		}
		out[i] = v.(T)
	}
	return out, nil
}

// ggufInt returns a metadata value that is a whole number of any width.
func ggufInt(meta map[string]any, key string) (int64, bool) {
	switch v := meta[key].(type) {
	case uint8:
		return int64(v), true
	case int8:
		return int64(v), true
	case uint16:
		return int64(v), true
	case int16:
		return int64(v), true
	case uint32:
		return int64(v), true
	case int32:
		return int64(v), true
	case int64:
		return v, true
	case uint64:
		return int64(min(v, math.MaxInt64)), true
	}
	return 0, false
}

// ggufFloat returns a metadata value that is a number.
func ggufFloat(meta map[string]any, key string) (float64, bool) {
	switch v := meta[key].(type) {
	case float32:
		return float64(v), true
	case float64:
		return v, true
	}
	n, ok := ggufInt(meta, key)
	return float64(n), ok
}
