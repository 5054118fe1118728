package weights

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
)

// safetensorsHeaderMax is the format's own limit on its JSON header.
const safetensorsHeaderMax = 100_000_000

// parseSafetensors reads one safetensors file: eight bytes that say how long
// the JSON header is, the header, and the data its offsets point into. The
// tensors keep their own names.
func parseSafetensors(data []byte) ([]Tensor, map[string]any, error) {
	if len(data) < 8 {
		return nil, nil, fmt.Errorf("not a safetensors file: %d bytes are too short for a header length", len(data))
	}
	n := binary.LittleEndian.Uint64(data)
	if n > uint64(len(data)-8) {
		return nil, nil,
			fmt.Errorf(
				"safetensors header of %d bytes does not fit the file of %d bytes: the file is cut or not safetensors",
				n, len(data))
	}
	if n > safetensorsHeaderMax {
		return nil, nil, fmt.Errorf("safetensors header of %d bytes is longer than the format's limit of %d", n,
			safetensorsHeaderMax)
	}
	header, body := data[8:8+n], data[8+n:]
	r := headerReader{dec: json.NewDecoder(bytes.NewReader(header)), body: body, seen: map[string]bool{}}
	if err := r.readObject(); err != nil {
		return nil, nil, fmt.Errorf("safetensors header: %w", err)
	}
	if err := checkOverlap(r.spans); err != nil {
		return nil, nil, err
	}
	return r.tensors, r.meta, nil
}

// headerReader walks the header key by key, because decoding into a map would
// silently drop the first of two tensors with one name.
type headerReader struct {
	dec     *json.Decoder
	body    []byte
	seen    map[string]bool
	tensors []Tensor
	spans   []tensorRange
	meta    map[string]any
}

func (r *headerReader) readObject() error {
	if t, err := r.dec.Token(); err != nil {
		return err
	} else if t != json.Delim('{') {
		return fmt.Errorf("want a JSON object, got %v", t)
	}
	for r.dec.More() {
		t, err := r.dec.Token()
		if err != nil {
			return err
		}
		name, _ := t.(string)
		if r.seen[name] {
			return fmt.Errorf("tensor %q appears twice", name)
		}
		r.seen[name] = true
		if err := r.readEntry(name); err != nil {
			return err
		}
	}
	_, err := r.dec.Token()
	return err
}

func (r *headerReader) readEntry(name string) error {
	if name == "__metadata__" {
		var texts map[string]string
		if err := r.dec.Decode(&texts); err != nil {
			return fmt.Errorf("__metadata__: %w", err)
		}
		r.meta = make(map[string]any, len(texts))
		for k, v := range texts {
			r.meta[k] = v
		}
		return nil
	}
	var e safetensorsEntry
	if err := r.dec.Decode(&e); err != nil {
		return fmt.Errorf("tensor %q: %w", name, err)
	}
	t, err := e.tensor(name, r.body)
	if err != nil {
		return fmt.Errorf("tensor %q: %w", name, err)
	}
	r.tensors = append(r.tensors, t)
	r.spans = append(r.spans, tensorRange{name, e.Offsets[0], e.Offsets[1]})
	return nil
}

type safetensorsEntry struct {
	DType   string  `json:"dtype"`
	Shape   []int64 `json:"shape"`
	Offsets []int64 `json:"data_offsets"`
}

func (e *safetensorsEntry) tensor(name string, body []byte) (Tensor, error) {
	dtype, err := safetensorsType(e.DType)
	if err != nil {
		return Tensor{}, err
	}
	if len(e.Shape) > 8 {
		return Tensor{}, fmt.Errorf("%d dimensions, more than the 8 allowed", len(e.Shape))
	}
	if len(e.Offsets) != 2 {
		return Tensor{}, fmt.Errorf("data_offsets has %d numbers, not 2", len(e.Offsets))
	}
	shape := make([]int, len(e.Shape))
	for i, d := range e.Shape {
		if d < 1 || d > math.MaxInt {
			return Tensor{}, fmt.Errorf("dimension %d of shape %v is out of range", i, e.Shape)
		}
		shape[i] = int(d)
	}
	size, err := tensorBytes(dtype, shape)
	if err != nil {
		return Tensor{}, err
	}
	start, end := e.Offsets[0], e.Offsets[1]
	if start < 0 || end < start || end > int64(len(body)) {
		return Tensor{}, fmt.Errorf(
			"data_offsets %d to %d lie outside the %d bytes of data: the file is cut or damaged", start, end, len(body))
	}
	if end-start != size {
		return Tensor{}, fmt.Errorf("shape %v of %s needs %d bytes, data_offsets give %d", shape, dtype, size,
			end-start)
	}
	return Tensor{Name: name, Type: dtype, Shape: shape, Data: body[start:end:end]}, nil
}

func safetensorsType(name string) (DType, error) {
	switch name {
	case "F32", "F16", "BF16", "F64", "I8", "I16", "I32", "I64", "U8", "U16", "U32", "U64", "BOOL", "F8_E4M3",
		"F8_E5M2":
		return ParseDType(name)
	}
	return 0, fmt.Errorf("unknown dtype %q", name)
}
