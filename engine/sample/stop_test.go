package sample

import (
	"slices"
	"strings"
	"testing"

	"parley"
)

// pieces makes each piece of text a token: its place in the list.
func pieces(texts ...string) func(parley.Token) []byte {
	return func(token parley.Token) []byte {
		if token < 0 || int(token) >= len(texts) {
			return nil
		}
		return []byte(texts[token])
	}
}

// pushAll pushes tokens 0, 1, ... until done and returns how many it took.
func pushAll(s *Stopper, tokens int) (taken int, matched string) {
	for token := range parley.Token(tokens) {
		if done, matched := s.Push(token); done {
			return int(token) + 1, matched
		}
	}
	return -1, ""
}

func TestStopStrings(t *testing.T) {
	for _, c := range []struct {
		name    string
		stop    []string
		text    []string
		taken   int
		matched string
	}{
		{"none", nil, []string{"a", "b"}, -1, ""},
		{"whole token", []string{"b"}, []string{"a", "b", "c"}, 2, "b"},
		{"across tokens", []string{"END"}, []string{"xE", "N", "Dy", "z"}, 3, "END"},
		{"within a token", []string{"b"}, []string{"abc", "d"}, 1, "b"},
		{"within a character", []string{"é"}, []string{"\xc3", "\xa9!", "x"}, 2, "é"},
		{"after a false start", []string{"aab"}, []string{"aa", "ab"}, 2, "aab"},
		{"overlapping itself", []string{"abab"}, []string{"aba", "bab"}, 2, "abab"},
		{"first to end wins over first to start", []string{"abcd", "bc"}, []string{"abcd"}, 1, "bc"},
		{"longest of those that end together", []string{"c", "abc", "bc"}, []string{"ab", "c"}, 2, "abc"},
		{"the first of two in a token", []string{"yy", "xx"}, []string{"a xx yy"}, 1, "xx"},
		{"empty string never stops", []string{""}, []string{"a", "b"}, -1, ""},
		{"not there", []string{"xyz"}, []string{"xy", "xy", "x"}, -1, ""},
	} {
		stopper := NewStopper(parley.Stop{Strings: c.stop}, nil, pieces(c.text...))
		if taken, matched := pushAll(stopper, len(c.text)); taken != c.taken || matched != c.matched {
			t.Errorf("%s: stopped after %d tokens with %q, want %d with %q", c.name, taken, matched, c.taken, c.matched)
		}
	}
}

func TestStopTokens(t *testing.T) {
	bytesOf := pieces("a", "b", "", "d")
	ends := []parley.Token{2, 9}
	for _, c := range []struct {
		name    string
		stop    parley.Stop
		taken   int
		matched string
	}{
		{"end token", parley.Stop{}, 3, ""},
		{"end ignored", parley.Stop{IgnoreEnd: true}, -1, ""},
		{"stop token", parley.Stop{Tokens: []parley.Token{1}}, 2, ""},
		{"stop token while the end is ignored", parley.Stop{Tokens: []parley.Token{3}, IgnoreEnd: true}, 4, ""},
		{"end asked for by name", parley.Stop{Tokens: []parley.Token{2}, IgnoreEnd: true}, 3, ""},
		{"token and string at once", parley.Stop{Tokens: []parley.Token{1}, Strings: []string{"ab"}}, 2, "ab"},
		{"a control token is no text", parley.Stop{Strings: []string{"bd"}, IgnoreEnd: true}, 4, "bd"},
	} {
		if taken, matched := pushAll(NewStopper(c.stop, ends, bytesOf), 4); taken != c.taken || matched != c.matched {
			t.Errorf("%s: stopped after %d tokens with %q, want %d with %q", c.name, taken, matched, c.taken, c.matched)
		}
	}
	if !slices.Equal(ends, []parley.Token{2, 9}) {
		t.Errorf("the end tokens became %v", ends)
	}
}

func TestDoneStaysDone(t *testing.T) {
	stopper := NewStopper(parley.Stop{Strings: []string{"b"}}, nil, pieces("a", "b"))
	for i, want := range []bool{false, true, true} {
		token := parley.Token(i % 2)
		if done, matched := stopper.Push(token); done != want || done != (matched == "b") {
			t.Errorf("push %d gave %v with %q", i, done, matched)
		}
	}
}

// firstMatch is the slow answer for the text so far: the earliest end at which
// a stop string is complete, and the longest that is complete there.
func firstMatch(text string, stop []string) string {
	for end := range len(text) + 1 {
		longest := ""
		for _, s := range stop {
			if s != "" && strings.HasSuffix(text[:end], s) && len(s) > len(longest) {
				longest = s
			}
		}
		if longest != "" {
			return longest
		}
	}
	return ""
}

func FuzzStopper(f *testing.F) {
	f.Add("the text END of it", "END", "of", "\n", uint8(3))
	f.Add("aaaaaaaaab", "aaab", "ab", "", uint8(2))
	f.Add("ababababac", "abac", "babac", "ababac", uint8(1))
	f.Add("h\xc3\xa9llo", "\xa9", "é", "lo", uint8(7))
	f.Fuzz(func(t *testing.T, text, first, second, third string, width uint8) {
		text = text[:min(len(text), 300)]
		stop := []string{first, second, third}
		var parts []string
		for rest, i := text, 0; rest != ""; i++ {
			n := min(len(rest), 1+(i*i+int(width))%(1+int(width)%11))
			parts, rest = append(parts, rest[:n]), rest[n:]
		}
		stopper := NewStopper(parley.Stop{Strings: stop}, nil, pieces(parts...))
		var soFar strings.Builder
		for i, part := range parts {
			soFar.WriteString(part)
			want := firstMatch(soFar.String(), stop)
			done, matched := stopper.Push(parley.Token(i))
			if matched != want || done != (want != "") {
				t.Fatalf("after %q: %v with %q, want %q", soFar.String(), done, matched, want)
			}
			if contains := slices.ContainsFunc(stop, func(s string) bool {
				return s != "" && strings.Contains(soFar.String(), s)
			}); contains != done {
				t.Fatalf("after %q: done is %v, but the text holds one of %q is %v", soFar.String(), done, stop,
					contains)
			}
			if done {
				return
			}
		}
	})
}
