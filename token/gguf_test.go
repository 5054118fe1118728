package token

import (
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"testing"
)

// ggufReader reads the metadata of a GGUF file, trusting the file.
type ggufReader struct {
	data []byte
	at   int
}

func readGGUF(t testing.TB, path string) func(string) (any, bool) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	r := &ggufReader{data: data, at: 16}
	meta := map[string]any{}
	for range r.u64() {
		key := r.str()
		meta[key] = r.value(r.u32())
	}
	return func(key string) (any, bool) { v, ok := meta[key]; return v, ok }
}

func (r *ggufReader) take(n int) []byte {
	r.at += n
	return r.data[r.at-n : r.at]
}

func (r *ggufReader) u32() uint32 { return binary.LittleEndian.Uint32(r.take(4)) }
func (r *ggufReader) u64() uint64 { return binary.LittleEndian.Uint64(r.take(8)) }
func (r *ggufReader) str() string { return string(r.take(int(r.u64()))) }

func (r *ggufReader) value(kind uint32) any {
	switch kind {
	case 0:
		return r.take(1)[0]
	case 1:
		return int8(r.take(1)[0])
	case 2:
		return binary.LittleEndian.Uint16(r.take(2))
	case 3:
		return int16(binary.LittleEndian.Uint16(r.take(2)))
	case 4:
		return r.u32()
	case 5:
		return int32(r.u32())
	case 6:
		return math.Float32frombits(r.u32())
	case 7:
		return r.take(1)[0] != 0
	case 8:
		return r.str()
	case 9:
		return r.list(r.u32(), int(r.u64()))
	case 10:
		return r.u64()
	case 11:
		return int64(r.u64())
	case 12:
		return math.Float64frombits(r.u64())
	}
	panic(fmt.Sprintf("GGUF value of type %d", kind))
}

func (r *ggufReader) list(kind uint32, n int) any {
	switch kind {
	case 8:
		return collect(n, r.str)
	case 5:
		return collect(n, func() int32 { return int32(r.u32()) })
	case 6:
		return collect(n, func() float32 { return math.Float32frombits(r.u32()) })
	}
	return collect(n, func() any { return r.value(kind) })
}

func collect[T any](n int, next func() T) []T {
	all := make([]T, n)
	for i := range all {
		all[i] = next()
	}
	return all
}
