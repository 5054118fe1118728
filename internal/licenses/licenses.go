// Package licenses knows what other people's code is in the program and under
// which licences: Go modules and Go itself. The list is generated from the
// module cache; a test compares it with go.mod.
package licenses

import (
	"bytes"
	"compress/gzip"
	_ "embed"
	"encoding/json"
	"sync"
)

//go:generate go run ./gen -out modules.json.gz

//go:embed modules.json.gz
var packed []byte

// A Module is a Go module that the program or its tests are built with.
type Module struct {
	// Path is the module's path; "std" is Go's own library.
	Path    string `json:"path"`
	Version string `json:"version,omitempty"`
	// License is the identifier in the SPDX list, such as "BSD-3-Clause".
	License string `json:"license"`
	// Text is the licence as the module has it, with the notices it asks to keep.
	Text string `json:"text"`
}

// Modules returns all modules, by path.
var Modules = sync.OnceValue(func() (list []Module) {
	r, err := gzip.NewReader(bytes.NewReader(packed))
	if err == nil {
		err = json.NewDecoder(r).Decode(&list)
	}
	if err != nil {
		panic("internal/licenses: modules.json.gz: " + err.Error())
	}
	return list
})
