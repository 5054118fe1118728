package jsonscan

import (
	"encoding/json"
	"strings"
	"testing"
)

// TestScanner reads a document with every kind of value.
func TestScanner(t *testing.T) {
	s := New(` {"a": [1, 22 ,3], "b\n": {"x": ["y", {"}": "]\""}]}, "c": -1.5e2 } `)
	var got []string
	err := s.Object(func(key string) error {
		got = append(got, key)
		switch key {
		case "a":
			return s.Array(func() error {
				n, err := s.Integer(22)
				got = append(got, strings.Repeat("i", int(n)))
				return err
			})
		case "c":
			n, err := s.Number()
			if n != -150 {
				t.Errorf("the number is %g", n)
			}
			return err
		}
		raw, err := s.Raw()
		got = append(got, string(raw))
		return err
	})
	want := "a i " + strings.Repeat("i", 22) + ` iii b
 {"x": ["y", {"}": "]\""}]} c`
	if err != nil || strings.Join(got, " ") != want {
		t.Errorf("got %q, %v, want %q", strings.Join(got, " "), err, want)
	}
	if err := s.End(); err != nil {
		t.Error(err)
	}
}

func TestErrorsSayWhere(t *testing.T) {
	for data, want := range map[string]string{
		`[1 2]`: `at byte 3 there is '2' instead of ']'`,
		`[1`:    `ends too early`,
		`["a`:   `instead of a whole number`,
		`[23]`:  `the number at byte 1 is larger than 22`,
		`{}`:    `at byte 0 there is '{' instead of '['`,
		`[1] x`: `at byte 4 there is 'x' instead of the end`,
		``:      `ends too early`,
		`[4x]`:  `at byte 2 there is 'x' instead of ']'`,
	} {
		s := New(data)
		err := s.Array(func() error {
			_, err := s.Integer(22)
			return err
		})
		if err == nil {
			err = s.End()
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s gives %v, want %q", data, err, want)
		}
	}
}

// FuzzString compares with encoding/json, which replaces bytes that are not UTF-8 where this package refuses them.
func FuzzString(f *testing.F) {
	for _, text := range []string{`""`, `"a"`, `"\u00e9\n\/"`, `"\ud83d\ude00\ud83d"`, `"\x"`, `"\u12"`, `"a\`, "\"\n\"", "\"\xff\"",
		`"\ud83d\u0041"`} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s := New(text)
		got, err := s.String()
		if err == nil {
			err = s.End()
		}
		var want string
		wantErr := json.Unmarshal([]byte(text), &want)
		switch {
		case err == nil && (wantErr != nil || got != want):
			t.Errorf("%q reads as %q, by encoding/json as %q, %v", text, got, want, wantErr)
		case err != nil && wantErr == nil && strings.HasPrefix(strings.TrimSpace(text), `"`) && !strings.Contains(want, "\uFFFD"):
			t.Errorf("%q is refused: %v", text, err)
		}
	})
}
