package safety

import (
	"bytes"
	"compress/gzip"
	_ "embed"
	"encoding/binary"
	"fmt"
	"io"
	"sync"
)

//go:embed weights.bin
var weightsFile []byte

// magic begins the file of weights; its last digit is the format's version.
const magic = "parley-safety-3\n"

// A weightsShape is what stands in the file before the weights.
type weightsShape struct {
	Buckets, Heads, TagBuckets, Tags int32
}

var wantShape = weightsShape{1 << BucketBits, int32(Heads), 1 << TagBits, Tags}

// trained returns the classifier and the tagger that are part of the binary.
var trained = sync.OnceValues(func() (*Model, *Tagger) {
	m, g, err := ReadWeights(bytes.NewReader(weightsFile))
	if err != nil {
		panic("the safety weights in this binary are damaged: " + err.Error())
	}
	return m, g
})

// ReadWeights reads what [WriteWeights] wrote.
func ReadWeights(r io.Reader) (*Model, *Tagger, error) {
	plain, err := gzip.NewReader(r)
	if err != nil {
		return nil, nil, err
	}
	head := make([]byte, len(magic))
	if _, err := io.ReadFull(plain, head); err != nil || string(head) != magic {
		return nil, nil, fmt.Errorf("this is not a file of safety weights: make one with 'make train-safety'")
	}
	var shape weightsShape
	if err := binary.Read(plain, binary.LittleEndian, &shape); err != nil {
		return nil, nil, err
	}
	if shape != wantShape {
		return nil, nil, fmt.Errorf("the safety weights have the shape %v and not %v: run 'make train-safety'", shape,
			wantShape)
	}
	m := &Model{weights: make([][Heads]int16, shape.Buckets)}
	g := &Tagger{weights: make([][Tags]int8, shape.TagBuckets)}
	// Package binary reads a slice of arrays number by number through reflection, which would take a tenth of the
	// processor time in which a server starts.
	heads, tags := make([]int16, len(m.weights)*int(Heads)), make([]int8, len(g.weights)*Tags)
	for _, part := range []any{&m.step, &m.bias, heads, tags, &g.follow} {
		if err := binary.Read(plain, binary.LittleEndian, part); err != nil {
			return nil, nil, err
		}
	}
	for b := range m.weights {
		m.weights[b] = [Heads]int16(heads[b*int(Heads):])
	}
	for b := range g.weights {
		g.weights[b] = [Tags]int8(tags[b*Tags:])
	}
	m.pack()
	g.pack()
	return m, g, nil
}

// WriteWeights writes a classifier and a tagger, the same bytes for the same weights.
func WriteWeights(w io.Writer, m *Model, g *Tagger) error {
	packed, err := gzip.NewWriterLevel(w, gzip.BestCompression)
	if err != nil {
		return err
	}
	if _, err := io.WriteString(packed, magic); err != nil {
		return err
	}
	for _, part := range []any{wantShape, m.step, m.bias, m.weights, g.weights, g.follow} {
		if err := binary.Write(packed, binary.LittleEndian, part); err != nil {
			return err
		}
	}
	return packed.Close()
}
