package dialect

import (
	"encoding/json"
	"strings"
)

// readNested returns arguments whose members are elements as a JSON object. Every tag has mark before it; the elements
// of lists are called item.
func readNested(text, mark string, s *schema) (string, bool) {
	p := nestedReader{rest: text, mark: mark}
	value, ok := p.content(s, 0)
	if p.rest != "" || !ok {
		return "", false
	}
	if strings.TrimSpace(text) == "" {
		return "{}", true
	}
	return value, strings.HasPrefix(value, "{") && json.Valid([]byte(value))
}

// A nestedReader reads elements from the front of a text.
type nestedReader struct{ rest, mark string }

// content reads what stands inside of an element, up to its end tag: elements or a value.
func (p *nestedReader) content(s *schema, depth int) (string, bool) {
	text, rest, found := strings.Cut(p.rest, p.mark)
	if depth > literalDepthMax || found && strings.HasPrefix(rest, "/") {
		return "", false
	}
	if !found || strings.HasPrefix(rest, "</") {
		p.rest = p.rest[len(text):]
		return s.value(text), true
	}
	var names, values []string
	for {
		_, after, _ := strings.Cut(p.rest, p.mark)
		if !strings.HasPrefix(after, "<") || strings.HasPrefix(after, "</") {
			break
		}
		name, inner, ok := strings.Cut(after[1:], ">")
		if !ok {
			return "", false
		}
		p.rest = inner
		value, ok := p.content(s.inner(name), depth+1)
		if !ok {
			return "", false
		}
		if p.rest, ok = strings.CutPrefix(p.rest, p.mark+"</"+name+">"); !ok {
			return "", false
		}
		names, values = append(names, name), append(values, value)
	}
	p.rest = strings.TrimLeft(p.rest, " \n")
	return joinMembers(names, values), true
}

// joinMembers returns a list if all names are item, and an object otherwise.
func joinMembers(names, values []string) string {
	isList := true
	members := make([]string, len(names))
	for i, name := range names {
		isList = isList && name == "item"
		members[i] = quote(name) + ": " + values[i]
	}
	if isList {
		return "[" + strings.Join(values, ", ") + "]"
	}
	return "{" + strings.Join(members, ", ") + "}"
}
