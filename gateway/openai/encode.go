package openai

import (
	"bytes"
	"encoding/json"
	"sync"
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
	e := encoders.Get().(*encoder)
	e.buffer.Reset()
	if err := e.json.Encode(v); err != nil {
		return nil, err
	}
	line := bytes.TrimSuffix(e.buffer.Bytes(), []byte("\n"))
	if len(line) > keptBuffer {
		return line, nil
	}
	line = bytes.Clone(line)
	encoders.Put(e)
	return line, nil
}

// keptBuffer is how long a text is at most whose buffer is used again.
const keptBuffer = 16 << 10

// An encoder writes JSON into a buffer that is used again. What is kept of it is a copy without
// spare room: the events of every open response are in memory until they are stored.
type encoder struct {
	buffer bytes.Buffer
	json   *json.Encoder
}

var encoders = sync.Pool{New: func() any {
	e := &encoder{}
	e.json = json.NewEncoder(&e.buffer)
	e.json.SetEscapeHTML(false)
	return e
}}

// EventType returns the type of an event, which is also its name in a stream.
func EventType(event json.RawMessage) string {
	if rest, ours := bytes.CutPrefix(event, []byte(`{"type":"`)); ours { // no name has an escape
		name, _, _ := bytes.Cut(rest, []byte(`"`))
		return string(name)
	}
	var e struct {
		Type string `json:"type"`
	}
	_ = json.Unmarshal(event, &e) // an event that is not JSON has no type
	return e.Type
}
