package grammar

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
	schemaBytesMax  = 256 << 10
	patternBytesMax = 4 << 10
	nestingMax      = 96
	stepsFree       = 300_000
	stepsPerByte    = 16
	stepsMax        = 1_800_000
	nodesMax        = 120_000
	countMax        = 1 << 30
	// widthMax bounds how many rules can be entered where one was, and placesMax
	// how many places are followed through one byte: ambiguous recursion
	// doubles them at each level.
	widthMax  = 512
	placesMax = 64
	// framesMax bounds the stack: the nesting of values in an answer. A model that
	// keeps nesting is made to end while there is room in an ordinary context.
	framesMax = 64
)

// A meter bounds the work of one compilation. It counts steps rather than time,
// so that the same grammar is refused on every machine.
type meter struct {
	steps, nodes int
	// bytes is how much the schemas say.
	bytes int
	// path is the place in the schema that is being compiled.
	path []string
}

// A refusal carries an error out of the depth of a compilation to [Compile].
type refusal struct{ err error }

// refuse ends the compilation.
func (m *meter) refuse(format string, args ...any) {
	err := parley.Invalid("grammar", format, args...)
	if len(m.path) > 0 {
		err.Message = "at " + m.where() + ": " + err.Message
	}
	panic(refusal{err})
}

// where is the path as a JSON pointer, cut to a readable length.
func (m *meter) where() string {
	const longest = 200
	where := "#/" + strings.Join(m.path, "/")
	if len(where) > longest {
		where = where[:longest] + "…"
	}
	return strings.ToValidUTF8(where, "")
}

// step counts n steps.
func (m *meter) step(n int) {
	if m.steps += n; m.steps > m.most() {
		m.refuse(
			"the grammar is too complex: it needs more than %d steps to compile; use fewer alternatives, shorter "+
				"patterns or fewer properties", m.most())
	}
}

// most is how many steps may be taken.
func (m *meter) most() int { return min(stepsMax, stepsFree+stepsPerByte*m.bytes) }

// node counts one node of an automaton.
func (m *meter) node() {
	m.step(1)
	if m.nodes++; m.nodes > nodesMax {
		m.refuse("the grammar is too large: it needs more than %d states", nodesMax)
	}
}

// within runs what under a longer path.
func (m *meter) within(what func(), elem ...string) {
	if len(m.path) > 2*nestingMax {
		m.refuse("the grammar is nested too deeply")
	}
	m.path = append(m.path, elem...)
	what()
	m.path = m.path[:len(m.path)-len(elem)]
}

// guard turns a refusal during what into an error.
func guard(what func()) (err error) {
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

// attempt runs what and returns its refusal. A refusal for the meter's bounds
// is not the caller's to handle and is passed on.
func (m *meter) attempt(what func()) error {
	path := m.path
	err := guard(what)
	if m.path = path; m.steps > m.most() || m.nodes > nodesMax {
		m.refuse("the grammar is too complex")
	}
	return err
}
