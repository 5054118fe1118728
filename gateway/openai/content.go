package openai

import (
	"bytes"
	"encoding/json"
)

// ParseContent reads the content of a message that was stored: a text, or
// parts. Beside texts the parts may hold what an assistant thought, the calls
// it made, and what those gave, since a turn is kept as one message. What is
// not understood is passed over.
func ParseContent(id, role, status string, content json.RawMessage) []Item {
	if !json.Valid(content) || !nestedAtMost(content, depthMax) {
		return nil
	}
	if status != "in_progress" && status != "completed" {
		status = "incomplete"
	}
	s := spokenTurn{message: Item{Type: ItemMessage, ID: id, Role: role, Status: status}}
	v := value{raw: bytes.TrimSpace(content)}
	switch {
	case v.isString():
		_ = s.message.readParts(v, partKind(role)) // a string is always a part
	case v.isArray():
		for _, element := range v.elements() {
			s.add(element)
		}
	}
	return s.items()
}

// partKind is the type of the text that a role says.
func partKind(role string) string {
	if role == "assistant" {
		return "output_text"
	}
	return "input_text"
}

// A spokenTurn is what one message holds.
type spokenTurn struct {
	message Item
	thought Item
	others  []Item
}

func (s *spokenTurn) add(part value) {
	if !part.isObject() {
		return
	}
	kind := ""
	f := part.fields()
	f.text("type", &kind)
	switch kind {
	case ItemFunctionCall, ItemFunctionOutput, ItemCustomCall, ItemCustomOutput:
		if item, err := readItem(part); err == nil {
			s.others = append(s.others, item)
		}
	case "reasoning_text":
		text := ""
		f.text("text", &text)
		s.thought.Parts = append(s.thought.Parts, ItemPart{Type: kind, Text: text})
	default:
		if text, err := readPart(part); err == nil {
			said := partKind(s.message.Role)
			if kind == "refusal" {
				said = kind
			}
			s.message.Parts = append(s.message.Parts, ItemPart{Type: said, Text: text})
		}
	}
}

func (s *spokenTurn) items() (items []Item) {
	if len(s.thought.Parts) > 0 {
		s.thought.Type, s.thought.ID, s.thought.Status = ItemReasoning, "rs_"+s.message.ID, s.message.Status
		items = append(items, s.thought)
	}
	if len(s.message.Parts) > 0 || len(s.others) == 0 {
		items = append(items, s.message)
	}
	return append(items, s.others...)
}
