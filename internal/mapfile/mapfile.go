// Package mapfile maps whole files read-only into memory, and reads them where they cannot be mapped.
package mapfile

import (
	"fmt"
	"math"
	"os"
)

// Size returns the length of an open file that can be mapped.
func Size(f *os.File) (int, error) {
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
