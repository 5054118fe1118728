package parley

import "encoding/json"

// A Grammar describes which texts an answer may be. It is plain data, a tree: the
// gateway builds it, an engine compiles it and then offers the sampler only
// tokens that keep the answer inside it. It travels as JSON. The zero value is
// not a grammar; a nil *Grammar in a [Request] leaves the answer free.
//
// An answer under a grammar ends when nothing can follow, and may
// use the model's end token only where the text is complete. It is cut short
// by MaxTokens and stop strings like any other.
type Grammar struct {
	// Kind says which of the other fields count.
	Kind GrammarKind `json:"kind"`
	// Text is the literal, or the regular expression.
	Text string `json:"text,omitempty"`
	// Schema is a JSON Schema. Strict refuses a schema that cannot be enforced completely,
	// instead of ignoring the keywords that cannot be enforced.
	Schema json.RawMessage `json:"schema,omitempty"`
	Strict bool            `json:"strict,omitempty"`
	// Parts are the members of a sequence or a choice, or the one that is repeated.
	Parts []Grammar `json:"parts,omitempty"`
	// Min and Max bound a repetition; a Max of 0 means no bound.
	Min int `json:"min,omitempty"`
	Max int `json:"max,omitempty"`
	// Triggers interrupt free text.
	Triggers []GrammarTrigger `json:"triggers,omitempty"`
}

// A GrammarKind names a kind of [Grammar].
type GrammarKind string

// The kinds of grammar.
const (
	// GrammarLiteral is exactly Text.
	GrammarLiteral GrammarKind = "literal"
	// GrammarRegex is what the regular expression Text matches as a whole.
	GrammarRegex GrammarKind = "regex"
	// GrammarSchema is a JSON value that Schema allows.
	GrammarSchema GrammarKind = "schema"
	// GrammarObject is any JSON object.
	GrammarObject GrammarKind = "object"
	// GrammarSequence is all Parts, one after the other.
	GrammarSequence GrammarKind = "sequence"
	// GrammarChoice is one of Parts.
	GrammarChoice GrammarKind = "choice"
	// GrammarRepeat is the one part, Min to Max times.
	GrammarRepeat GrammarKind = "repeat"
	// GrammarText is free text, until one of Triggers appears in it.
	GrammarText GrammarKind = "text"
)

// A GrammarTrigger is a string that ends free text: what follows it must be
// Then. Again lets free text, with the same triggers, follow that.
type GrammarTrigger struct {
	Text  string  `json:"text"`
	Then  Grammar `json:"then"`
	Again bool    `json:"again,omitempty"`
}

// Literal is the grammar of one text.
func Literal(text string) Grammar { return Grammar{Kind: GrammarLiteral, Text: text} }

// Regex is the grammar of what a regular expression matches from end to end.
// Its syntax is that of package regexp, without word boundaries.
func Regex(expression string) Grammar { return Grammar{Kind: GrammarRegex, Text: expression} }

// JSONSchema is the grammar of the JSON values that a schema allows. Strict
// refuses a schema that the engine cannot enforce completely.
func JSONSchema(schema []byte, strict bool) Grammar {
	return Grammar{Kind: GrammarSchema, Schema: schema, Strict: strict}
}

// JSONObject is the grammar of all JSON objects.
func JSONObject() Grammar { return Grammar{Kind: GrammarObject} }

// Sequence is the grammar of its parts in order.
func Sequence(parts ...Grammar) Grammar { return Grammar{Kind: GrammarSequence, Parts: parts} }

// Choice is the grammar of any one of its parts.
func Choice(parts ...Grammar) Grammar { return Grammar{Kind: GrammarChoice, Parts: parts} }

// Repeat is the grammar of least to most of part in a row; a most of 0 means
// no bound. The part must not be able to be empty.
func Repeat(part Grammar, least, most int) Grammar {
	return Grammar{Kind: GrammarRepeat, Parts: []Grammar{part}, Min: least, Max: most}
}

// Optional is the grammar of part or nothing.
func Optional(part Grammar) Grammar { return Repeat(part, 0, 1) }

// FreeText is the grammar of any text in which each trigger is followed by its
// Then. It constrains models that may call tools: the text is free, but once the
// model has written the opening of a call, it must write a valid one.
func FreeText(triggers ...GrammarTrigger) Grammar {
	return Grammar{Kind: GrammarText, Triggers: triggers}
}
