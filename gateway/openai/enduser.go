package openai

import "encoding/json"

// EndUser returns whom a body names as the user that a request is made for:
// safety_identifier, or else user, or in the Anthropic interface metadata.user_id. It
// is empty if none is named, or the body is not an object.
func EndUser(body []byte) string {
	var named struct {
		SafetyIdentifier json.RawMessage `json:"safety_identifier"`
		User             json.RawMessage `json:"user"`
		Metadata         json.RawMessage `json:"metadata"`
	}
	if json.Unmarshal(body, &named) != nil {
		return ""
	}
	var metadata struct {
		UserID json.RawMessage `json:"user_id"`
	}
	_ = json.Unmarshal(named.Metadata, &metadata) // it is not always there
	for _, raw := range []json.RawMessage{named.SafetyIdentifier, named.User, metadata.UserID} {
		var name string
		if json.Unmarshal(raw, &name) == nil && name != "" {
			return name
		}
	}
	return ""
}
