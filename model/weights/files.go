package weights

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"parley/internal/mapfile"
)

// textFileMax bounds config.json, the shard index and the other small text
// files of a checkpoint, so that a hostile one cannot fill the memory.
const textFileMax = 256 << 20

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
	size, err := mapfile.Size(f)
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
