package jinja

import (
	"math/big"
	"strings"
	"testing"
)

func TestFromJSON(t *testing.T) {
	v, err := FromJSON([]byte(
		`{"z": 1, "a": [1.0, 1e2, -0, 123456789012345678901234567890, true, null, "é\ud83d\ude00"], "z": 2, "m": {}}`))
	if err != nil {
		t.Fatal(err)
	}
	vars := NewMap()
	vars.Set("v", v)
	got, err := renderPlain("{{ v }}", vars)
	want := "{'z': 2, 'a': [1.0, 100.0, 0, 123456789012345678901234567890, True, None, 'é😀'], 'm': {}}"
	if err != nil || got != want {
		t.Errorf("got %s, %v\nwant %s", got, err, want)
	}
	for _, bad := range []string{"", "{", "[1,", `{"a"}`, "1 2", "nul", `{"a":1,}`, "[1}", "]",
		strings.Repeat("[", 600) + strings.Repeat("]", 600), strings.Repeat("9", 10_000)} {
		if v, err := FromJSON([]byte(bad)); err == nil {
			t.Errorf("%.20q: got %v, want an error", bad, v)
		}
	}
}

func TestFromGo(t *testing.T) {
	v, err := FromGo(map[string]any{
		"b": []any{1, 0.5},
		"a": []any{"x"},
		"c": map[string]any{"k": true},
		"d": []any{map[string]any{"n": nil}},
		"e": []byte(`{"y": 1, "x": 2}`),
		"f": new(big.Int).Lsh(big.NewInt(1), 70),
	})
	if err != nil {
		t.Fatal(err)
	}
	vars := NewMap()
	vars.Set("v", v)
	got, err := renderPlain("{{ v }}", vars)
	want := "{'a': ['x'], 'b': [1, 0.5], 'c': {'k': True}, 'd': [{'n': None}], 'e': {'y': 1, 'x': 2}, " +
		"'f': 1180591620717411303424}"
	if err != nil || got != want {
		t.Errorf("got %s, %v\nwant %s", got, err, want)
	}
	if _, err := FromGo(map[string]any{"x": []any{make(chan int)}}); err == nil ||
		!strings.Contains(err.Error(), `key "x": item 0`) {
		t.Errorf("a channel: %v", err)
	}
}

// TestMapOrder fills a map beyond the size at which it starts to hash.
func TestMapOrder(t *testing.T) {
	m := NewMap()
	names := strings.Fields("q w e r t y u i o p a s d f g h j k l")
	for i, name := range names {
		m.Set(name, i)
	}
	m.Set("e", "again")
	if got := strings.Join(m.Keys(), " "); got != strings.Join(names, " ") {
		t.Errorf("keys are %s", got)
	}
	for i, name := range names {
		want := Value(i)
		if name == "e" {
			want = "again"
		}
		if got, ok := m.Get(name); !ok || got != want {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
	if _, ok := m.Get("nosuch"); ok || m.Len() != len(names) {
		t.Errorf("a missing key was found, or the length %d is not %d", m.Len(), len(names))
	}
}

// TestInvalidUTF8 checks that text cut in the middle of a character, which a
// client may send, is handled everywhere.
func TestInvalidUTF8(t *testing.T) {
	vars := NewMap()
	vars.Set("x", "a\xffb\xe4\xbd")
	for _, expr := range []string{"x", "x[1]", "x[-1]", "x[::-1]", "x[1:3]", "x|list", "[x]", "x|tojson",
		"x|tojson(ensure_ascii=true)", "x.upper()", "x.title()", "x.split('b')", "'{}'.format(x)", "x|title",
		"x.find('b')", "x|reverse", "x.strip('a')"} {
		if _, err := renderPlain("{{ "+expr+" }}", vars); err != nil {
			t.Errorf("%s: %v", expr, err)
		}
	}
}
