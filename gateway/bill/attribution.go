package bill

import (
	"bytes"
	"encoding/json"
)

// An attribution is what a body says about whom and what its request is for.
type attribution struct {
	// EndUser is safety_identifier, or else user, or in the Anthropic interface
	// metadata.user_id; empty if the body names no user.
	EndUser string
	// Metadata holds the members of metadata that are texts.
	Metadata map[string]string
}

// attributionOf reads a body once, and only if it has one of the members. What is wrong
// with it is left to the endpoint to report.
func attributionOf(body []byte) (a attribution) {
	if !mayHaveMember(body, `"metadata"`) && !mayHaveMember(body, `"user"`) &&
		!mayHaveMember(body, `"safety_identifier"`) {
		return a
	}
	var named struct {
		SafetyIdentifier any `json:"safety_identifier"`
		User             any `json:"user"`
		Metadata         any `json:"metadata"`
	}
	if json.Unmarshal(body, &named) != nil {
		return a
	}
	metadata, _ := named.Metadata.(map[string]any)
	for key, value := range metadata {
		if text, ok := value.(string); ok {
			if a.Metadata == nil {
				a.Metadata = map[string]string{}
			}
			a.Metadata[key] = text
		}
	}
	for _, value := range []any{named.SafetyIdentifier, named.User, a.Metadata["user_id"]} {
		if name, _ := value.(string); name != "" {
			a.EndUser = name
			break
		}
	}
	return a
}

// mayHaveMember reports whether a quoted name is followed by a colon anywhere in a body. The role of
// a message, which nearly all bodies have, is "user", too, and is not a member.
func mayHaveMember(body []byte, quoted string) bool {
	for {
		at := bytes.Index(body, []byte(quoted))
		if at < 0 {
			return false
		}
		body = bytes.TrimLeft(body[at+len(quoted):], " \t\r\n")
		if bytes.HasPrefix(body, []byte(":")) {
			return true
		}
	}
}
