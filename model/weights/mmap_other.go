//go:build !linux && !darwin

package weights

import (
	"fmt"
	"io"
	"os"
)

// forget does nothing: the file is in memory, and must stay there.
func forget([]byte) {}

// mapFile reads a whole file into memory, where files cannot be mapped.
func mapFile(path string) (data []byte, unmap func() error, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	size, err := regularSize(f)
	if err != nil {
		return nil, nil, err
	}
	data = make([]byte, size)
	if _, err := io.ReadFull(f, data); err != nil {
		return nil, nil, fmt.Errorf("%s: %w", path, err)
	}
	return data, func() error { return nil }, nil
}
