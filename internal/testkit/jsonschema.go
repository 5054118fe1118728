package testkit

import (
	"encoding/json"
	"fmt"
	"math/big"
	"net/mail"
	"net/netip"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// A validator checks values against a JSON Schema. It shares nothing with the
// grammars of the engine: it works on decoded values, with package regexp and exact fractions.
type validator struct {
	root  any
	depth int
}

// ValidateJSON reports why a JSON text does not satisfy a schema, or nil.
func ValidateJSON(schema, text string) error {
	var root, v any
	if err := decodeNumbers(schema, &root); err != nil {
		return fmt.Errorf("schema: %w", err)
	}
	if err := decodeNumbers(text, &v); err != nil {
		return fmt.Errorf("not JSON: %w", err)
	}
	return (&validator{root: root}).check(root, v)
}

func decodeNumbers(text string, into any) error {
	if !json.Valid([]byte(text)) {
		return fmt.Errorf("invalid: %.80q", text)
	}
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	return d.Decode(into)
}

func (c *validator) check(schema, v any) error {
	if c.depth++; c.depth > 10000 {
		return fmt.Errorf("too deep")
	}
	defer func() { c.depth-- }()
	if b, ok := schema.(bool); ok {
		if !b {
			return fmt.Errorf("nothing is allowed")
		}
		return nil
	}
	s := schema.(map[string]any)
	for _, check := range []func(map[string]any, any) error{c.combined, c.kind, c.listed, c.text, c.number, c.array,
		c.object} {
		if err := check(s, v); err != nil {
			return err
		}
	}
	return nil
}

func (c *validator) combined(s map[string]any, v any) error {
	if ref, ok := s["$ref"].(string); ok {
		if err := c.check(c.resolve(ref), v); err != nil {
			return err
		}
	}
	for _, sub := range items(s["allOf"]) {
		if err := c.check(sub, v); err != nil {
			return err
		}
	}
	for _, name := range []string{"anyOf", "oneOf"} {
		group := items(s[name])
		if group != nil && !slices.ContainsFunc(group, func(sub any) bool { return c.check(sub, v) == nil }) {
			return fmt.Errorf("%v matches none of %s", v, name)
		}
	}
	return nil
}

func (c *validator) resolve(ref string) any {
	at := c.root
	for elem := range strings.SplitSeq(strings.TrimPrefix(ref, "#"), "/") {
		if elem != "" {
			at = at.(map[string]any)[elem]
		}
	}
	return at
}

func items(v any) []any {
	list, _ := v.([]any)
	return list
}

func (c *validator) kind(s map[string]any, v any) error {
	t, ok := s["type"]
	if !ok || s["nullable"] == true && v == nil {
		return nil
	}
	list := items(t)
	if list == nil {
		list = []any{t}
	}
	for _, name := range list {
		if isKind(name.(string), v) {
			return nil
		}
	}
	return fmt.Errorf("%T is not of the type %v", v, t)
}

func isKind(name string, v any) bool {
	switch v := v.(type) {
	case nil:
		return name == "null"
	case bool:
		return name == "boolean"
	case string:
		return name == "string"
	case []any:
		return name == "array"
	case map[string]any:
		return name == "object"
	case json.Number:
		return name == "number" || name == "integer" && rat(v).IsInt()
	}
	return false
}

func rat(n any) *big.Rat {
	r, ok := new(big.Rat).SetString(n.(json.Number).String())
	if !ok {
		panic(n)
	}
	return r
}

func (c *validator) listed(s map[string]any, v any) error {
	if list := items(s["enum"]); list != nil && !slices.ContainsFunc(list, func(w any) bool { return same(v, w) }) {
		return fmt.Errorf("%v is not in %v", v, list)
	}
	if want, ok := s["const"]; ok && !same(v, want) {
		return fmt.Errorf("%v is not %v", v, want)
	}
	return nil
}

func same(a, b any) bool {
	if x, ok := a.(json.Number); ok {
		y, ok := b.(json.Number)
		return ok && rat(x).Cmp(rat(y)) == 0
	}
	return reflect.DeepEqual(a, b)
}

func (c *validator) text(s map[string]any, v any) error {
	text, ok := v.(string)
	if !ok {
		return nil
	}
	length := big.NewRat(int64(utf8.RuneCountInString(text)), 1)
	if err := between(s, "minLength", "maxLength", length); err != nil {
		return fmt.Errorf("%q: %w", text, err)
	}
	if p, ok := s["pattern"].(string); ok && !regexp.MustCompile(p).MatchString(text) {
		return fmt.Errorf("%q does not match %s", text, p)
	}
	if f, ok := s["format"].(string); ok {
		return formatted(f, text)
	}
	return nil
}

func formatted(format, text string) (err error) {
	switch format {
	case "date":
		_, err = time.Parse(time.DateOnly, text)
	case "date-time":
		_, err = time.Parse(time.RFC3339Nano, text)
	case "time":
		_, err = time.Parse("15:04:05.999999999Z07:00", text)
	case "email":
		_, err = mail.ParseAddress(text)
	case "ipv4", "ipv6":
		_, err = netip.ParseAddr(text)
	case "uuid":
		if len(text) != 36 || strings.Count(text, "-") != 4 {
			err = fmt.Errorf("%q is not a uuid", text)
		}
	}
	return err
}

func between(s map[string]any, least, most string, v *big.Rat) error {
	if n, ok := s[least].(json.Number); ok && v.Cmp(rat(n)) < 0 {
		return fmt.Errorf("%v is below %s", v, least)
	}
	if n, ok := s[most].(json.Number); ok && v.Cmp(rat(n)) > 0 {
		return fmt.Errorf("%v is above %s", v, most)
	}
	return nil
}

func (c *validator) number(s map[string]any, v any) error {
	n, ok := v.(json.Number)
	if !ok {
		return nil
	}
	r := rat(n)
	if err := between(s, "minimum", "maximum", r); err != nil {
		return err
	}
	if err := between(s, "exclusiveMinimum", "exclusiveMaximum", r); err != nil {
		return err
	}
	for _, name := range []string{"exclusiveMinimum", "exclusiveMaximum"} {
		if limit, ok := s[name].(json.Number); ok && r.Cmp(rat(limit)) == 0 {
			return fmt.Errorf("%v is at the %s", v, name)
		}
	}
	if by, ok := s["multipleOf"].(json.Number); ok && !new(big.Rat).Quo(r, rat(by)).IsInt() {
		return fmt.Errorf("%v is not a multiple of %v", v, by)
	}
	return nil
}

func (c *validator) array(s map[string]any, v any) error {
	list, ok := v.([]any)
	if !ok {
		return nil
	}
	if err := between(s, "minItems", "maxItems", big.NewRat(int64(len(list)), 1)); err != nil {
		return err
	}
	prefix := items(s["prefixItems"])
	for i, element := range list {
		sub, ok := s["items"]
		if i < len(prefix) {
			sub, ok = prefix[i], true
		}
		if ok {
			if err := c.check(sub, element); err != nil {
				return fmt.Errorf("[%d]: %w", i, err)
			}
		}
	}
	return nil
}

func (c *validator) object(s map[string]any, v any) error {
	members, ok := v.(map[string]any)
	if !ok {
		return nil
	}
	if err := between(s, "minProperties", "maxProperties", big.NewRat(int64(len(members)), 1)); err != nil {
		return err
	}
	for _, name := range items(s["required"]) {
		if _, ok := members[name.(string)]; !ok {
			return fmt.Errorf("%q is missing", name)
		}
	}
	properties, _ := s["properties"].(map[string]any)
	for name, member := range members {
		sub, ok := properties[name]
		if !ok {
			if sub, ok = s["additionalProperties"]; !ok {
				continue
			}
		}
		if err := c.check(sub, member); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}
