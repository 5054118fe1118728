package job

import "testing"

// TestSaltsDependOnTheKey derives the salts of one scope from two keys.
func TestSaltsDependOnTheKey(t *testing.T) {
	one, two := Salts{Key: []byte("one")}, Salts{Key: []byte("two")}
	if one.of("a") == two.of("a") {
		t.Error("the key does not count")
	}
	if same := one.of("a"); same != one.of("a") || same == one.of("b") {
		t.Error("a scope does not have one salt of its own")
	}
}
