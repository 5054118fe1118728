package load

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
)

func collect(r io.Reader) (out []string, err error) {
	for data, err := range Events(r) {
		if err != nil {
			return out, err
		}
		out = append(out, string(data))
	}
	return out, nil
}

func TestEvents(t *testing.T) {
	for text, want := range map[string][]string{
		"data: a\n\ndata: b\n\n":                         {"a", "b"},
		"data:a\r\n\r\ndata:  b\r\n\r\n":                 {"a", " b"},
		": ping\n\nevent: x\nid: 7\ndata: a\n\n":         {"a"},
		"data: a\ndata: b\n\n":                           {"a\nb"},
		"data:\n\n":                                      {""},
		"\n\n\n":                                         nil,
		"data: a\n\ndata: cut":                           {"a"},
		"data: a\n\ndata: cut\n":                         {"a"},
		"data: " + strings.Repeat("x", 100_000) + "\n\n": {strings.Repeat("x", 100_000)},
	} {
		for _, r := range []io.Reader{strings.NewReader(text), iotest.OneByteReader(strings.NewReader(text))} {
			got, err := collect(r)
			if err != nil || !slices.Equal(got, want) {
				t.Errorf("%.60q gave %.60q, %v", text, got, err)
			}
		}
	}
}

func TestEventsAreBounded(t *testing.T) {
	endless := io.MultiReader(strings.NewReader("data: "), &repeat{"x"})
	if _, err := collect(endless); err == nil || !strings.Contains(err.Error(), "line of more than") {
		t.Errorf("an endless line gave %v", err)
	}
	if _, err := collect(&repeat{"data: xxxxxxxx\n"}); err == nil ||
		!strings.Contains(err.Error(), "event of more than") {
		t.Errorf("an endless event gave %v", err)
	}
	broken := errors.New("broken")
	got, err := collect(io.MultiReader(strings.NewReader("data: a\n\n"), iotest.ErrReader(broken)))
	if !errors.Is(err, broken) || len(got) != 1 {
		t.Errorf("%q, %v", got, err)
	}
}

// repeat reads as one text over and over.
type repeat struct{ text string }

func (r *repeat) Read(p []byte) (int, error) {
	n := 0
	for n+len(r.text) <= len(p) {
		n += copy(p[n:], r.text)
	}
	return n, nil
}

// FuzzEvents checks that reading in small pieces changes nothing, and that no
// event has a line break it was not given.
func FuzzEvents(f *testing.F) {
	for _, text := range []string{"data: a\n\n", "data:a\r\n\r\n", ": c\n\ndata: x\ndata: y\n\n", "\r\n\n", "data",
		"data:\n\ndata"} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		whole, err1 := collect(bytes.NewReader(text))
		pieces, err2 := collect(iotest.OneByteReader(bytes.NewReader(text)))
		if !slices.Equal(whole, pieces) || (err1 == nil) != (err2 == nil) {
			t.Errorf("%q, %v and in pieces %q, %v", whole, err1, pieces, err2)
		}
		if n := strings.Count(strings.Join(whole, ""), "\n"); n > bytes.Count(text, []byte("data:")) {
			t.Errorf("%d line breaks from %q", n, text)
		}
	})
}

// FuzzAnswer checks that whatever a server streams, the record is sane.
func FuzzAnswer(f *testing.F) {
	for _, text := range []string{
		`data: {"choices":[{"delta":{"content":"a"}}]}` + "\n\ndata: [DONE]\n\n",
		`data: {"choices":[{"text":"a","finish_reason":"stop"}],"usage":{"prompt_tokens":-1,"completion_tokens":99999999999}}` + "\n\n",
		`data: {"choices":[{"text":7,"finish_reason":3}],"usage":[]}` + "\n\n",
		`data: {"error":{"message":"x"}}` + "\n\n", "data: {\n\n",
		`data: {"choices":[{"finish_reason":"length"}]}` + "\n\ndata: [DONE]\n\n",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		a := answer{keep: true}
		if err := a.read(bytes.NewReader(text)); err != nil {
			if failureOf(t.Context(), err).kind == "" {
				t.Errorf("%v has no kind", err)
			}
			return
		}
		var r Record
		a.fill(&r, a.first, a.last)
		if a.pieces == 0 || r.TTFT != 0 || r.Total < 0 || r.TPOT < 0 || r.OutputTokens < 0 ||
			r.OutputTokens > usageTokensMax {
			t.Errorf("%+v from %q", r, text)
		}
	})
}
