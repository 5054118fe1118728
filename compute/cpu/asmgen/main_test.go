package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

func TestKernelsAreUpToDate(t *testing.T) {
	for name, want := range generate() {
		got, err := os.ReadFile(filepath.Join("..", name))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s is not what asmgen writes: run go generate in compute/cpu", name)
		}
	}
}
