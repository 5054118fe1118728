package grammar

import (
	"parley/engine/automaton"
)

// builtins are the machines of the built-in rules, the same for all programs.
var builtins = writeBuiltins()

func writeBuiltins() (rules [automaton.BuiltinRules]rule) {
	m := &automaton.Meter{}
	write := func(id automaton.RuleID, how func(s *automaton.Sketch) int32) {
		s := automaton.NewSketch(m)
		rules[id].machine = s.Machine(how(s))
	}
	write(automaton.RuleChar, func(s *automaton.Sketch) int32 { return s.Char(0) })
	write(automaton.RuleString, func(s *automaton.Sketch) int32 { return s.Text(0) })
	write(automaton.RuleNumber, (*automaton.Sketch).Number)
	write(automaton.RuleInteger, func(s *automaton.Sketch) int32 { return s.Integer(0, "-") })
	write(automaton.RuleValue, (*automaton.Sketch).AnyValue)
	write(automaton.RuleObject, func(s *automaton.Sketch) int32 {
		member := func(from int32) int32 {
			return s.Call(s.Colon(s.Call(from, automaton.RuleString)), automaton.RuleValue)
		}
		return s.List(0, '{', '}', member)
	})
	write(automaton.RuleArray, func(s *automaton.Sketch) int32 {
		return s.List(0, '[', ']', func(from int32) int32 { return s.Call(from, automaton.RuleValue) })
	})
	return rules
}
