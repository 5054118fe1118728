package largepage

import (
	"bufio"
	"fmt"
	"os"
	"strings"
	"testing"
	"unsafe"
)

// TestAskMarksTheMemory looks at what the system has noted about the memory under a
// slice.
func TestAskMarksTheMemory(t *testing.T) {
	if _, err := os.Stat("/sys/kernel/mm/transparent_hugepage/enabled"); err != nil {
		t.Skip("this system has no large pages")
	}
	large := make([]uint64, 1<<20)
	Ask(large)
	if flags := flagsOf(t, uintptr(unsafe.Pointer(&large[len(large)/2]))); !strings.Contains(flags+" ", " hg ") {
		t.Errorf("the flags of the memory are%s, without hg", flags)
	}
	large[0] = 1
}

// flagsOf returns the flags of the mapping that has an address.
func flagsOf(t *testing.T, address uintptr) string {
	maps, err := os.Open("/proc/self/smaps")
	if err != nil {
		t.Skip(err)
	}
	defer maps.Close()
	within := false
	for lines := bufio.NewScanner(maps); lines.Scan(); {
		var from, to uintptr
		if n, _ := fmt.Sscanf(lines.Text(), "%x-%x ", &from, &to); n == 2 {
			within = from <= address && address < to
		}
		if flags, ok := strings.CutPrefix(lines.Text(), "VmFlags:"); ok && within {
			return flags
		}
	}
	t.Skip("the system does not tell flags")
	return ""
}

func TestAskTakesSmallAndEmptySlices(t *testing.T) {
	Ask([]byte(nil))
	Ask(make([]byte, 1))
	Ask(make([]byte, Worthwhile))
}

// TestTheSystemIsAskedAgainWhenTheRequestsDoubled: it costs far too much to be asked
// each time.
func TestTheSystemIsAskedAgainWhenTheRequestsDoubled(t *testing.T) {
	const at = 1 // no chunk begins there
	asked.Lock()
	delete(asked.chunks, at) // of an earlier run in this process
	asked.Unlock()
	times := 0
	for range 1000 {
		if due(at) {
			times++
		}
	}
	if times != 10 {
		t.Errorf("asked %d times for a thousand requests, want 10", times)
	}
}
