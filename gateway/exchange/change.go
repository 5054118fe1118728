package exchange

import (
	"encoding/json"
	"net/url"
	"strconv"
)

// A Change is what a handler says of the change it made, for the audit log.
type Change struct {
	Target        string
	Before, After json.RawMessage
}

// Changes notes for the audit log what a call changed: the id of the object,
// and the object before and after, either of which may be nil. They must hold
// no secrets.
func (x *Exchange) Changes(target string, before, after any) {
	x.Change = Change{Target: target, Before: auditJSON(before), After: auditJSON(after)}
}

// auditBytesMax bounds what an entry keeps of an object.
const auditBytesMax = 64 << 10

func auditJSON(v any) json.RawMessage {
	if v == nil {
		return nil
	}
	text, err := json.Marshal(v)
	if err != nil || len(text) > auditBytesMax {
		text = json.RawMessage(`{"omitted":` + strconv.Itoa(len(text)) + `}`)
	}
	return text
}

// WithoutSecrets returns a model's source without what an address may hold of
// credentials: a password, or a signed query.
func WithoutSecrets(source string) string {
	address, err := url.Parse(source)
	if err != nil || address.Host == "" {
		return source
	}
	address.User, address.RawQuery, address.Fragment = nil, "", ""
	return address.String()
}
