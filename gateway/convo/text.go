package convo

import (
	"encoding/json"
	"strings"
)

// textMembers are the members of OpenAI's items and parts that hold what a
// reader would call the text, in the order they are read.
var textMembers = []string{"summary", "content", "text", "refusal", "output"}

// textDepthMax bounds how deep items are looked into.
const textDepthMax = 8

// PlainText returns the text within content: a string, a list of parts, an
// item, or a list of items. Pieces are put on lines of their own; what is not
// understood gives nothing.
func PlainText(content json.RawMessage) string {
	var value any
	if err := json.Unmarshal(content, &value); err != nil {
		return ""
	}
	var pieces []string
	collectText(value, textDepthMax, &pieces)
	return storable(strings.Join(pieces, "\n"))
}

func collectText(value any, depth int, pieces *[]string) {
	if depth == 0 {
		return
	}
	switch v := value.(type) {
	case string:
		if v != "" {
			*pieces = append(*pieces, v)
		}
	case []any:
		for _, element := range v {
			collectText(element, depth-1, pieces)
		}
	case map[string]any:
		for _, name := range textMembers {
			collectText(v[name], depth-1, pieces)
		}
	}
}
