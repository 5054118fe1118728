package schemas

import (
	"bytes"
	"errors"
	"time"

	"github.com/dlclark/regexp2/v2"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

// patternTimeout bounds one search by the validator, whose expressions backtrack.
const patternTimeout = 5 * time.Second

// newValidator returns the validator of a schema, with formats asserted and patterns read
// as ECMA-262 says.
func newValidator(s *source) (*jsonschema.Schema, error) {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(s.schema))
	if err != nil {
		return nil, err
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	c.UseRegexpEngine(ecma)
	c.UseLoader(nothing{})
	if s.draft != nil {
		c.DefaultDraft(s.draft)
	}
	if err := c.AddResource("https://schema.invalid/root.json", doc); err != nil {
		return nil, err
	}
	return c.Compile("https://schema.invalid/root.json")
}

// nothing loads no schema: none but the one at hand is known to the engine either.
type nothing struct{}

func (nothing) Load(string) (any, error) { return nil, errors.New("not part of the schema") }

// An expression is a pattern of ECMA-262.
type expression struct{ *regexp2.Regexp }

func ecma(text string) (jsonschema.Regexp, error) {
	re, err := regexp2.Compile(text, regexp2.ECMAScript|regexp2.Unicode)
	if err != nil {
		return nil, err
	}
	re.MatchTimeout = patternTimeout
	return expression{re}, nil
}

// MatchString implements [jsonschema.Regexp].
func (e expression) MatchString(text string) bool {
	found, err := e.Regexp.MatchString(text)
	return err == nil && found
}
