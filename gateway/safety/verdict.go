package safety

import (
	"slices"
	"strings"
)

// An Origin is where a text comes from. It decides what is out of place in it,
// and policies name it as a role.
type Origin uint8

// The origins. Orders are what users are there to give; in what a tool or a
// search brought they are an attempt to take the model over. FromModel is an
// answer that is being written; FromAssistant is what a client says that the
// model said or called before. FromDefinition is what a client says of its tools.
const (
	FromUser Origin = iota
	FromTool
	FromModel
	FromSystem
	FromAssistant
	FromDefinition
	origins
)

var originNames = [origins]string{"user", "tool", "model", "system", "assistant", "definition"}

// promptRoles are the names of the origins of prompts.
var promptRoles = []string{"system", "user", "assistant", "tool", "definition"}

// String returns the origin's name.
func (o Origin) String() string { return originNames[o] }

// MarshalText writes the origin's name.
func (o Origin) MarshalText() ([]byte, error) { return []byte(o.String()), nil }

// A Text is what a screen judges.
type Text struct {
	Body   string
	Origin Origin
	// System is the system prompt before it, which says what is out of place, too.
	System string
	// Names has names, places and postal addresses looked for, not only what has
	// a form. It costs most of the time that a screen takes.
	Names bool
}

// A Verdict is what a screen says of a text: for each category a score from 0
// to 1, and where in the text it comes from. At a score of 0.5 about one clean
// text in fifty is found guilty of something.
type Verdict struct {
	Scores   [categories]float32
	Findings []Finding
}

// keepOnly drops what was not asked for.
func (v *Verdict) keepOnly(asked func(Category) bool) {
	v.Findings = slices.DeleteFunc(v.Findings, func(f Finding) bool { return !asked(f.Category) })
	for c := range v.Scores {
		if !asked(Category(c)) {
			v.Scores[c] = 0
		}
	}
}

func (v *Verdict) raise(name string, score float32) {
	c, err := ParseCategory(name)
	if err != nil {
		base, _, _ := strings.Cut(name, "/")
		if c, err = ParseCategory(base); err != nil {
			return
		}
	}
	v.Scores[c] = max(v.Scores[c], min(max(score, 0), 1))
}
