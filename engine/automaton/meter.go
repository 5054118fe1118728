package automaton

import (
	"strings"

	"parley"
)

// The bounds of what is compiled. They are far above what people write and
// keep what attackers write to a tenth of a second and a few dozen megabytes.
//
// Every grammar has stepsFree; what says more may take more, stepsPerByte for
// each byte that is not mere description, but never more than stepsMax: eighty
// large tools take their time in proportion, and a few lines that explode do not.
const (
	patternBytesMax = 4 << 10
	NestingMax      = 96
	StepsFree       = 300_000
	StepsPerByte    = 16
	StepsMax        = 1_800_000
	NodesMax        = 120_000
)

// A Meter bounds the work of one compilation. It counts steps rather than time,
// so that the same grammar is refused on every machine.
type Meter struct {
	Steps, nodes int
	// bytes is how much the schemas say.
	Bytes int
	// path is the place in the schema that is being compiled.
	Path []string
	// wasted are the steps of trials that failed.
	wasted int
}

// A refusal carries an error out of the depth of a compilation to [Compile].
type refusal struct{ err error }

// Refuse ends the compilation.
func (m *Meter) Refuse(format string, args ...any) {
	err := parley.Invalid("grammar", format, args...)
	if len(m.Path) > 0 {
		err.Message = "at " + m.where() + ": " + err.Message
	}
	panic(refusal{err})
}

// Pass ends the compilation with the error of another refusal.
func (m *Meter) Pass(err error) { panic(refusal{err}) }

// where is the path as a JSON pointer, cut to a readable length.
func (m *Meter) where() string {
	const longest = 200
	where := "#/" + strings.Join(m.Path, "/")
	if len(where) > longest {
		where = where[:longest] + "…"
	}
	return strings.ToValidUTF8(where, "")
}

// Step counts n steps.
func (m *Meter) Step(n int) {
	if m.Steps += n; m.Steps > m.most() {
		m.Refuse(
			"the grammar is too complex: it needs more than %d steps to compile; use fewer alternatives, shorter "+
				"patterns or fewer properties", m.most())
	}
}

// most is how many steps may be taken.
func (m *Meter) most() int { return min(StepsMax, StepsFree+StepsPerByte*m.Bytes) }

// Node counts one node of an automaton.
func (m *Meter) Node() {
	m.Step(1)
	if m.nodes++; m.nodes > NodesMax {
		m.Refuse("the grammar is too large: it needs more than %d states", NodesMax)
	}
}

// Within runs what under a longer path.
func (m *Meter) Within(what func(), elem ...string) {
	if len(m.Path) > 2*NestingMax {
		m.Refuse("the grammar is nested too deeply")
	}
	m.Path = append(m.Path, elem...)
	what()
	m.Path = m.Path[:len(m.Path)-len(elem)]
}

// Guard turns a refusal during what into an error.
func Guard(what func()) (err error) {
	defer func() {
		switch p := recover().(type) {
		case nil:
		case refusal:
			err = p.err
		default:
			panic(p)
		}
	}()
	what()
	return nil
}

// Attempt runs what and returns its refusal. A refusal for the meter's bounds
// is not the caller's to handle and is passed on.
func (m *Meter) Attempt(what func()) error {
	path := m.Path
	err := Guard(what)
	if m.Path = path; m.Steps > m.most() || m.nodes > NodesMax {
		m.Refuse("the grammar is too complex")
	}
	return err
}

// Trial runs what and reports whether it was not refused. The steps of one that was do
// not count as steps, but together such trials may take no more than a compilation.
func (m *Meter) Trial(what func()) bool {
	steps, nodes, path := m.Steps, m.nodes, m.Path
	if m.wasted > m.most() {
		return false
	}
	if Guard(what) == nil {
		return true
	}
	m.wasted += m.Steps - steps
	m.Steps, m.nodes, m.Path = steps, nodes, path
	return false
}
