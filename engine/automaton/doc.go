// Package automaton makes deterministic automata over bytes: of texts, of regular
// expressions as JSON Schema has them, of decimal numbers between bounds, and of the parts
// of JSON. A [Sketch] is an automaton as it is written down, a [Machine] the deterministic
// one it becomes. Machines can be combined: intersected, subtracted, and held to a number of
// characters. All work is counted by a [Meter], so that what explodes is refused after the
// same number of steps on every machine.
package automaton
