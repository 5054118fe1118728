package answer

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"regexp"

	"parley/gateway/openai"
	"parley/token"
)

// Messages returns a conversation as the template takes it, with the tools the
// model is told of. A template that knows no tools gets both in plain messages.
func (box *Tools) Messages(request *openai.ChatRequest) ([]token.Message, json.RawMessage, error) {
	var tools json.RawMessage
	if request.ToolChoice.Mode != openai.ToolsNone && len(request.Tools) > 0 {
		var err error
		if tools, err = definitions(request.Tools); err != nil {
			return nil, nil, err
		}
	}
	if !box.native && (tools != nil || !box.writesCalls) {
		return box.plainMessages(request.Messages, tools), nil, nil
	}
	messages := make([]token.Message, len(request.Messages))
	for i, message := range request.Messages {
		if box.wantsText {
			message.HasContent = true
		}
		messages[i] = templateMessage(message)
		if box.syntax.shortIDs {
			shortenIDs(&messages[i])
		}
	}
	return messages, tools, nil
}

// definitions lists tools as templates know them.
func definitions(tools []openai.Tool) (json.RawMessage, error) {
	type function struct {
		Name        string          `json:"name"`
		Description string          `json:"description"`
		Parameters  json.RawMessage `json:"parameters"`
	}
	type definition struct {
		Type     string   `json:"type"`
		Function function `json:"function"`
	}
	var list []definition
	for _, t := range tools {
		if t.Parameters == nil {
			t.Parameters = json.RawMessage(`{"type":"object","properties":{}}`)
		}
		list = append(list, definition{"function", function{t.Name, t.Description, t.Parameters}})
	}
	return openai.Encode(list)
}

// shortenIDs gives the calls of a message ids of nine letters and digits, which
// is all that some templates take. The same id always becomes the same.
func shortenIDs(m *token.Message) {
	m.ToolCallID = shortID(m.ToolCallID)
	for i := range m.ToolCalls {
		m.ToolCalls[i].ID = shortID(m.ToolCalls[i].ID)
	}
}

var nineCharacters = regexp.MustCompile(`^[a-zA-Z0-9]{9}$`)

func shortID(id string) string {
	if id == "" || nineCharacters.MatchString(id) {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	return hex.EncodeToString(sum[:])[:9]
}
