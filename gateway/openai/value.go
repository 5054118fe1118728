package openai

import (
	"bytes"
	"encoding/json"
	"errors"
	"iter"
	"strconv"
	"strings"
	"unicode/utf8"

	"parley"
)

// depthMax bounds the nesting of a body. JSON schemas of real tools stay well
// under twenty levels.
const depthMax = 64

// A value is one JSON value inside a body that was already found valid. It
// borrows the body's bytes and knows where it stands, so that reading costs no
// copy and an error can name the path.
type value struct {
	raw    []byte
	parent *value
	key    string
	index  int
}

// document checks body as a whole and returns its top-level object.
func document(body []byte) (value, error) {
	if len(bytes.TrimSpace(body)) == 0 {
		return value{}, parley.Invalid("", "The request body is empty. Send a JSON object.")
	}
	if !utf8.Valid(body) {
		return value{}, parley.Invalid("", "The request body is not valid UTF-8.")
	}
	if !nestedAtMost(body, depthMax) {
		return value{}, parley.Invalid("", "The request body is nested more than %d levels deep.", depthMax)
	}
	if !json.Valid(body) {
		return value{}, syntaxError(body)
	}
	v := value{raw: bytes.TrimSpace(body)}
	if v.raw[0] != '{' {
		return value{}, parley.Invalid("", "The request body must be a JSON object, but it is %s.", v.kind())
	}
	return v, nil
}

// syntaxError says where body stops being JSON. Only invalid bodies pay for
// the second reading.
func syntaxError(body []byte) error {
	err := json.Unmarshal(body, new(json.RawMessage))
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
		return parley.Invalid("", "The request body is not valid JSON at byte %d: %v.", syntax.Offset, syntax)
	}
	return parley.Invalid("", "The request body is not valid JSON: %v.", err)
}

// nestedAtMost reports whether body never opens more than depth brackets at
// once, strings apart. It is right for any bytes, so it runs before the parser.
func nestedAtMost(body []byte, depth int) bool {
	open := 0
	for i := 0; i < len(body); i++ {
		switch body[i] {
		case '"':
			i = stringEnd(body, i) - 1
		case '{', '[':
			if open++; open > depth {
				return false
			}
		case '}', ']':
			open--
		}
	}
	return true
}

// stringEnd returns the index after the string that begins at i, or the length
// of raw if it never ends.
func stringEnd(raw []byte, i int) int {
	for i++; i < len(raw); i++ {
		switch raw[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(raw)
}

// valueEnd returns the index after the value that begins at i of valid JSON.
func valueEnd(raw []byte, i int) int {
	switch raw[i] {
	case '"':
		return stringEnd(raw, i)
	case '{', '[':
		return bracketEnd(raw, i)
	}
	for i < len(raw) && !isSeparator(raw[i]) && raw[i] != '}' && raw[i] != ']' {
		i++
	}
	return i
}

func bracketEnd(raw []byte, i int) int {
	for open := 0; i < len(raw); i++ {
		switch raw[i] {
		case '"':
			i = stringEnd(raw, i) - 1
		case '{', '[':
			open++
		case '}', ']':
			if open--; open == 0 {
				return i + 1
			}
		}
	}
	return len(raw)
}

func isSeparator(b byte) bool {
	return b == ' ' || b == '\t' || b == '\n' || b == '\r' || b == ',' || b == ':'
}

func skipSeparators(raw []byte, i int) int {
	for i < len(raw) && isSeparator(raw[i]) {
		i++
	}
	return i
}

// elements walks an array.
func (v *value) elements() iter.Seq2[int, value] {
	return func(yield func(int, value) bool) {
		for i, n := skipSeparators(v.raw, 1), 0; v.raw[i] != ']'; n++ {
			end := valueEnd(v.raw, i)
			if !yield(n, value{raw: v.raw[i:end], parent: v, index: n}) {
				return
			}
			i = skipSeparators(v.raw, end)
		}
	}
}

// members walks an object. A name that occurs twice is met twice.
func (v *value) members() iter.Seq2[string, value] {
	return func(yield func(string, value) bool) {
		for i := skipSeparators(v.raw, 1); v.raw[i] != '}'; {
			keyEnd := stringEnd(v.raw, i)
			key := unquote(v.raw[i:keyEnd])
			start := skipSeparators(v.raw, keyEnd)
			end := valueEnd(v.raw, start)
			if !yield(key, value{raw: v.raw[start:end], parent: v, key: key}) {
				return
			}
			i = skipSeparators(v.raw, end)
		}
	}
}

// unquote decodes a valid JSON string. Lone surrogates become U+FFFD.
func unquote(raw []byte) string {
	if inner := raw[1 : len(raw)-1]; bytes.IndexByte(inner, '\\') < 0 {
		return string(inner)
	}
	var s string
	_ = json.Unmarshal(raw, &s) // the document was found valid
	return s
}

// path names the value as a client would write it: messages[2].content.
func (v *value) path() string {
	if v.parent == nil {
		return ""
	}
	above := v.parent.path()
	switch {
	case v.parent.raw[0] == '[':
		return above + "[" + strconv.Itoa(v.index) + "]"
	case above == "":
		return shorten(v.key)
	}
	return above + "." + shorten(v.key)
}

// shorten keeps names that clients made up from filling the answer.
func shorten(s string) string {
	if len(s) <= 64 {
		return s
	}
	return strings.ToValidUTF8(s[:64], "") + "…"
}

// kind names the type of a value in the words of an error message.
func (v *value) kind() string {
	switch v.raw[0] {
	case '{':
		return "an object"
	case '[':
		return "an array"
	case '"':
		return "a string"
	case 't', 'f':
		return "a boolean"
	case 'n':
		return "null"
	}
	if bytes.ContainsAny(v.raw, ".eE") {
		return "a decimal"
	}
	return "an integer"
}

func (v *value) isNull() bool   { return v.raw[0] == 'n' }
func (v *value) isString() bool { return v.raw[0] == '"' }
func (v *value) isArray() bool  { return v.raw[0] == '[' }
func (v *value) isObject() bool { return v.raw[0] == '{' }
func (v *value) isEmptyArray() bool {
	return v.raw[skipSeparators(v.raw, 1)] == ']'
}
func (v *value) isNumber() bool { return v.raw[0] == '-' || v.raw[0] >= '0' && v.raw[0] <= '9' }

// wrongType is the error for a value that is not what was wanted, such as
// "an array of strings".
func (v *value) wrongType(wanted string) error {
	return withCode("invalid_type", parley.Invalid(v.path(),
		"Invalid type for '%s': expected %s, but got %s instead.", v.path(), wanted, v.kind()))
}

// invalid is the error for a value of the right type that cannot be accepted.
func (v *value) invalid(code, format string, args ...any) error {
	e := parley.Invalid(v.path(), format, args...)
	e.Message = "Invalid '" + v.path() + "': " + e.Message
	return withCode(code, e)
}

// unsupported is the error for a value that is fine in itself but asks for
// something this server does not do.
func (v *value) unsupported(format string, args ...any) error {
	e := parley.Invalid(v.path(), format, args...)
	e.Message = "Unsupported parameter: '" + v.path() + "': " + e.Message
	return withCode("unsupported_parameter", e)
}

func (v *value) text() (string, error) {
	if !v.isString() {
		return "", v.wrongType("a string")
	}
	return unquote(v.raw), nil
}

func (v *value) flag() (bool, error) {
	if b := v.raw[0]; b != 't' && b != 'f' {
		return false, v.wrongType("a boolean")
	}
	return v.raw[0] == 't', nil
}

// integer reads a whole number. A decimal without a fraction, such as 5.0,
// counts as one, because some clients have no integers.
func (v *value) integer() (int64, error) {
	if !v.isNumber() {
		return 0, v.wrongType("an integer")
	}
	if n, err := strconv.ParseInt(string(v.raw), 10, 64); err == nil {
		return n, nil
	}
	f, err := strconv.ParseFloat(string(v.raw), 64)
	if err != nil || f >= 1<<63 || f < -1<<63 {
		return 0, v.invalid("invalid_value", "the number does not fit 64 bits.")
	}
	if f != float64(int64(f)) {
		return 0, v.wrongType("an integer")
	}
	return int64(f), nil
}

func (v *value) integerIn(low, high int64) (int64, error) {
	n, err := v.integer()
	switch {
	case err != nil:
		return 0, err
	case n < low:
		return 0, v.invalid("integer_below_min_value",
			"integer below minimum value. Expected a value >= %d, but got %d instead.", low, n)
	case n > high:
		return 0, v.invalid("integer_above_max_value",
			"integer above maximum value. Expected a value <= %d, but got %d instead.", high, n)
	}
	return n, nil
}

func (v *value) decimalIn(low, high float64) (float64, error) {
	if !v.isNumber() {
		return 0, v.wrongType("a decimal")
	}
	f, _ := strconv.ParseFloat(string(v.raw), 64) // out of range gives ±Inf, refused below
	switch {
	case f < low:
		return 0, v.invalid("decimal_below_min_value",
			"decimal below minimum value. Expected a value >= %g, but got %g instead.", low, f)
	case f > high:
		return 0, v.invalid("decimal_above_max_value",
			"decimal above maximum value. Expected a value <= %g, but got %g instead.", high, f)
	}
	return f, nil
}

// free decodes a value of any shape. Whole numbers become int64, as templates
// tell 1 from 1.0.
func (v *value) free() any {
	switch {
	case v.isObject():
		object := map[string]any{}
		for key, member := range v.members() {
			object[key] = member.free()
		}
		return object
	case v.isArray():
		array := []any{}
		for _, element := range v.elements() {
			array = append(array, element.free())
		}
		return array
	case v.isString():
		return unquote(v.raw)
	case v.isNumber():
		return number(v.raw)
	case v.isNull():
		return nil
	}
	return v.raw[0] == 't'
}

func number(raw []byte) any {
	if n, err := strconv.ParseInt(string(raw), 10, 64); err == nil {
		return n
	}
	f, _ := strconv.ParseFloat(string(raw), 64)
	return f
}
