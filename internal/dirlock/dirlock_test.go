//go:build unix

package dirlock

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
)

func TestLock(t *testing.T) {
	dir := t.TempDir()
	for range 2 {
		held, err := Lock(dir)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Lock(dir); !errors.Is(err, ErrInUse) ||
			!strings.HasSuffix(err.Error(), fmt.Sprintf(": process %d", os.Getpid())) {
			t.Errorf("a directory that is locked gives %v", err)
		}
		if err := held.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := Lock(dir + "/absent"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a directory that does not exist gives %v", err)
	}
}
