package model

// loadMistral loads Mistral: a Llama whose layers may see a sliding window
// only. Which layers do is in the config, so the parts are Llama's.
func loadMistral(l *loader) (architecture, error) {
	return loadDecoder(l, l.mlp)
}
