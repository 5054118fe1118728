//go:build linux && (amd64 || arm64)

package libcuda

import (
	"testing"

	"github.com/ebitengine/purego"
)

// TestCallsDoNotAllocate calls a function of the C library as those of the driver are
// called: a step makes hundreds of calls, and none leaves garbage.
func TestCallsDoNotAllocate(t *testing.T) {
	libc, err := purego.Dlopen("libc.so.6", purego.RTLD_NOW)
	if err != nil {
		t.Skip("there is no C library to call: ", err)
	}
	at, err := purego.Dlsym(libc, "labs")
	if err != nil {
		t.Fatal(err)
	}
	g := &GPU{library: &library{calls: map[string]uintptr{"labs": at, "cuCtxSetCurrent": at}}}
	allocations := testing.AllocsPerRun(1000, func() {
		if err := g.do("labs", 0, 1, 2, 3); err != nil {
			t.Fatal(err)
		}
	})
	if allocations != 0 {
		t.Errorf("a call allocates %v times", allocations)
	}
}
