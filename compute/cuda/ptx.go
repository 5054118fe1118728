package cuda

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"strings"
	"sync"

	"parley/internal/lzma"
)

//go:generate kernels/generate.sh
//go:generate kernels/pack.sh

// packedPTX holds the files of the folder ptx, compressed: as text they would be a third of
// the program without its models. Modules that resemble each other are one file, which begins
// with their names and sizes; kernels/pack.sh writes it.
//
//go:embed packed/*.lzma
var packedPTX embed.FS

// ptxSums are the checksums of the kernels' sources and of their PTX.
//
//go:embed ptx/SUMS
var ptxSums []byte

// kernelsID changes with every kernel. Other kernels may round differently or lay out
// the pool in another way, so blocks that were kept on disk must not be read by them.
var kernelsID = sync.OnceValue(func() string {
	sum := sha256.Sum256(ptxSums)
	return hex.EncodeToString(sum[:4])
})

// ptxIndexMax is more than the names and sizes at the beginning of a packed file take.
const ptxIndexMax = 4096

// readPTX returns the PTX of a module. The error is [fs.ErrNotExist] if there is none.
// A packed file is unpacked up to the end of the module, each time: modules are read
// once for a device, and nothing stays in memory.
func readPTX(module string) ([]byte, error) {
	group, _, _ := strings.Cut(module, "_")
	if group != "attend" && group != "linear" {
		group = "other"
	}
	packed, err := packedPTX.ReadFile("packed/" + group + ".lzma")
	if err != nil {
		return nil, err
	}
	begin, end, err := findPTX(packed, module+".ptx")
	if err != nil {
		return nil, err
	}
	text, err := lzma.Decode(packed, end)
	if err == nil && len(text) != end {
		err = fmt.Errorf("cuda: packed/%s.lzma ends within %s.ptx", group, module)
	}
	if err != nil {
		return nil, err
	}
	return text[begin:], nil
}

// moduleSource is [readPTX]. Tests open hundreds of devices, and keep what it returns.
var moduleSource = readPTX

// findPTX returns where a file begins and ends in the contents of a packed file.
func findPTX(packed []byte, file string) (begin, end int, err error) {
	start, err := lzma.Decode(packed, ptxIndexMax)
	if err != nil {
		return 0, 0, err
	}
	index, _, found := bytes.Cut(start, []byte("\n\n"))
	if !found {
		return 0, 0, fmt.Errorf("cuda: the index of the packed kernels is longer than %d bytes", ptxIndexMax)
	}
	end = len(index) + 2
	for line := range strings.Lines(string(index)) {
		name, size := "", 0
		if _, err := fmt.Sscan(line, &name, &size); err != nil {
			return 0, 0, fmt.Errorf("cuda: the index of the packed kernels has the line %q", line)
		}
		begin, end = end, end+size
		if name == file {
			return begin, end, nil
		}
	}
	return 0, 0, fmt.Errorf("cuda: %s: %w", file, fs.ErrNotExist)
}
