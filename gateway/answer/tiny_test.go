package answer

import (
	"sync"
	"testing"

	"parley"
	"parley/internal/testkit"
	"parley/token"
)

var tinyTokenizer = sync.OnceValue(func() *token.Tokenizer {
	t, err := token.Load(testkit.Golden("tiny-llama"))
	if err != nil {
		panic(err)
	}
	return t
})

func tokensOf(t testing.TB, text string) []parley.Token {
	ids, err := tinyTokenizer().Encode(text, token.Options{ParseSpecial: true})
	if err != nil {
		t.Fatal(err)
	}
	return ids
}
