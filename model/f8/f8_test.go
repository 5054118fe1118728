package f8

import (
	"math"
	"strings"
	"testing"
)

// nearest finds the code by looking at all of them.
func nearest(v float32) byte {
	best, distance := 0, math.Inf(1)
	for code := range 0x7f {
		d := math.Abs(math.Abs(float64(v)) - float64(From(byte(code))))
		if d < distance || d == distance && code%2 == 0 {
			best, distance = code, d
		}
	}
	if math.Signbit(float64(v)) {
		best |= 0x80
	}
	return byte(best)
}

func TestValues(t *testing.T) {
	for code, want := range map[byte]float32{0x00: 0, 0x01: 1. / 512, 0x07: 7. / 512, 0x08: 1. / 64, 0x38: 1,
		0xb9: -1.125, 0x7e: 448} {
		if got := From(code); got != want {
			t.Errorf("code %#x is %v, want %v", code, got, want)
		}
	}
	for code := range 0x100 {
		v := From(byte(code))
		if code&0x7f == 0x7f {
			if v == v {
				t.Errorf("code %#x is %v, want not a number", code, v)
			}
			continue
		}
		if got := To(v); got != byte(code) {
			t.Errorf("%v has code %#x, want %#x", v, got, code)
		}
		for _, near := range []float32{v * 1.0625, v * 1.03125, v + 1./1024, v - 1./1024,
			math.Nextafter32(v*1.0625, 0), math.Nextafter32(v*1.0625, 500)} {
			if got, want := To(near), nearest(near); got != want {
				t.Errorf("%v has code %#x, want %#x", near, got, want)
			}
		}
	}
}

func FuzzIsNearest(f *testing.F) {
	for _, v := range []float32{0, 1, -0.0146, 448, 464, 500, 1e-9, 3e38} {
		f.Add(v)
	}
	f.Fuzz(func(t *testing.T, v float32) {
		if v != v {
			t.Skip("not a number has no nearest one")
		}
		if got, want := To(v), nearest(v); got != want {
			t.Errorf("%v has code %#x, want %#x", v, got, want)
		}
	})
}

// TestTable compares the table that rounds quickly with the definition.
func TestTable(t *testing.T) {
	table := codes()
	for upper := range 1 << 16 {
		for _, lower := range []int{0, 1, 0x7fff, 0x8000, 0x8001, 0xffff} {
			v := math.Float32frombits(uint32(upper<<16 | lower))
			if got, want := quick(table, v), To(v); v == v && got != want {
				t.Fatalf("%v has code %#x by the table, want %#x", v, got, want)
			}
		}
	}
}

func TestParseScheme(t *testing.T) {
	group := func(weights string) string {
		return `{"quant_method":"compressed-tensors","format":"float-quantized","config_groups":{"group_0":{"weights":` +
			weights + `}}}`
	}
	for _, c := range []struct{ text, want string }{
		{`null`, ""},
		{`{"quant_method":"fp8"}`, ""},
		{`{"quant_method":"fp8","weight_block_size":null}`, ""},
		{`{"quant_method":"fp8","weight_block_size":[128,128],"fmt":"e4m3"}`, ""},
		{`{"quant_method":"fp8","weight_block_size":[64,128]}`, "weight_block_size [64 128] is not supported"},
		{`{"quant_method":"fp8","weight_block_size":[128]}`, "weight_block_size [128] is not supported"},
		{`{"quant_method":"fp8","weight_block_size":"128"}`, "cannot unmarshal"},
		{`{"quant_method":"fp8","fmt":"e5m2"}`, `fmt "e5m2" is not supported`},
		{`{"quant_method":"fbgemm_fp8","activation_scale_ub":1200.0}`, ""},
		{`{"quant_method":"modelopt"}`, `quant_method "modelopt" is not supported: supported are awq, gptq, fp8`},
		{`{"quant_method":"awq","bits":4}`, `quant_method "awq" is not supported`},
		{`{}`, `quant_method "" is not supported`},
		{`[]`, "cannot unmarshal"},
		{group(`{"num_bits":8,"type":"float","strategy":"channel","symmetric":true}`), ""},
		{group(`{"num_bits":8,"type":"float","strategy":"tensor"}`), ""},
		{group(`{"num_bits":8,"type":"float","strategy":"block","block_structure":[128,128]}`), ""},
		{group(`{"num_bits":8,"type":"float","strategy":"block","block_structure":"128x128"}`), ""},
		{group(`{"num_bits":8,"type":"float","strategy":"block","block_structure":[1,128]}`), "by block [1,128]"},
		{group(`{"num_bits":8,"type":"float","strategy":"group"}`), "has scales by group"},
		{group(`{"num_bits":8,"type":"int","strategy":"channel"}`), `8 bits and type "int"`},
		{group(`{"num_bits":4,"type":"float","strategy":"channel"}`), "weights of 4 bits"},
		{group(`{"num_bits":8,"type":"float","strategy":"channel","symmetric":false}`), "only symmetric ones"},
		{group(`null`), ""},
		{`{"quant_method":"compressed-tensors","format":"pack-quantized"}`, `format "pack-quantized" is not supported`},
	} {
		_, err := ParseScheme([]byte(c.text))
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: error %v, want %q", c.text, err, c.want)
		}
	}
}
