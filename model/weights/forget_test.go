package weights

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

func TestForgottenDataComesBack(t *testing.T) {
	var file bytes.Buffer
	i := len(Shapes()) - 1
	if _, err := WriteRandom(&file, Shapes()[i], Q8_0, 1, nil); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "model.gguf")
	if err := os.WriteFile(path, file.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	ck, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	var before [][]byte
	for _, tensor := range ck.Tensors() {
		before = append(before, bytes.Clone(tensor.Data))
	}
	ck.Forget()
	for i, tensor := range ck.Tensors() {
		if !bytes.Equal(tensor.Data, before[i]) {
			t.Errorf("tensor %s has changed", tensor.Name)
		}
	}
	if err := ck.Close(); err != nil {
		t.Error(err)
	}
	ck.Forget() // nothing is left to forget
}
