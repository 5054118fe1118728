package answer

import (
	"encoding/hex"
	"slices"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// A customCalls makes the calls of custom tools in one choice what their clients expect: the input alone, as a text.
type customCalls struct {
	names []string
	// current reads the arguments of the call that is being written; nil if it is one of a function.
	current *inputReader
}

// convert changes the calls of pieces.
func (c *customCalls) convert(pieces []Piece) {
	if len(c.names) == 0 {
		return
	}
	for i := range pieces {
		for n := range pieces[i].Calls {
			call := &pieces[i].Calls[n]
			if call.Name != "" {
				if c.current = nil; slices.Contains(c.names, call.Name) {
					c.current = &inputReader{}
				}
			}
			if c.current != nil {
				call.Custom, call.Arguments = true, c.current.read(call.Arguments)
			}
		}
		pieces[i].Calls = slices.DeleteFunc(pieces[i].Calls, func(p CallPiece) bool {
			return p.Custom && p.Name == "" && p.Arguments == ""
		})
	}
}

// An inputReader reads {"input": "…"} as it is written and returns the text. What is not such an object is returned
// as it is.
type inputReader struct {
	state inputState
	// held is the head of the object, or an escape.
	held []byte
	// high is the first half of a pair of escapes.
	high rune
}

type inputState int

const (
	inputHead inputState = iota
	inputText
	inputEscape
	inputOver
	// inputOther is a text that is not an object with an input.
	inputOther
)

func (r *inputReader) read(text string) string {
	var out strings.Builder
	for i := range len(text) {
		r.feed(&out, text[i])
	}
	return out.String()
}

func (r *inputReader) feed(out *strings.Builder, b byte) {
	switch r.state {
	case inputHead:
		r.held = append(r.held, b)
		r.readHead(out)
	case inputText:
		switch {
		case b == '\\':
			r.state, r.held = inputEscape, r.held[:0]
			return
		case b == '"':
			r.state = inputOver
		default:
			r.lone(out)
			out.WriteByte(b)
			return
		}
		r.lone(out)
	case inputEscape:
		r.held = append(r.held, b)
		r.readEscape(out)
	case inputOther:
		out.WriteByte(b)
	}
}

// readHead finds out whether the object begins with the input.
func (r *inputReader) readHead(out *strings.Builder) {
	rest := string(r.held)
	for _, part := range []string{"{", `"input"`, ":", `"`} {
		rest = strings.TrimLeft(rest, " \t\r\n")
		if len(rest) < len(part) && strings.HasPrefix(part, rest) {
			return
		}
		after, ok := strings.CutPrefix(rest, part)
		if !ok {
			r.state = inputOther
			out.Write(r.held)
			return
		}
		rest = after
	}
	r.state = inputText
}

var shortEscapes = map[byte]byte{'"': '"', '\\': '\\', '/': '/', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t'}

func (r *inputReader) readEscape(out *strings.Builder) {
	switch {
	case r.held[0] != 'u':
		r.lone(out)
		if c, ok := shortEscapes[r.held[0]]; ok {
			out.WriteByte(c)
		}
	case len(r.held) < 5:
		return
	default:
		r.readUnit(out)
	}
	r.state = inputText
}

// readUnit reads an escape of four hexadecimal digits.
func (r *inputReader) readUnit(out *strings.Builder) {
	var unit [2]byte
	if _, err := hex.Decode(unit[:], r.held[1:5]); err != nil {
		r.lone(out)
		out.WriteRune(utf8.RuneError)
		return
	}
	c := rune(unit[0])<<8 | rune(unit[1])
	if both := utf16.DecodeRune(r.high, c); r.high != 0 && both != utf8.RuneError {
		r.high = 0
		out.WriteRune(both)
		return
	}
	r.lone(out)
	if c >= 0xD800 && c < 0xDC00 {
		r.high = c
		return
	}
	out.WriteRune(c)
}

// lone replaces the first half of a pair whose other half did not come.
func (r *inputReader) lone(out *strings.Builder) {
	if r.high != 0 {
		out.WriteRune(utf8.RuneError)
		r.high = 0
	}
}
