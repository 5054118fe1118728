package main

import (
	_ "embed"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"unicode/utf8"
)

//go:embed pii.txt
var piiText string

// How many texts are invented from each sentence, and the share of them that
// is written without capitals.
const (
	perSentence = 12
	small       = 0.25
)

// invented fills sentences with what stands in the spans of texts: our own
// sentences, and those of the texts with the spans exchanged.
func invented(texts []*tagged, random *rand.Rand) []*tagged {
	values := map[string][]string{}
	forms := map[string]bool{}
	for _, t := range texts {
		for _, s := range t.Spans {
			values[s.Type] = append(values[s.Type], s.Value)
		}
		forms[t.braced()] = true
	}
	for line := range strings.Lines(piiText) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			forms[strings.ReplaceAll(line, `\n`, "\n")] = true
		}
	}
	var list []*tagged
	for _, form := range slices.Sorted(maps.Keys(forms)) {
		for range perSentence {
			if r, ok := fill(form, values, random); ok {
				list = append(list, newTagged(r))
			}
		}
	}
	return list
}

// braced is the text with the types of its spans in braces.
func (r *row) braced() string {
	runes := []rune(r.Text)
	spans := slices.Clone(r.Spans)
	slices.SortFunc(spans, func(a, b span) int { return b.Start - a.Start })
	for _, s := range spans {
		if s.End <= len(runes) && s.Start < s.End {
			runes = slices.Replace(runes, s.Start, s.End, []rune("{"+s.Type+"}")...)
		}
	}
	return string(runes)
}

// fill puts values into the braces of a form.
func fill(form string, values map[string][]string, random *rand.Rand) (*row, bool) {
	r := &row{Source: "seed"}
	var text strings.Builder
	for {
		plain, rest, ok := strings.Cut(form, "{")
		text.WriteString(plain)
		kind, after, closed := strings.Cut(rest, "}")
		if !ok || !closed {
			break
		}
		choices := values[kind]
		if len(choices) == 0 {
			return nil, false
		}
		value := choices[random.IntN(len(choices))]
		start := utf8.RuneCountInString(text.String())
		text.WriteString(value)
		r.Spans = append(r.Spans,
			span{Type: kind, Value: value, Start: start, End: start + utf8.RuneCountInString(value)})
		form = after
	}
	r.Text = text.String()
	if lower := strings.ToLower(r.Text); random.Float64() < small &&
		utf8.RuneCountInString(lower) == utf8.RuneCountInString(r.Text) {
		r.Text = lower
	}
	return r, true
}
