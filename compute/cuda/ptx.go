package cuda

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"io/fs"
	"sync"
)

//go:generate kernels/generate.sh
//go:generate go test . -run TestPackPTX -args -rewrite

// ptxArchive holds the files of the folder ptx, compressed: as text they would be a
// sixth of the program without its models.
//
//go:embed ptx.zip
var ptxArchive []byte

// kernelsID changes with every kernel. Other kernels may round differently or lay out
// the pool in another way, so blocks that were kept on disk must not be read by them.
var kernelsID = sync.OnceValue(func() string {
	sum := sha256.Sum256(ptxArchive)
	return hex.EncodeToString(sum[:4])
})

var openPTX = sync.OnceValues(func() (fs.FS, error) {
	return zip.NewReader(bytes.NewReader(ptxArchive), int64(len(ptxArchive)))
})

// readPTX returns the PTX of a module. The error is [fs.ErrNotExist] if there is none.
func readPTX(module string) ([]byte, error) {
	files, err := openPTX()
	if err != nil {
		return nil, err
	}
	return fs.ReadFile(files, module+".ptx")
}
