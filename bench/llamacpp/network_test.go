package llamacpp

import (
	"bytes"
	"testing"

	"parley/compute/cpu"
	"parley/model/weights"
)

func tinyModel(t *testing.T) *weights.Checkpoint {
	t.Helper()
	shape, err := weights.ShapeNamed("tiny-mistral")
	if err != nil {
		t.Fatal(err)
	}
	var file bytes.Buffer
	if _, err := weights.WriteRandom(&file, shape, weights.Q8_0, 1, nil); err != nil {
		t.Fatal(err)
	}
	ck, err := weights.ParseGGUF(file.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	return ck
}

func TestMeasure(t *testing.T) {
	ck := tinyModel(t)
	for _, n := range []Length{{40, 24}, {40, 0}, {0, 24}, {1, 1}, {512, 512}} {
		s, err := Measure(ck, cpu.Options{Threads: 2}, n)
		if err != nil {
			t.Fatal(err)
		}
		if err := checkMeasured(s, n); err != nil {
			t.Error(err)
		}
	}
	for _, n := range []Length{{0, 0}, {-1, 5}, {513, 0}, {0, 513}} {
		if s, err := Measure(ck, cpu.Options{Threads: 1}, n); err == nil {
			t.Errorf("%+v gave %+v", n, s)
		}
	}
}

// A token of a model with its own output matrix reads all but the embedding.
func TestBytesPerToken(t *testing.T) {
	ck := tinyModel(t)
	var all int64
	for _, tensor := range ck.Tensors() {
		all += int64(len(tensor.Data))
	}
	embedding, _ := ck.Tensor("token_embd.weight")
	if got := bytesPerToken(ck); got != all-int64(len(embedding.Data)) {
		t.Errorf("%d bytes of %d", got, all)
	}
	ck.Config.TieEmbeddings = true
	if got := bytesPerToken(ck); got != all {
		t.Errorf("%d bytes of %d", got, all)
	}
}

func TestMeterReadsEverything(t *testing.T) {
	m := &meter{}
	if err := m.fill(1 << 20); err != nil {
		t.Fatal(err)
	}
	if speed, err := m.measure(3); err != nil || speed <= 0 {
		t.Errorf("%g bytes a second, %v", speed, err)
	}
	m.memory[len(m.memory)-1] = 2
	if _, err := m.measure(3); err == nil {
		t.Error("the last byte was not read")
	}
}
