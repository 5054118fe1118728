package grammar

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"maps"
	"parley/engine/automaton"
	"slices"
	"strconv"

	"parley"
)

// The bounds of a tree of grammars.
const (
	triggersMax     = 128
	triggerBytesMax = 256
	partsMax        = 4096
)

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }

// Key returns a digest of a grammar, which is also its program's. An error is
// always a [parley.Error] about the request.
func Key(g *parley.Grammar) (key [sha256.Size]byte, err error) {
	wire, err := json.Marshal(g)
	if err != nil {
		return key, parley.Invalid("grammar", "the schema is not valid JSON")
	}
	return sha256.Sum256(wire), nil
}

// Compile turns a grammar into a program. An error is always a [parley.Error]
// about the request, and comes within a bounded number of steps.
func Compile(g *parley.Grammar) (*Program, error) {
	key, err := Key(g)
	if err != nil {
		return nil, err
	}
	var p *Program
	err = automaton.Guard(func() {
		c := newCompiler()
		main := c.main(g)
		p = assemble(c.meter, c.rules, main)
		p.key = key
		p.unenforced = sortedKeys(c.left)
	})
	if err != nil {
		return nil, err
	}
	return p, nil
}

// A compiler gathers the rules of one program.
type compiler struct {
	meter *automaton.Meter
	rules []rule
	// scalars are the rules of strings and numbers, by what holds for them: the
	// schemas of a grammar have many in common.
	scalars map[string]automaton.RuleID
	// left are the keywords that were left out.
	left map[string]bool
}

func newCompiler() *compiler {
	return &compiler{
		meter:   &automaton.Meter{},
		rules:   slices.Clone(builtins[:]),
		scalars: map[string]automaton.RuleID{},
		left:    map[string]bool{},
	}
}

func (c *compiler) main(g *parley.Grammar) (main automaton.RuleID) {
	main = c.reserve()
	c.define(main, func(s *automaton.Sketch) int32 { return c.tree(s, 0, g) })
	return main
}

// reserve makes room for a rule that is defined later, so that it can refer
// to itself.
func (c *compiler) reserve() automaton.RuleID {
	c.meter.Node()
	c.rules = append(c.rules, rule{})
	return automaton.RuleID(len(c.rules) - 1)
}

// define writes a rule that was reserved.
func (c *compiler) define(id automaton.RuleID, write func(s *automaton.Sketch) int32) {
	s := automaton.NewSketch(c.meter)
	c.rules[id].machine = s.Machine(write(s))
}

// rule adds a rule.
func (c *compiler) rule(m *automaton.Machine) automaton.RuleID {
	id := c.reserve()
	c.rules[id].machine = m
	return id
}

// scalar returns the rule that key names, which build makes the first time.
func (c *compiler) scalar(key string, build func() automaton.RuleID) automaton.RuleID {
	id, known := c.scalars[key]
	if !known {
		id = build()
		c.scalars[key] = id
	}
	return id
}

// repeat takes body least to most times; a negative most means no bound. Without
// a bound no counter beyond the least is needed.
func (c *compiler) repeat(s *automaton.Sketch, from int32, least, most int, body automaton.RuleID) int32 {
	switch {
	case most >= 0 && least > most:
		return s.Node()
	case most == 0:
		return from
	case least <= 1 && most < 0:
		return s.Times(from, least, most, func(from int32) int32 { return s.Call(from, body) })
	case least > countMax || most > countMax:
		c.meter.Refuse("a count of %d is above %d", max(least, most), countMax)
	}
	id := c.reserve()
	c.rules[id].repeat = &repetition{body: body, least: int32(least), most: int32(max(most, 0))}
	return s.Call(from, id)
}

// tree takes what a grammar takes.
func (c *compiler) tree(s *automaton.Sketch, from int32, g *parley.Grammar) (to int32) {
	if len(g.Parts) > partsMax {
		c.meter.Refuse("a grammar of %d parts, more than %d", len(g.Parts), partsMax)
	}
	part := func(from int32, i int) (to int32) {
		c.meter.Within(func() { to = c.tree(s, from, &g.Parts[i]) }, "parts", strconv.Itoa(i))
		return to
	}
	switch g.Kind {
	case parley.GrammarLiteral:
		return s.Literal(from, g.Text)
	case parley.GrammarRegex:
		return s.Embed(from, automaton.Whole(c.meter, g.Text, automaton.PlainText))
	case parley.GrammarSchema:
		return c.schema(s, from, g.Schema, g.Strict)
	case parley.GrammarObject:
		return s.Call(from, automaton.RuleObject)
	case parley.GrammarSequence:
		for i := range g.Parts {
			from = part(from, i)
		}
		return from
	case parley.GrammarChoice:
		end := s.Node()
		for i := range g.Parts {
			s.Link(part(from, i), end)
		}
		return end
	case parley.GrammarRepeat:
		return c.repeated(s, from, g)
	case parley.GrammarText:
		return c.freeText(s, from, g.Triggers)
	}
	c.meter.Refuse("unknown kind of grammar %q", g.Kind)
	return from
}

func (c *compiler) repeated(s *automaton.Sketch, from int32, g *parley.Grammar) int32 {
	if len(g.Parts) != 1 || g.Min < 0 || g.Max < 0 || g.Max > 0 && g.Max < g.Min {
		c.meter.Refuse("a repetition of %d to %d times and %d parts", g.Min, g.Max, len(g.Parts))
	}
	most := g.Max
	if most == 0 {
		most = -1
	}
	body := c.reserve()
	c.meter.Within(func() {
		c.define(body, func(s *automaton.Sketch) int32 { return c.tree(s, 0, &g.Parts[0]) })
	}, "parts", "0")
	return c.repeat(s, from, g.Min, most, body)
}

// freeText takes any bytes. It always knows the longest end of the text that
// begins a trigger; where that is a whole one, its grammar follows.
func (c *compiler) freeText(s *automaton.Sketch, from int32, triggers []parley.GrammarTrigger) int32 {
	t := c.newTriggers(s, triggers)
	s.Link(from, t.nodes[""])
	for i, trigger := range triggers {
		c.meter.Within(func() {
			after := c.tree(s, t.then[i], &trigger.Then)
			if trigger.Again {
				s.Link(after, t.nodes[""])
			} else {
				s.Link(after, t.end)
			}
		}, "triggers", strconv.Itoa(i))
	}
	for _, prefix := range sortedKeys(t.nodes) {
		s.Link(t.nodes[prefix], t.end)
		t.arcs(s, prefix, t.nodes[prefix])
	}
	return t.end
}

// triggers are the strings that free text must not contain without the
// grammar that follows them.
type triggers struct {
	texts []string
	then  []int32 // where each continues
	nodes map[string]int32
	// alphabet are the bytes of all triggers.
	alphabet []byte
	end      int32
}

func (c *compiler) newTriggers(s *automaton.Sketch, list []parley.GrammarTrigger) *triggers {
	if len(list) > triggersMax {
		c.meter.Refuse("%d triggers, more than %d", len(list), triggersMax)
	}
	t := &triggers{nodes: map[string]int32{"": s.Node()}, end: s.Node()}
	for _, trigger := range list {
		if trigger.Text == "" || len(trigger.Text) > triggerBytesMax {
			c.meter.Refuse("a trigger of %d bytes; it must have 1 to %d", len(trigger.Text), triggerBytesMax)
		}
		t.texts = append(t.texts, trigger.Text)
		t.then = append(t.then, s.Node())
		t.alphabet = append(t.alphabet, trigger.Text...)
		for i := 1; i < len(trigger.Text); i++ {
			if prefix := trigger.Text[:i]; t.nodes[prefix] == 0 {
				t.nodes[prefix] = s.Node()
			}
		}
	}
	slices.Sort(t.alphabet)
	t.alphabet = slices.Compact(t.alphabet)
	return t
}

// arcs writes where each byte leads after the text so far ended in prefix.
func (t *triggers) arcs(s *automaton.Sketch, prefix string, at int32) {
	next := 0
	for _, b := range t.alphabet {
		if int(b) > next {
			s.Take(at, byte(next), b-1, t.nodes[""])
		}
		s.Take(at, b, b, t.follow(s.Meter, prefix+string([]byte{b})))
		next = int(b) + 1
	}
	if next < 256 {
		s.Take(at, byte(next), 255, t.nodes[""])
	}
}

// follow returns the node for a text that ends in tail: behind the trigger it
// ends with, or at the longest end of it that begins one.
func (t *triggers) follow(m *automaton.Meter, tail string) int32 {
	m.Step(len(t.texts))
	for i, text := range t.texts {
		if len(text) <= len(tail) && tail[len(tail)-len(text):] == text {
			return t.then[i]
		}
	}
	for ; ; tail = tail[1:] {
		m.Step(1)
		if at, ok := t.nodes[tail]; ok {
			return at
		}
	}
}
