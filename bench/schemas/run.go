package schemas

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"parley"
	"parley/engine/grammar"
)

// Options say what is measured.
type Options struct {
	// Roots are folders of schemas.
	Roots []string
	// Answers is how many answers are written over all schemas, at least one for each.
	Answers int
	Seed    uint64
}

// Run measures the schemas under the folders.
func Run(ctx context.Context, o Options, progress func(done, total int)) (*Report, error) {
	var all []source
	for _, root := range o.Roots {
		list, err := read(root)
		if err != nil {
			return nil, err
		}
		all = append(all, list...)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("no JSON file under %v", o.Roots)
	}
	w, err := newWalker(o.Seed)
	if err != nil {
		return nil, err
	}
	m := &measurement{walker: w, report: newReport(), share: float64(o.Answers) / float64(len(all))}
	for i := range all {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		progress(i, len(all))
		m.measure(&all[i])
	}
	for i := 0; m.report.Answers < o.Answers && len(m.kept) > 0; i = (i + 1) % len(m.kept) {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		m.answers(m.kept[i], 1)
		if i == 0 {
			if m.rounds++; m.rounds > roundsMax {
				break
			}
		}
	}
	m.report.finish()
	return m.report, nil
}

// roundsMax bounds how often all schemas are asked for one more answer.
const roundsMax = 1000

type measurement struct {
	walker *walker
	report *Report
	// share is how many answers a schema is asked for at first.
	share  float64
	kept   []*accepted
	rounds int
}

// An accepted schema, ready to be asked again.
type accepted struct {
	source    *source
	program   *grammar.Program
	validator *jsonschema.Schema
}

// measure compiles a schema, asks for answers and tries its examples.
func (m *measurement) measure(s *source) {
	g := parley.JSONSchema(s.schema, true)
	began := time.Now()
	program, err := grammar.Compile(&g)
	m.report.compiled(s, time.Since(began), err)
	if err != nil {
		return
	}
	a := &accepted{source: s, program: program}
	if a.validator, err = newValidator(s); err != nil {
		m.report.Unchecked++
		return
	}
	m.kept = append(m.kept, a)
	m.answers(a, max(1, int(m.share)))
	m.examples(a)
}

// answers writes n answers and has each validated.
func (m *measurement) answers(a *accepted, n int) {
	start := grammar.NewMasker(m.walker.vocabulary, maskBytes).Start(a.program)
	for range n {
		text, ended, err := m.walker.answer(start.Fork())
		switch {
		case err != nil:
			m.report.fail(a.source, err.Error(), string(text))
		case !ended:
			m.report.Endless++
		default:
			m.report.Answers++
			if err := validate(a.validator, text); err != nil {
				m.report.fail(a.source, err.Error(), string(text))
			}
		}
	}
}

func validate(v *jsonschema.Schema, text []byte) error {
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return err
	}
	return v.Validate(value)
}

// examples tries the values that come with a schema: one that does not satisfy it must not
// be taken. How many of the others are is a measure of how much an answer may say.
func (m *measurement) examples(a *accepted) {
	for _, e := range a.source.tests {
		valid := validate(a.validator, e.Data) == nil
		if valid != e.Valid {
			continue // the validator is of another opinion than the collection
		}
		taken := m.takes(a, e)
		switch {
		case valid:
			m.report.Valid++
			if taken {
				m.report.ValidTaken++
			}
		case taken:
			m.report.fail(a.source, "takes an example that is not valid", string(e.Data))
		default:
			m.report.InvalidRefused++
		}
	}
}

// takes reports whether the program takes an example, in the spelling that it came in
// less its white space.
func (m *measurement) takes(a *accepted, e example) bool {
	at := grammar.NewMasker(m.walker.vocabulary, maskBytes).Start(a.program)
	for _, b := range compact(e.Data) {
		if t, ok := m.walker.single[b]; !ok || !at.Accept(t) {
			return false
		}
	}
	return at.Done()
}

func compact(data []byte) []byte {
	var out bytes.Buffer
	if err := json.Compact(&out, data); err != nil {
		return data
	}
	return out.Bytes()
}
