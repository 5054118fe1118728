//go:build !linux && !darwin

package mapfile

import (
	"fmt"
	"io"
	"os"
)

// Forget does nothing: the file is in memory, and must stay there.
func Forget([]byte) {}

// Open reads a whole file into memory, where files cannot be mapped.
func Open(path string) (data []byte, unmap func() error, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	size, err := Size(f)
	if err != nil {
		return nil, nil, err
	}
	data = make([]byte, size)
	if _, err := io.ReadFull(f, data); err != nil {
		return nil, nil, fmt.Errorf("%s: %w", path, err)
	}
	return data, func() error { return nil }, nil
}
