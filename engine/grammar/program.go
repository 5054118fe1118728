package grammar

import (
	"crypto/sha256"

	"parley/engine/automaton"
)

// A rule is a machine, or a counted repetition of another rule.
type rule struct {
	machine *automaton.Machine
	repeat  *repetition
}

// countMax bounds how often something is repeated.
const countMax = 1 << 30

// A repetition runs body least to most times; a most of 0 means no bound.
type repetition struct {
	body        automaton.RuleID
	least, most int32
}

// A node is a place in a program.
type node struct {
	// accept: the rule may end here. pure: it can do nothing else.
	accept, pure bool
	// calm: no rule is called from here on until this one ends.
	calm  bool
	edges []automaton.Edge
	calls []link
	// repeat is set for the one node of a repetition, body is where it begins.
	repeat *repetition
	body   int32
	// loops are the classes of characters that lead back to the node, and
	// single those after which its rule has ended.
	loops, single classes
}

// A link is a call of the rule that begins at start, which returns to back; a
// call in last position returns to the caller of its rule.
type link struct {
	start, back int32
	last        bool
}

// A Program is a compiled grammar. It does not change and may be used by any
// number of goroutines.
type Program struct {
	nodes []node
	start int32
	// needs is, for each node, how many frames it takes at least to complete
	// its rule; hopeless if it cannot be completed.
	needs []uint8
	// builtin is the number of nodes that all programs have in common.
	builtin int32
	// char is where a character of a string begins, and inside the node between
	// the quotes of a plain one.
	char, inside int32
	key          [sha256.Size]byte
	unenforced   []string
	// far is, for each node, how many bytes it takes at least to complete its rule, once that was measured.
	far []int32
}

// Unenforced returns the keywords of schemas that are not strict which an answer is
// not held to, in order.
func (p *Program) Unenforced() []string { return p.unenforced }

// Nodes returns the size of the automaton, for logs.
func (p *Program) Nodes() int { return len(p.nodes) }

// Key returns a digest of the grammar: programs of equal keys are equal.
func (p *Program) Key() [sha256.Size]byte { return p.key }

const (
	// widthMax bounds how many rules can be entered where one was, and placesMax
	// how many places are followed through one byte: ambiguous recursion
	// doubles them at each level.
	widthMax  = 512
	placesMax = 64
	// framesMax bounds the stack: the nesting of values in an answer. A model that
	// keeps nesting is made to end while there is room in an ordinary context.
	framesMax = 64
)

// hopeless marks a node from which its rule cannot be completed.
const hopeless = 255

// next returns the node to which b leads, or -1.
func (p *Program) next(from int32, b byte) int32 {
	edges := p.nodes[from].edges
	for i := range edges {
		if e := &edges[i]; b <= e.Hi {
			if b >= e.Lo {
				return e.To
			}
			break
		}
	}
	return -1
}
