package int4

import (
	"strings"
	"testing"
)

func TestSchemes(t *testing.T) {
	const compressed = `{"quant_method":"compressed-tensors","format":"pack-quantized","config_groups":{`
	for text, want := range map[string]*Scheme{
		``:                       nil,
		`null`:                   nil,
		`3`:                      nil,
		`{"quant_method":"fp8"}`: nil,
		`{"quant_method":"awq","bits":4,"group_size":128,"version":"gemm"}`:              {awq, 128, 0, packedNames},
		`{"quant_method":"awq","bits":4,"group_size":-1}`:                                {awq, 0, 0, packedNames},
		`{"quant_method":"gptq","bits":4,"group_size":64}`:                               {gptq, 64, 1, packedNames},
		`{"quant_method":"gptq","bits":4,"group_size":64,"checkpoint_format":"gptq_v2"}`: {gptq, 64, 0, packedNames},
		compressed + `"a":{"weights":{"num_bits":4,"type":"int","strategy":"group","group_size":128}},
			"b":{"weights":null}}}`: {method: 2, group: 128, Names: compressedNames},
		compressed + `"a":{"weights":{"num_bits":4,"type":"int","strategy":"channel"}}}}`: {
			method: 2, Names: compressedNames},
		`{"quant_method":"compressed-tensors","format":"float-quantized"}`: nil,
	} {
		got, err := ParseScheme([]byte(text))
		if err != nil || (got == nil) != (want == nil) || got != nil && *got != *want {
			t.Errorf("%s: %+v, %v, want %+v", text, got, err, want)
		}
	}
	for text, want := range map[string]string{
		`{"quant_method":"awq","bits":4,"version":"gemv"}`:                                `version "gemv" is not supported`,
		`{"quant_method":"awq"}`:                                                          "weights of unknown bits",
		`{"quant_method":"gptq","bits":3}`:                                                "weights of 3 bits",
		`{"quant_method":"gptq","bits":4,"group_size":48}`:                                "group_size 48 is not supported",
		`{"quant_method":"gptq","bits":4,"checkpoint_format":"marlin"}`:                   `"marlin" is not supported`,
		compressed + `"a":{"weights":{"num_bits":8,"type":"int","strategy":"channel"}}}}`: "weights of 8 bits",
		compressed + `"a":{"weights":{"num_bits":4,"type":"float","strategy":"tensor_group"}}}}`: `type "float" with ` +
			`scales by "tensor_group"`,
		compressed + `"a":{"weights":{"num_bits":4,"type":"int","strategy":"group","group_size":32}},
			"b":{"weights":{"num_bits":4,"type":"int","strategy":"group","group_size":64}}}}`: "groups of 64 inputs and " +
			"another one of 32",
	} {
		if _, err := ParseScheme([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", text, err, want)
		}
	}
}

// TestCodesAreWhereTheyArePacked reads a matrix of each method whose codes count up.
func TestCodesAreWhereTheyArePacked(t *testing.T) {
	number := func(values ...byte) (data []byte) { // the first one lies lowest
		for i := 0; i < len(values); i += 2 {
			data = append(data, values[i]|values[i+1]<<4)
		}
		return data
	}
	zeros := func(n int) *Integers { return &Integers{Shape: []int{1, 1}, Data: make([]byte, 4*n)} }
	for name, c := range map[string]struct {
		scheme Scheme
		codes  Integers
		zeros  *Integers
		want   func(output, input int) byte
	}{
		"awq": {Scheme{method: awq}, Integers{Shape: []int{32, 1}}, zeros(1),
			func(output, _ int) byte { return []byte{0, 4, 1, 5, 2, 6, 3, 7}[output] }},
		"gptq": {Scheme{method: gptq, more: 1}, Integers{Shape: []int{4, 8}}, zeros(1),
			func(_, input int) byte { return byte(input % 8) }},
		"compressed": {Scheme{method: compressed}, Integers{Shape: []int{8, 4}}, nil,
			func(_, input int) byte { return byte(input % 8) }},
	} {
		for range c.codes.Shape[0] * c.codes.Shape[1] {
			c.codes.Data = append(c.codes.Data, number(0, 1, 2, 3, 4, 5, 6, 7)...)
		}
		scales := []int{1, 8}
		if c.scheme.method == compressed {
			scales = []int{8, 1}
		}
		m, err := c.scheme.Matrix(c.codes, c.zeros, nil, scales)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		seen := 0
		m.Each(func(output, block int, codes *[Block]byte) {
			seen++
			for i, code := range codes {
				if want := c.want(output, block*Block+i); code != want {
					t.Errorf("%s: output %d, input %d is %d, want %d", name, output, i, code, want)
				}
			}
		})
		if seen != 8 {
			t.Errorf("%s: %d blocks, want 8", name, seen)
		}
	}
}
