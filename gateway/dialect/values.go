package dialect

import (
	"encoding/json"
	"strconv"
	"strings"
)

// readLiteral returns the JSON of one literal: JSON itself, what Python prints, or JSON whose names are bare and whose
// strings stand between quotes of their own.
func readLiteral(text, quotes string) (string, bool) {
	p := literalReader{rest: text, quotes: quotes}
	value, ok := p.value(0)
	p.space()
	if !ok || p.rest != "" || !json.Valid([]byte(value)) {
		return "", false
	}
	return value, true
}

// readKeywords returns keyword arguments of Python as a JSON object.
func readKeywords(text string) (string, bool) {
	p := literalReader{rest: text}
	value, ok := p.members(0, "=", "")
	if !ok || !json.Valid([]byte(value)) {
		return "", false
	}
	return value, true
}

// isBalanced reports whether Python source is outside of all brackets and quotes.
func isBalanced(text []byte) bool {
	depth, quote := 0, byte(0)
	for i := 0; i < len(text); i++ {
		switch b := text[i]; {
		case quote != 0 && b == '\\':
			i++
		case quote != 0:
			if b == quote {
				quote = 0
			}
		case b == '"' || b == '\'':
			quote = b
		case strings.IndexByte("([{", b) >= 0:
			depth++
		case strings.IndexByte(")]}", b) >= 0:
			depth--
		}
	}
	return depth == 0 && quote == 0
}

// literalDepthMax bounds lists inside of lists.
const literalDepthMax = 64

// A literalReader reads literals from the front of a text.
type literalReader struct {
	rest   string
	quotes string
}

func (p *literalReader) space() { p.rest = strings.TrimLeft(p.rest, " \t\r\n") }

// take removes a text from the front.
func (p *literalReader) take(text string) bool {
	rest, ok := strings.CutPrefix(p.rest, text)
	p.rest = rest
	return ok && text != ""
}

func (p *literalReader) value(depth int) (string, bool) {
	p.space()
	switch {
	case depth > literalDepthMax || p.rest == "":
		return "", false
	case p.quotes != "" && strings.HasPrefix(p.rest, p.quotes):
		inner, rest, ok := strings.Cut(p.rest[len(p.quotes):], p.quotes)
		p.rest = rest
		return quote(inner), ok
	case p.rest[0] == '"' || p.rest[0] == '\'':
		return p.text()
	case p.take("{"):
		return p.members(depth, ":", "}")
	case p.take("["):
		return p.list(depth)
	}
	return p.word()
}

// text reads a string of JSON or Python.
func (p *literalReader) text() (string, bool) {
	mark := p.rest[0]
	out := []byte{'"'}
	for i := 1; i < len(p.rest); i++ {
		switch b := p.rest[i]; {
		case b == mark:
			p.rest = p.rest[i+1:]
			return string(append(out, '"')), true
		case b != '\\' || i+1 == len(p.rest):
			out = append(out, escape(b)...)
		default:
			i++
			switch next := p.rest[i]; {
			case next == '\'':
				out = append(out, next)
			case next == 'x' && i+2 < len(p.rest):
				out = append(out, `\u00`+p.rest[i+1:i+3]...)
				i += 2
			default:
				out = append(out, '\\', next)
			}
		}
	}
	return "", false
}

// members reads names with values until shut, or to the end if there is none.
func (p *literalReader) members(depth int, between, shut string) (string, bool) {
	out := []byte{'{'}
	for {
		p.space()
		if p.take(shut) || shut == "" && p.rest == "" {
			return string(append(out, '}')), true
		}
		if len(out) > 1 {
			out = append(out, ", "...)
		}
		key, ok := p.key(between)
		if !ok {
			return "", false
		}
		value, ok := p.value(depth + 1)
		if !ok {
			return "", false
		}
		out = append(append(append(out, key...), ": "...), value...)
		p.space()
		if !p.take(",") && !strings.HasPrefix(p.rest, shut) {
			return "", false
		}
	}
}

// key reads a name, quoted or not, and what stands behind it.
func (p *literalReader) key(between string) (string, bool) {
	if p.rest == "" {
		return "", false
	}
	if p.rest[0] == '"' || p.rest[0] == '\'' || p.quotes != "" && strings.HasPrefix(p.rest, p.quotes) {
		key, ok := p.value(0)
		p.space()
		return key, ok && p.take(between)
	}
	key, rest, ok := strings.Cut(p.rest, between)
	p.rest = rest
	return quote(strings.TrimSpace(key)), ok && !strings.ContainsAny(key, "{}[],")
}

func (p *literalReader) list(depth int) (string, bool) {
	out := []byte{'['}
	for {
		p.space()
		if p.take("]") {
			return string(append(out, ']')), true
		}
		if len(out) > 1 {
			out = append(out, ", "...)
		}
		value, ok := p.value(depth + 1)
		if !ok {
			return "", false
		}
		out = append(out, value...)
		p.space()
		if !p.take(",") && !strings.HasPrefix(p.rest, "]") {
			return "", false
		}
	}
}

// word reads a number or a constant.
func (p *literalReader) word() (string, bool) {
	end := strings.IndexAny(p.rest, ",]} \t\r\n")
	if end < 0 {
		end = len(p.rest)
	}
	word := p.rest[:end]
	p.rest = p.rest[end:]
	switch word {
	case "True":
		word = "true"
	case "False":
		word = "false"
	case "None":
		word = "null"
	}
	return word, json.Valid([]byte(word))
}

// escape returns a byte of a JSON string.
func escape(b byte) string {
	switch {
	case b == '"':
		return `\"`
	case b == '\\':
		return `\\`
	case b == '\n':
		return `\n`
	case b == '\t':
		return `\t`
	case b == '\r':
		return `\r`
	case b < 0x20:
		return `\u00` + strconv.FormatUint(uint64(b)+0x100, 16)[1:]
	}
	return string([]byte{b})
}

// quote returns a text as a JSON string.
func quote(text string) string {
	quoted := []byte{'"'}
	for i := range len(text) {
		quoted = append(quoted, escape(text[i])...)
	}
	return string(append(quoted, '"'))
}
