// Package builtin carries the models that come with Parley inside the binary:
// Polly, a small chat model, and Polly-mini, a smaller one with the same
// vocabulary. Both are ours; their cards lie beside this file.
package builtin

import (
	_ "embed" // for the model files
	"slices"

	"parley/model/weights"
)

//go:generate go run ./gen -in ../../../shared/models/polly -out polly.gguf -type q8_0
//go:generate go run ./gen -in ../../../shared/models/polly-mini -out polly-mini.gguf -type q8_0

//go:embed polly.gguf
var polly []byte

//go:embed polly-mini.gguf
var pollyMini []byte

// A Model is one that comes with the binary.
type Model struct {
	// Name is what clients call it.
	Name string
	// Summary says in one line what it is.
	Summary string
	// Draft names the built-in model that guesses ahead for it; empty if none
	// is smaller.
	Draft string

	file []byte
}

var models = []Model{
	{"polly", "30.7M parameters: small talk, short stories, simple facts", "polly-mini", polly},
	{"polly-mini", "5.1M parameters: the same, more simply", "", pollyMini},
}

// Models lists the built-in models, the default one first.
func Models() []Model { return slices.Clone(models) }

// Find returns the built-in model with the name.
func Find(name string) (Model, bool) {
	i := slices.IndexFunc(models, func(m Model) bool { return m.Name == name })
	if i < 0 {
		return Model{}, false
	}
	return models[i], true
}

// Open opens the model. Its weights are read in place.
func (m Model) Open() (*weights.Checkpoint, error) { return weights.ParseGGUF(m.file) }
