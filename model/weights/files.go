package weights

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
)

// textFileMax bounds config.json, the shard index and the other small text
// files of a checkpoint, so that a hostile one cannot fill the memory.
const textFileMax = 256 << 20

// regularSize returns the length of an open file that can be mapped.
func regularSize(f *os.File) (int, error) {
	st, err := f.Stat()
	if err != nil {
		return 0, err
	}
	if !st.Mode().IsRegular() {
		return 0, fmt.Errorf("%s is not a regular file", f.Name())
	}
	if st.Size() == 0 {
		return 0, fmt.Errorf("%s is empty", f.Name())
	}
	if st.Size() > math.MaxInt {
		return 0, fmt.Errorf("%s has %d bytes, more than this machine can address", f.Name(), st.Size())
	}
	return int(st.Size()), nil
}

// readText reads a small file of a checkpoint directory. A file that is not
// there is nil without an error.
func readText(dir, name string) ([]byte, error) {
	f, err := os.Open(filepath.Join(dir, name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	size, err := regularSize(f)
	if err != nil {
		return nil, err
	}
	if size > textFileMax {
		return nil, fmt.Errorf("%s has %d bytes, more than the %d allowed", f.Name(), size, textFileMax)
	}
	data, err := io.ReadAll(io.LimitReader(f, textFileMax))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.Name(), err)
	}
	return data, nil
}
