package weights

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
)

// A GGUFWriter writes a GGUF file, version 3, from front to back, without ever
// holding more than a buffer of it. First [GGUFWriter.Meta] and
// [GGUFWriter.Declare] say what the file will hold, then
// [GGUFWriter.WriteTensor] streams the data of every tensor in the order of
// declaration, then [GGUFWriter.Close] checks that all of it came.
type GGUFWriter struct {
	out      *bufio.Writer
	meta     []byte
	metaKeys map[string]bool
	tensors  []ggufEntry
	names    map[string]bool
	offset   int64
	next     int
	begun    bool
	err      error
}

// NewGGUFWriter returns a writer to w. The caller closes w.
func NewGGUFWriter(w io.Writer) *GGUFWriter {
	return &GGUFWriter{out: bufio.NewWriterSize(w, 1<<20), metaKeys: map[string]bool{}, names: map[string]bool{}}
}

// Meta adds a metadata entry. The value must be a string, a bool, a number of
// fixed width, or a slice of one of these; its Go type decides the type in the
// file.
func (g *GGUFWriter) Meta(key string, value any) error {
	if g.begun {
		return fmt.Errorf("metadata %s comes after tensor data", key)
	}
	if g.metaKeys[key] {
		return fmt.Errorf("metadata %s is given twice", key)
	}
	entry, err := appendValue(appendText(nil, key), value)
	if err != nil {
		return fmt.Errorf("metadata %s: %w", key, err)
	}
	g.metaKeys[key] = true
	g.meta = append(g.meta, entry...)
	return nil
}

// Declare adds a tensor to the list. The shape is written outermost first.
func (g *GGUFWriter) Declare(name string, t DType, shape []int) error {
	if g.begun {
		return fmt.Errorf("tensor %s is declared after tensor data", name)
	}
	if g.names[name] {
		return fmt.Errorf("tensor %s is declared twice", name)
	}
	size, err := tensorBytes(t, shape)
	if err != nil {
		return fmt.Errorf("tensor %s: %w", name, err)
	}
	if len(shape) > ggufDimsMax || len(shape) == 0 {
		return fmt.Errorf("tensor %s: gguf holds 1 to %d dimensions, not %d", name, ggufDimsMax, len(shape))
	}
	g.names[name] = true
	g.tensors = append(g.tensors, ggufEntry{name, t, shape, uint64(g.offset)})
	g.offset += padded(size)
	return nil
}

func padded(n int64) int64 { return (n + ggufAlignment - 1) / ggufAlignment * ggufAlignment }

// DataBytes returns how many bytes the data of all declared tensors take.
func (g *GGUFWriter) DataBytes() int64 { return g.offset }

// FileBytes returns how long the file will be, if nothing more is declared. It
// is known only until the first tensor is written.
func (g *GGUFWriter) FileBytes() int64 { return int64(len(g.head())) + g.offset }

// WriteTensor writes the data of the next declared tensor, which must have the
// given name. The function fill must write exactly the tensor's bytes.
func (g *GGUFWriter) WriteTensor(name string, fill func(w io.Writer) error) error {
	if g.err != nil {
		return g.err
	}
	g.err = g.writeTensor(name, fill)
	return g.err
}

func (g *GGUFWriter) writeTensor(name string, fill func(w io.Writer) error) error {
	if !g.begun {
		if err := g.begin(); err != nil {
			return err
		}
	}
	if g.next >= len(g.tensors) || g.tensors[g.next].name != name {
		return fmt.Errorf("tensor %s is not the next one declared", name)
	}
	entry := g.tensors[g.next]
	size, err := tensorBytes(entry.dtype, entry.shape)
	if err != nil {
		return err
	}
	counted := &countingWriter{w: g.out}
	if err := fill(counted); err != nil {
		return fmt.Errorf("tensor %s: %w", name, err)
	}
	if counted.n != size {
		return fmt.Errorf("tensor %s: %d bytes were written, its shape needs %d", name, counted.n, size)
	}
	g.next++
	_, err = g.out.Write(make([]byte, padded(size)-size))
	return err
}

// Close checks that every declared tensor was written and flushes the file.
func (g *GGUFWriter) Close() error {
	if g.err != nil {
		return g.err
	}
	if g.next != len(g.tensors) {
		return fmt.Errorf("%d of %d tensors were written", g.next, len(g.tensors))
	}
	if !g.begun {
		if err := g.begin(); err != nil {
			return err
		}
	}
	return g.out.Flush()
}

// begin writes everything before the data.
func (g *GGUFWriter) begin() error {
	g.begun = true
	_, err := g.out.Write(g.head())
	g.meta = nil
	return err
}

// head returns everything before the data.
func (g *GGUFWriter) head() []byte {
	head := []byte(ggufMagic)
	head = binary.LittleEndian.AppendUint32(head, ggufVersion)
	head = binary.LittleEndian.AppendUint64(head, uint64(len(g.tensors)))
	head = binary.LittleEndian.AppendUint64(head, uint64(len(g.metaKeys)))
	head = append(head, g.meta...)
	for _, e := range g.tensors {
		head = appendText(head, e.name)
		head = binary.LittleEndian.AppendUint32(head, uint32(len(e.shape)))
		for i := range e.shape {
			head = binary.LittleEndian.AppendUint64(head, uint64(e.shape[len(e.shape)-1-i]))
		}
		head = binary.LittleEndian.AppendUint32(head, uint32(e.dtype))
		head = binary.LittleEndian.AppendUint64(head, e.offset)
	}
	return append(head, make([]byte, padded(int64(len(head)))-int64(len(head)))...)
}

type countingWriter struct {
	w io.Writer
	n int64
}

// Write counts and passes on.
func (c *countingWriter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += int64(n)
	return n, err
}

func appendText(b []byte, s string) []byte {
	b = binary.LittleEndian.AppendUint64(b, uint64(len(s)))
	return append(b, s...)
}

// appendValue appends a value's type number and the value.
func appendValue(b []byte, value any) ([]byte, error) {
	switch v := value.(type) {
	case []string:
		return appendArray(b, v)
	case []bool:
		return appendArray(b, v)
	case []uint8:
		return appendArray(b, v)
	case []int8:
		return appendArray(b, v)
	case []uint16:
		return appendArray(b, v)
	case []int16:
		return appendArray(b, v)
	case []uint32:
		return appendArray(b, v)
	case []int32:
		return appendArray(b, v)
	case []uint64:
		return appendArray(b, v)
	case []int64:
		return appendArray(b, v)
	case []float32:
		return appendArray(b, v)
	case []float64:
		return appendArray(b, v)
	}
	kind, ok := valueKind(value)
	if !ok {
		return nil, fmt.Errorf("a value of type %T cannot be stored", value)
	}
	return appendFixed(binary.LittleEndian.AppendUint32(b, kind), value), nil
}

func appendArray[T any](b []byte, list []T) ([]byte, error) {
	var zero T
	kind, ok := valueKind(zero)
	if !ok {
		return nil, errors.New("lists of this type cannot be stored")
	}
	b = binary.LittleEndian.AppendUint32(b, metaArray)
	b = binary.LittleEndian.AppendUint32(b, kind)
	b = binary.LittleEndian.AppendUint64(b, uint64(len(list)))
	for _, v := range list {
		b = appendFixed(b, v)
	}
	return b, nil
}

func valueKind(value any) (uint32, bool) {
	switch value.(type) {
	case uint8:
		return metaUint8, true
	case int8:
		return metaInt8, true
	case uint16:
		return metaUint16, true
	case int16:
		return metaInt16, true
	case uint32:
		return metaUint32, true
	case int32:
		return metaInt32, true
	case float32:
		return metaFloat32, true
	case bool:
		return metaBool, true
	case string:
		return metaString, true
	case uint64:
		return metaUint64, true
	case int64:
		return metaInt64, true
	case float64:
		return metaFloat64, true
	}
	return 0, false
}

func appendFixed(b []byte, value any) []byte {
	le := binary.LittleEndian
	switch v := value.(type) {
	case uint8:
		return append(b, v)
	case int8:
		return append(b, byte(v))
	case uint16:
		return le.AppendUint16(b, v)
	case int16:
		return le.AppendUint16(b, uint16(v))
	case uint32:
		return le.AppendUint32(b, v)
	case int32:
		return le.AppendUint32(b, uint32(v))
	case float32:
		return le.AppendUint32(b, math.Float32bits(v))
	case uint64:
		return le.AppendUint64(b, v)
	case int64:
		return le.AppendUint64(b, uint64(v))
	case float64:
		return le.AppendUint64(b, math.Float64bits(v))
	case string:
		return appendText(b, v)
	case bool:
		if v {
			return append(b, 1)
		}
	}
	return append(b, 0)
}
