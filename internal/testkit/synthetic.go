package testkit

import (
	"encoding/binary"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"testing"
)

// SyntheticModels lists the architectures for which golden outputs of models
// with synthetic weights are kept.
func SyntheticModels(t testing.TB) []string {
	t.Helper()
	entries, err := os.ReadDir(Golden("synthetic"))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		if e.IsDir() {
			names = append(names, e.Name())
		}
	}
	return names
}

// SyntheticModel writes a checkpoint whose weights are a formula of tensor
// name and index, the same that make.py in the golden directory used, and
// returns its directory.
func SyntheticModel(t testing.TB, name string) string {
	t.Helper()
	var golden struct {
		Tensors []syntheticTensor
	}
	readJSON(t, Golden("synthetic", name, "golden.json"), &golden)
	dir := t.TempDir()
	config, err := os.ReadFile(Golden("synthetic", name, "config.json"))
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "config.json"), config, 0o600)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "model.safetensors"), safetensors(t, golden.Tensors), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

type syntheticTensor struct {
	Name  string
	Shape []int
	Kind  string
}

func (s *syntheticTensor) count() int {
	n := 1
	for _, d := range s.Shape {
		n *= d
	}
	return n
}

// values returns the tensor's elements before they are rounded to bfloat16.
func (s *syntheticTensor) values() []float32 {
	out := make([]float32, s.count())
	scale := 1.7 * math.Sqrt(3/float64(s.Shape[len(s.Shape)-1]))
	seed := fnv1a(s.Name)
	for i := range out {
		u := uniform(seed + uint64(i+1)*0x9E3779B97F4A7C15)
		switch s.Kind {
		case "norm":
			u = 1 + 0.3*u
		case "norm0", "bias":
			u = 0.3 * u
		case "matrix":
			u *= scale
		}
		out[i] = float32(u)
	}
	return out
}

// uniform turns z into a number in [-1, 1) by splitmix64.
func uniform(z uint64) float64 {
	z = (z ^ z>>30) * 0xBF58476D1CE4E5B9
	z = (z ^ z>>27) * 0x94D049BB133111EB
	z ^= z >> 31
	return float64(z>>40)/(1<<23) - 1
}

func fnv1a(text string) uint64 {
	h := uint64(0xCBF29CE484222325)
	for _, b := range []byte(text) {
		h = (h ^ uint64(b)) * 0x100000001B3
	}
	return h
}

// safetensors lays the tensors out as a bfloat16 safetensors file.
func safetensors(t testing.TB, tensors []syntheticTensor) []byte {
	t.Helper()
	type entry struct {
		DType   string `json:"dtype"`
		Shape   []int  `json:"shape"`
		Offsets [2]int `json:"data_offsets"`
	}
	header, end := map[string]entry{}, 0
	for _, s := range tensors {
		header[s.Name] = entry{"BF16", s.Shape, [2]int{end, end + 2*s.count()}}
		end += 2 * s.count()
	}
	text, err := json.Marshal(header)
	if err != nil {
		t.Fatal(err)
	}
	out := binary.LittleEndian.AppendUint64(nil, uint64(len(text)))
	out = append(out, text...)
	for _, s := range tensors {
		for _, v := range s.values() {
			out = binary.LittleEndian.AppendUint16(out, bfloat16(v))
		}
	}
	return out
}

// bfloat16 rounds to nearest, ties to even.
func bfloat16(v float32) uint16 {
	b := math.Float32bits(v)
	return uint16((b + 0x7FFF + b>>16&1) >> 16)
}

func readJSON(t testing.TB, path string, v any) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(text, v)
	}
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}
