package testkit

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// FP8Layouts are the ways in which published directories store FP8 weights, each
// with its quantization_config.
var FP8Layouts = map[string]string{
	// As Qwen and DeepSeek publish them.
	"block": `{"activation_scheme":"dynamic","fmt":"e4m3","quant_method":"fp8","weight_block_size":[128,128]}`,
	// As AutoFP8 writes them, with scales of activations that are not used.
	"tensor": `{"activation_scheme":"static","ignored_layers":["lm_head"],"quant_method":"fp8"}`,
	// As llm-compressor writes them.
	"channel": `{"config_groups":{"group_0":{"input_activations":{"dynamic":true,"num_bits":8,"strategy":"token",
		"type":"float"},"targets":["Linear"],"weights":{"dynamic":false,"num_bits":8,"strategy":"channel",
		"symmetric":true,"type":"float"}}},"format":"float-quantized","ignore":["lm_head"],
		"quant_method":"compressed-tensors","quantization_status":"compressed"}`,
	// As Meta publishes Llama 3.1.
	"fbgemm": `{"activation_scale_ub":1200.0,"modules_to_not_convert":["lm_head"],"quant_method":"fbgemm_fp8"}`,
}

// A StoredTensor is a tensor of a safetensors file.
type StoredTensor struct {
	Type  string `json:"dtype"`
	Shape []int  `json:"shape"`
	Data  []byte `json:"-"`
}

// FP8Directories writes a golden checkpoint twice: stored has the matrices of its
// layers as FP8 in one of the FP8Layouts, widened has the same numbers as F32.
func FP8Directories(t testing.TB, golden, layout string) (stored, widened string) {
	t.Helper()
	narrow, wide := map[string]StoredTensor{}, map[string]StoredTensor{}
	for name, tensor := range ReadSafetensors(t, Golden(golden, "model.safetensors")) {
		narrow[name], wide[name] = tensor, tensor
		if !strings.Contains(name, "_proj.weight") {
			continue
		}
		narrow[name], wide[name] = StoredTensor{}, StoredTensor{}
		roundFP8(narrow, wide, name, tensor, layout)
	}
	stored = quantizedDirectory(t, Golden(golden), FP8Layouts[layout])
	widened = quantizedDirectory(t, Golden(golden), "null")
	WriteSafetensors(t, filepath.Join(stored, "model.safetensors"), narrow)
	WriteSafetensors(t, filepath.Join(widened, "model.safetensors"), wide)
	return stored, widened
}

// FP8AsBF16 writes widened, which FP8Directories returned, with all numbers rounded
// to BF16, as a processor computes with FP8 weights.
func FP8AsBF16(t testing.TB, golden, widened string) string {
	t.Helper()
	tensors := ReadSafetensors(t, filepath.Join(widened, "model.safetensors"))
	for name, tensor := range tensors {
		if tensor.Type != "F32" {
			continue
		}
		var data []byte
		for at := 0; at < len(tensor.Data); at += 4 {
			v := math.Float32frombits(binary.LittleEndian.Uint32(tensor.Data[at:]))
			data = binary.LittleEndian.AppendUint16(data, bfloat16(v))
		}
		tensors[name] = StoredTensor{Type: "BF16", Shape: tensor.Shape, Data: data}
	}
	dir := quantizedDirectory(t, Golden(golden), "null")
	WriteSafetensors(t, filepath.Join(dir, "model.safetensors"), tensors)
	return dir
}

// goldenDirectory copies all but the weights of a golden checkpoint, with the
// given quantization_config.
func quantizedDirectory(t testing.TB, from, quantization string) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"tokenizer.json", "tokenizer_config.json", "chat_template.jinja",
		"generation_config.json", "config.json"} {
		text, err := os.ReadFile(filepath.Join(from, name))
		if errors.Is(err, os.ErrNotExist) && name != "config.json" {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if name == "config.json" {
			text = append([]byte(`{"quantization_config":`+quantization+`,`), text[1:]...)
		}
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// roundFP8 puts a BF16 matrix into narrow as FP8 with its scales, and into wide as
// the numbers that these stand for.
func roundFP8(narrow, wide map[string]StoredTensor, name string, t StoredTensor, layout string) {
	rows, cols := t.Shape[0], t.Shape[1]
	at := func(r, c int) float32 {
		return math.Float32frombits(uint32(binary.LittleEndian.Uint16(t.Data[2*(r*cols+c):])) << 16)
	}
	high, across := rows, cols // one scale is for
	scales := StoredTensor{Type: "F32", Shape: []int{}}
	switch layout {
	case "block":
		high, across = 128, 128
		scales = StoredTensor{Type: "BF16", Shape: []int{(rows + 127) / 128, (cols + 127) / 128}}
	case "channel":
		high, scales = 1, StoredTensor{Type: "BF16", Shape: []int{rows, 1}}
	case "fbgemm":
		high, scales = 1, StoredTensor{Type: "F32", Shape: []int{rows, 1}}
	}
	codes, values := make([]byte, rows*cols), make([]byte, 4*rows*cols)
	for r0 := 0; r0 < rows; r0 += high {
		for c0 := 0; c0 < cols; c0 += across {
			r1, c1 := min(r0+high, rows), min(c0+across, cols)
			var top float32
			for i := r0; i < r1; i++ {
				for k := c0; k < c1; k++ {
					top = max(top, at(i, k), -at(i, k))
				}
			}
			bits := math.Float32bits(top / 448)
			if scales.Type == "BF16" {
				bits = (bits + 0xffff) >> 16 << 16 // up, so that nothing becomes too large
				scales.Data = binary.LittleEndian.AppendUint16(scales.Data, uint16(bits>>16))
			} else {
				scales.Data = binary.LittleEndian.AppendUint32(scales.Data, bits)
			}
			scale := math.Float32frombits(bits)
			for i := r0; i < r1; i++ {
				for k := c0; k < c1; k++ {
					code, v := nearestFP8(at(i, k) / scale)
					codes[i*cols+k] = code
					binary.LittleEndian.PutUint32(values[4*(i*cols+k):], math.Float32bits(v*scale))
				}
			}
		}
	}
	narrow[name] = StoredTensor{Type: "F8_E4M3", Shape: t.Shape, Data: codes}
	wide[name] = StoredTensor{Type: "F32", Shape: t.Shape, Data: values}
	if layout == "block" {
		narrow[name+"_scale_inv"] = scales
	} else {
		narrow[name+"_scale"] = scales
	}
	if layout == "tensor" {
		narrow[strings.TrimSuffix(name, "weight")+"input_scale"] = StoredTensor{Type: "F32", Shape: []int{},
			Data: make([]byte, 4)}
	}
}

// nearestFP8 returns an E4M3 number nearest to v, and its code.
func nearestFP8(v float32) (code byte, value float32) {
	i, found := slices.BinarySearch(positiveFP8, float64(max(v, -v)))
	if i == len(positiveFP8) || !found && i > 0 &&
		float64(max(v, -v))-positiveFP8[i-1] < positiveFP8[i]-float64(max(v, -v)) {
		i--
	}
	if v < 0 {
		return byte(i) | 0x80, -float32(positiveFP8[i])
	}
	return byte(i), float32(positiveFP8[i])
}

// positiveFP8 are the E4M3 numbers from 0 on, by their codes.
var positiveFP8 = func() (values []float64) {
	for code := range 0x7f {
		exponent, mantissa := max(code>>3, 1), float64(code&7)
		if code>>3 > 0 {
			mantissa += 8
		}
		values = append(values, math.Ldexp(mantissa, exponent-10))
	}
	return values
}()

// ReadSafetensors returns the tensors of a file.
func ReadSafetensors(t testing.TB, path string) map[string]StoredTensor {
	t.Helper()
	file, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	size := binary.LittleEndian.Uint64(file)
	var header map[string]struct {
		StoredTensor
		Offsets [2]int `json:"data_offsets"`
	}
	if err := json.Unmarshal(file[8:8+size], &header); err != nil {
		t.Fatal(err)
	}
	tensors := map[string]StoredTensor{}
	for name, e := range header {
		if name != "__metadata__" {
			e.Data = file[8+size:][e.Offsets[0]:e.Offsets[1]]
			tensors[name] = e.StoredTensor
		}
	}
	return tensors
}

// WriteSafetensors writes tensors to a file.
func WriteSafetensors(t testing.TB, path string, tensors map[string]StoredTensor) {
	t.Helper()
	header := map[string]any{}
	var data []byte
	for _, name := range slices.Sorted(maps.Keys(tensors)) {
		e := tensors[name]
		header[name] = map[string]any{
			"dtype":        e.Type,
			"shape":        e.Shape,
			"data_offsets": []int{len(data), len(data) + len(e.Data)},
		}
		data = append(data, e.Data...)
	}
	text, err := json.Marshal(header)
	if err != nil {
		t.Fatal(err)
	}
	file := binary.LittleEndian.AppendUint64(nil, uint64(len(text)))
	if err := os.WriteFile(path, slices.Concat(file, text, data), 0o600); err != nil {
		t.Fatal(err)
	}
}
