// Package testkit holds what tests of several packages share: where the
// repository and its neighbouring data lie, and small models to run.
//
// Nothing outside tests may import it.
package testkit

import (
	"bytes"
	"compress/gzip"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Root returns the repository's root directory.
func Root() string {
	if root == "" {
		panic("testkit: no go.mod above the working directory")
	}
	return root
}

// root is found before a test can change the directory. It does not come from
// the names of source files, because a build may leave directories out of them.
// It is empty where a test runs itself as a command, elsewhere.
var root = findRoot()

func findRoot() string {
	dir, err := os.Getwd()
	if err != nil {
		panic("testkit: " + err.Error())
	}
	for {
		text, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err == nil && strings.HasPrefix(string(text), "module parley\n") {
			return dir
		}
		if dir == filepath.Dir(dir) {
			return ""
		}
		dir = filepath.Dir(dir)
	}
}

// SharedData returns the path of a file under the shared data directory that
// may lie beside the repository. The data are other people's and are not
// part of the repository, so a test that needs them is skipped, and says so,
// where they are absent.
func SharedData(t testing.TB, elem ...string) string {
	t.Helper()
	return beside(t, append([]string{"shared", "data"}, elem...))
}

// SharedModel returns the directory of a full-precision checkpoint that may
// lie beside the repository, which itself only holds quantized models. A test
// that needs it is skipped, and says so, where it is absent.
func SharedModel(t testing.TB, name string) string {
	t.Helper()
	return beside(t, []string{"shared", "models", name})
}

func beside(t testing.TB, elem []string) string {
	t.Helper()
	path := filepath.Join(append([]string{Root(), ".."}, elem...)...)
	if _, err := os.Stat(path); err != nil {
		t.Skipf("needs %s beside the repository, which is not part of it: %v", filepath.Join(elem...), err)
	}
	return path
}

// Golden returns the path of a file in the repository's golden directory:
// tiny checkpoints with exact outputs of a reference implementation.
func Golden(elem ...string) string {
	return filepath.Join(append([]string{Root(), "internal", "testkit", "golden"}, elem...)...)
}

// Gzip compresses content as much as gzip can.
func Gzip(t testing.TB, content []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err == nil {
		_, err = w.Write(content)
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}
