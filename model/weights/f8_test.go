package weights

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// f8Matrix returns a matrix of the given type: random numbers of very different
// magnitudes, some groups of nothing but zeros, and one row of subnormal numbers.
func f8Matrix(t *testing.T, kind DType, rows, cols int) Tensor {
	t.Helper()
	r := rand.New(rand.NewPCG(uint64(rows), uint64(cols)))
	values := make([]float32, rows*cols)
	for i := range values {
		row, col := i/cols, i%cols
		switch {
		case row == 1 && col/F8Group == 1:
		case row == 2:
			values[i] = float32(r.NormFloat64()) * 1e-39
		default:
			values[i] = float32(r.NormFloat64() * math.Pow(2, float64(row%20-10)))
		}
	}
	m := Tensor{Name: "m", Type: kind, Shape: []int{rows, cols}, Data: make([]byte, kind.RowBytes(rows*cols))}
	if err := Quantize(m.Data, kind, values); err != nil {
		t.Fatal(err)
	}
	return m
}

// TestToF8 compares every code and scale with their definition, one number at a time.
func TestToF8(t *testing.T) {
	for _, kind := range []DType{BF16, F16, F32} {
		for _, shape := range [][2]int{{1, 1}, {3, 127}, {5, 128}, {40, 300}} {
			m := f8Matrix(t, kind, shape[0], shape[1])
			values, err := m.Float32s()
			if err != nil {
				t.Fatal(err)
			}
			got, err := m.ToF8()
			if err != nil {
				t.Fatal(err)
			}
			if err := got.CheckScales(); err != nil || !slices.Equal(got.Shape, m.Shape) || got.Name != m.Name {
				t.Fatalf("%s %v: rounded to %s %v, %v", kind, shape, got.Name, got.Shape, err)
			}
			back, err := got.Float32s()
			if err != nil {
				t.Fatal(err)
			}
			for i, v := range values {
				row, col := i/shape[1], i%shape[1]
				var top float32
				for k := col / F8Group * F8Group; k < min((col/F8Group+1)*F8Group, shape[1]); k++ {
					v := values[row*shape[1]+k]
					top = max(top, v, -v)
				}
				scale, code := float32(0), ToE4M3(v*0)
				if top > 0 {
					scale = max(top/448, 0x1p-126)
					code = ToE4M3(v * (1 / scale))
				}
				at := row*((shape[1]+F8Group-1)/F8Group) + col/F8Group
				if got.Scales[at] != scale || got.Data[i] != code || back[i] != FromE4M3(code)*scale {
					t.Fatalf("%s %v: element %d, %d of %v is %#x·%v = %v, want %#x·%v", kind, shape, row, col, v,
						got.Data[i], got.Scales[at], back[i], code, scale)
				}
			}
		}
	}
}

// TestF8Parts reads rows, experts and rows as BF16 of a tensor with scales.
func TestF8Parts(t *testing.T) {
	const experts, rows, cols = 3, 4, 200
	m := f8Matrix(t, BF16, experts*rows, cols)
	m.Shape = []int{experts, rows, cols}
	f8, err := m.ToF8()
	if err != nil {
		t.Fatal(err)
	}
	all, err := f8.Float32s()
	if err != nil {
		t.Fatal(err)
	}
	for x := range experts {
		part := f8.slab("x", x, experts, []int{rows, cols})
		values, err := part.Float32s()
		if err != nil || !slices.Equal(values, all[x*rows*cols:][:rows*cols]) {
			t.Fatalf("expert %d has other values than its part of all: %v", x, err)
		}
		wide := part.RowsBF16(1, 2)
		for i := range 2 * cols {
			if got, want := binary.LittleEndian.Uint16(wide.Data[2*i:]), ToBF16(values[cols+i]); got != want {
				t.Fatalf("expert %d: element %d is %#x as BF16, want %#x", x, i, got, want)
			}
		}
		row := make([]float32, cols)
		if err := part.ReadRow(row, 3); err != nil || !slices.Equal(row, values[3*cols:]) {
			t.Fatalf("expert %d: row 3 has other values: %v", x, err)
		}
	}
}

// TestF8Refuses names what cannot be rounded, and codes that lack their scales.
func TestF8Refuses(t *testing.T) {
	matrix := func(kind DType, size int) Tensor {
		return Tensor{Name: "m", Type: kind, Shape: []int{2, 2}, Data: make([]byte, size)}
	}
	infinite := matrix(BF16, 8)
	binary.LittleEndian.PutUint16(infinite.Data[6:], 0xff80)
	for want, bad := range map[string]Tensor{
		"Q8_0 is not rounded":  {Name: "m", Type: Q8_0, Shape: []int{2, 32}, Data: make([]byte, 68)},
		"is not a matrix":      {Name: "m", Type: BF16, Shape: []int{4}, Data: make([]byte, 8)},
		"row 1 has a weight":   infinite,
		"F8_E4M3 is not round": matrix(F8E4M3, 4),
	} {
		if _, err := bad.ToF8(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
	bare := matrix(F8E4M3, 4)
	if _, err := bare.Float32s(); err == nil || !strings.Contains(err.Error(), "has 0 scales, not 2") {
		t.Errorf("a matrix without scales gives %v", err)
	}
	if err := bare.ReadRow(make([]float32, 2), 1); err == nil {
		t.Error("a row without scales was read")
	}
	err := Dequantize(make([]float32, 4), F8E4M3, bare.Data)
	if err == nil || !strings.Contains(err.Error(), "without their scales") {
		t.Errorf("codes without scales give %v", err)
	}
	scaled := matrix(BF16, 8)
	scaled.Scales = make([]float32, 2)
	if err := scaled.CheckScales(); err == nil {
		t.Error("scales of a BF16 matrix were accepted")
	}
}

func BenchmarkToF8(b *testing.B) {
	m := Tensor{Name: "m", Type: BF16, Shape: []int{4096, 4096}, Data: make([]byte, 2<<24)}
	r := rand.New(rand.NewPCG(1, 2))
	for i := range 1 << 24 {
		binary.LittleEndian.PutUint16(m.Data[2*i:], ToBF16(float32(r.NormFloat64())))
	}
	b.SetBytes(int64(len(m.Data)))
	for b.Loop() {
		if _, err := m.ToF8(); err != nil {
			b.Fatal(err)
		}
	}
}
