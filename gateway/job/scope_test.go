package job

import "testing"

// TestSaltsDependOnTheKey derives the salts of one scope from two keys.
func TestSaltsDependOnTheKey(t *testing.T) {
	one, two := Salts{Key: []byte("one")}, Salts{Key: []byte("two")}
	if one.of("a") == two.of("a") {
		t.Error("the key does not count")
	}
	if one.of("a") != one.of("a") || one.of("a") == one.of("b") {
		t.Error("a scope has not one salt of its own")
	}
}
