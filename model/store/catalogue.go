package store

import (
	_ "embed" // for the catalogue
	"encoding/json"
	"slices"
	"strings"
)

//go:embed catalogue.json
var catalogueText []byte

// An Entry is a model of the catalogue: one that Parley's architectures, quantizations
// and tokenizers cover, under a short name.
type Entry struct {
	Name   string `json:"name"`
	Source string `json:"source"`
	// Parameters is their number for people, Bytes the size of the download.
	Parameters string `json:"parameters"`
	Bytes      int64  `json:"bytes"`
	// ContextTokens is what the model was made for; KVBytesPerToken what one token of
	// context takes in the pool, as bf16.
	ContextTokens   int    `json:"context"`
	KVBytesPerToken int64  `json:"kv_bytes_per_token"`
	Architecture    string `json:"architecture"`
	License         string `json:"license"`
	GoodAt          string `json:"good_at"`
}

var catalogue = readCatalogue()

func readCatalogue() (entries []Entry) {
	if err := json.Unmarshal(catalogueText, &entries); err != nil {
		panic(err) // a mistake in the embedded file, which a test reads
	}
	return entries
}

// Catalogue lists the models with short names, smallest first.
func Catalogue() []Entry { return slices.Clone(catalogue) }

// FindEntry returns the model of a name, or the smallest of a family, such as qwen3; nil
// if there is none.
func FindEntry(name string) *Entry {
	var family *Entry
	for i := range catalogue {
		e := &catalogue[i]
		if strings.EqualFold(e.Name, name) {
			return e
		}
		if base, _, _ := strings.Cut(e.Name, ":"); family == nil && strings.EqualFold(base, name) {
			family = e
		}
	}
	return family
}

// workBytes is about what activations and scores take beside weights and context.
const workBytes = 200 << 20

// MemoryBytes is about what the model takes with a context of that many tokens.
func (e *Entry) MemoryBytes(contextTokens int) int64 {
	return e.Bytes + workBytes + e.KVBytesPerToken*int64(min(contextTokens, e.ContextTokens))
}

// ContextThatFits returns the longest context for which the memory is enough; 0 if not
// even the weights fit.
func (e *Entry) ContextThatFits(memory int64) int {
	return int(max(0, min(int64(e.ContextTokens), (memory-e.MemoryBytes(0))/e.KVBytesPerToken)))
}
