package exchange

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"

	"parley"
)

// Read parses the body of a request.
func Read[T any](x *Exchange, parse func([]byte) (T, error)) (request T, err error) {
	body, err := x.Body()
	if err != nil {
		return request, err
	}
	return parse(body)
}

// ReadOptional is Read for a body that may be left out: parse then gets nil.
func ReadOptional[T any](x *Exchange, parse func([]byte) (T, error)) (T, error) {
	if x.Request.ContentLength == 0 {
		return parse(nil)
	}
	return Read(x, parse)
}

// Decode reads a body into a struct. An error is always a [parley.Error] that names the
// field at fault.
func Decode(body []byte, into any) error {
	if len(bytes.TrimSpace(body)) == 0 {
		return parley.Invalid("", "The request body is empty. Send a JSON object.")
	}
	err := json.Unmarshal(body, into)
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok && wrong.Field != "" {
		field := wrong.Field
		if embedded, rest, ok := strings.Cut(field, "."); ok && strings.HasSuffix(embedded, "Fields") {
			field = rest // of a struct that several bodies embed
		}
		return parley.Invalid(field, "Invalid type for '%s': got a %s.", field, wrong.Value)
	}
	if err != nil {
		return parley.Invalid("", "The request body is not valid JSON: %v.", err)
	}
	return nil
}
