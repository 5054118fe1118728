package grammar

import (
	"encoding/json"
	"testing"

	"parley"
)

// BenchmarkHostile times each hostile schema to its refusal or its end.
func BenchmarkHostile(b *testing.B) {
	for _, name := range sortedKeys(hostile) {
		g := parley.Grammar{Kind: parley.GrammarSchema, Schema: json.RawMessage(hostile[name].schema), Strict: true}
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_, _ = Compile(&g)
			}
		})
	}
}
