package openai

import (
	"bytes"
	"encoding/json"
)

// EncodedJSON is what [Encode] has returned, and returns again.
type EncodedJSON []byte

// Encode writes v as one line of JSON without a line break. Unlike
// json.Marshal it leaves <, > and & as they are: answers are full of them and
// no browser reads them as HTML.
func Encode(v any) ([]byte, error) {
	switch v := v.(type) {
	case EncodedJSON:
		return v, nil
	case *ChatResponse:
		if body, ok := v.appendPlain(make([]byte, 0, 1024)); ok {
			return body, nil
		}
	}
	return encode(v)
}

func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// EventType returns the type of an event, which is also its name in a stream.
func EventType(event json.RawMessage) string {
	var e struct {
		Type string `json:"type"`
	}
	_ = json.Unmarshal(event, &e) // an event that is not JSON has no type
	return e.Type
}
