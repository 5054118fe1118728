package shape

import (
	"bytes"

	"parley/gateway/openai"
)

// A textTemplate is an event of a stream around the text that it adds. It is cut
// out of one that was made from its parts, so that it is the same to the byte.
type textTemplate struct{ before, after []byte }

// templateText stands for the text while a template is made.
const templateText = "text of the template 8f1c9a"

// newTextTemplate makes a template of the event for templateText; ok is false if it
// cannot be told where the text is.
func newTextTemplate(event any) (t *textTemplate, ok bool) {
	body, err := openai.Encode(event)
	quoted := []byte(`"` + templateText + `"`)
	if err != nil || bytes.Count(body, []byte(templateText)) != 1 || bytes.Count(body, quoted) != 1 {
		return nil, false
	}
	before, after, _ := bytes.Cut(body, quoted)
	return &textTemplate{append([]byte("data: "), before...), append(after, "\n\n"...)}, true
}

// event appends the event for a text.
func (t *textTemplate) event(to []byte, text string) ([]byte, bool) {
	to = append(to, t.before...)
	if isPlain(text) {
		to = append(append(append(to, '"'), text...), '"')
	} else {
		quoted, err := openai.Encode(text)
		if err != nil {
			return to, false
		}
		to = append(to, quoted...)
	}
	return append(to, t.after...), true
}

// isPlain reports whether a text is written into JSON as it is.
func isPlain(text string) bool {
	for i := range len(text) {
		if c := text[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			return false
		}
	}
	return true
}
